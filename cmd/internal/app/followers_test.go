package app_test

import (
	"context"
	"log/slog"
	"net"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/app"
	"tidings/streams"
	"tidings/streams/event"
)

const followerPassword = "0123456789-of-followers"

// follower returns a connection as another program has it.
func follower(t *testing.T, address string) *nats.Conn {
	t.Helper()
	nc, err := nats.Connect("nats://"+address, nats.UserInfo("follower", followerPassword))
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	return nc
}

func TestOtherProgramsFollow(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	address := ln.Addr().String()
	require.NoError(t, ln.Close())

	w := newWorld(t, nil)
	w.add("nats: {listen: '" + address + "', follower_password: " + followerPassword + "}")
	logged := &safe{}
	w.logger = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	client, stop := w.start()
	w.eventually("the log is open", func() bool { return w.part(client, "log").Ready && w.part(client, "dispatcher").Ready })
	w.post(client, "1", "/ok")
	w.rows(client, 1)

	t.Run("with the password: the history, to its end", func(t *testing.T) {
		records, err := streams.OpenRecords(t.Context(), follower(t, address), nil)
		require.NoError(t, err)
		ctx, enough := context.WithCancel(t.Context())
		defer enough()
		var last event.Record
		err = records.Follow(ctx, streams.Mark{}, streams.Filter{Final: true}, func(e streams.Entry) (err error) {
			last, err = event.DecodeRecord(e.Data)
			enough()
			return err
		})
		require.ErrorIs(t, err, context.Canceled)
		require.Equal(t, event.Processed, last.State.Outcome)
	})
	t.Run("and nobody without", func(t *testing.T) {
		_, err := nats.Connect("nats://" + address)
		require.ErrorIs(t, err, nats.ErrAuthorization)
	})
	stop()
	require.Contains(t, logged.String(), "followers are served")
	require.NotContains(t, logged.String(), followerPassword)
}

func TestAnAddressForFollowersThatIsTakenEndsTheStart(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { _ = ln.Close() })
	w := newWorld(t, nil)
	w.add("nats: {listen: '" + ln.Addr().String() + "', follower_password: " + followerPassword + "}")
	a, err := app.New(app.Options{Config: w.conf})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, a.Close()) })
	require.ErrorContains(t, a.Run(t.Context()), "open to followers on "+ln.Addr().String())
}
