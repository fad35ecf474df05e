package campaign_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"

	"tidings/bridge/bridgetest"
)

func TestMain(m *testing.M) {
	if text := os.Getenv(childSettings); text != "" {
		if err := child(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	waitTogether()
	goleak.VerifyTestMain(bridgetest.Main(m))
}

// waitTogether lets all campaigns run at the same time, however few processors
// there are: most of the time they wait for an outage to end.
func waitTogether() {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		_ = flag.Set("test.parallel", "16")
	}
}
