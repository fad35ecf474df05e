package bridge_test

import (
	"testing"

	"go.uber.org/goleak"

	"tidings/bridge/bridgetest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(bridgetest.Main(m)) }
