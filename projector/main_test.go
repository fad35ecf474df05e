package projector_test

import (
	"os"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(killedLedger); path != "" {
		if err := rebuildUntilKilled(path); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
		}
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}
