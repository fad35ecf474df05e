package embedded

import (
	"fmt"
	"log/slog"
	"strings"
)

// bridge passes the server's log on. Notices are debug: they describe what
// Tidings says itself where it matters.
type bridge struct {
	log   *slog.Logger
	fatal chan string // the first fatal error, for Start
}

func newBridge(log *slog.Logger) *bridge {
	return &bridge{log: log.With("part", "nats-server"), fatal: make(chan string, 1)}
}

func text(format string, v []any) string { return strings.TrimSpace(fmt.Sprintf(format, v...)) }

func (b *bridge) Noticef(format string, v ...any) { b.log.Debug(text(format, v)) }
func (b *bridge) Debugf(format string, v ...any)  { b.log.Debug(text(format, v)) }
func (b *bridge) Tracef(format string, v ...any)  { b.log.Debug(text(format, v)) }
func (b *bridge) Errorf(format string, v ...any)  { b.log.Error(text(format, v)) }

// Warnf leaves out the warning about large payloads: that size is meant.
func (b *bridge) Warnf(format string, v ...any) {
	if strings.HasPrefix(format, "Maximum payloads over") {
		return
	}
	b.log.Warn(text(format, v))
}

// Fatalf does not end the process: Start returns the error.
func (b *bridge) Fatalf(format string, v ...any) {
	select {
	case b.fatal <- text(format, v):
	default:
		b.log.Error(text(format, v))
	}
}
