package streams

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// What the server must be. Older ones store batches and schedules with faults
// that were mended later, or know neither.
const (
	minAPILevel = 4
	minVersion  = "2.15.0"
)

// VersionError says that the server is too old.
type VersionError struct {
	Version  string
	APILevel int
}

// Error implements error.
func (e *VersionError) Error() string {
	return fmt.Sprintf("nats-server %s with JetStream API level %d is too old: upgrade it to %s or later (API level %d)",
		e.Version, e.APILevel, minVersion, minAPILevel)
}

// checkVersion returns a *VersionError if the server now connected to is too
// old. In a cluster of mixed versions that may change at every reconnect.
func checkVersion(ctx context.Context, nc *nats.Conn, js jetstream.JetStream) error {
	info, err := js.AccountInfo(ctx)
	if err != nil {
		return fmt.Errorf("ask for JetStream: %w", err)
	}
	version := nc.ConnectedServerVersion()
	if info.API.Level < minAPILevel || !atLeast(version, minVersion) {
		return &VersionError{Version: version, APILevel: info.API.Level}
	}
	return nil
}

// atLeast compares major.minor.patch; a suffix such as -RC.1 is ignored.
func atLeast(version, minimum string) bool {
	v, m := numbers(version), numbers(minimum)
	for i := range v {
		if v[i] != m[i] {
			return v[i] > m[i]
		}
	}
	return true
}

func numbers(version string) (n [3]int) {
	version, _, _ = strings.Cut(strings.TrimPrefix(version, "v"), "-")
	for i, part := range strings.SplitN(version, ".", 3) {
		n[i], _ = strconv.Atoi(part)
	}
	return n
}
