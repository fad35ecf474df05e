package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/app"
	"tidings/cmd/internal/config"
)

func newServe(c *cli) *cobra.Command {
	var amqpURL, natsURL, listen, level string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Run Tidings",
		Long: `Runs everything in one process: takes events from RabbitMQ (AMQP_URL) and by
POST /v1/events, dispatches them, and keeps the ledger. The log is the embedded
NATS server below the data directory, or an external one (NATS_URL).

RabbitMQ and NATS may be down, now or later: they are waited for, and /readyz
says which part is not working and why. The first interrupt finishes what is in
hand; the second ends the process at once.

SIGHUP reads the configuration anew, as tidings config reload does.

The log goes to stderr: as text on a terminal, as JSON elsewhere or with --json.`,
		Args: exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			return c.serve(ctx, amqpURL, natsURL, listen, level)
		}),
	}
	cmd.Flags().StringVar(&amqpURL, "amqp-url", "", "RabbitMQ's URL (AMQP_URL); better in the environment if it holds a password")
	cmd.Flags().StringVar(&natsURL, "nats-url", "", "URL of an external NATS server (NATS_URL)")
	cmd.Flags().StringVar(&listen, "listen", "", "address of the API (TIDINGS_API_LISTEN)")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	complete(cmd, "log-level", "debug", "info", "warn", "error")
	return cmd
}

func (c *cli) serve(ctx context.Context, amqpURL, natsURL, listen, level string) (err error) {
	load := func() (config.Config, error) {
		conf, err := c.config()
		if err == nil {
			conf.Override("amqp.url", amqpURL)
			conf.Override("nats.url", natsURL)
			conf.Override("api.listen", listen)
		}
		return conf, err
	}
	conf, err := load()
	if err != nil {
		return err
	}
	logger, err := c.logger(level)
	if err != nil {
		return err
	}
	a, err := app.New(app.Options{
		Config: conf, Load: load, Version: thisBuild().Version, Logger: logger,
		Listening: func(url string) { logger.Info("the API takes requests", "url", url) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	defer reloadOnHangUp(ctx, a)()
	if err := a.Run(ctx); err != nil {
		return err
	}
	logger.Info("tidings has stopped")
	return nil
}

// reloadOnHangUp has SIGHUP reload the configuration until end is called. What came of
// it is in the log.
func reloadOnHangUp(ctx context.Context, a *app.App) (end func()) {
	hangUps, done := make(chan os.Signal, 1), make(chan struct{})
	signal.Notify(hangUps, syscall.SIGHUP)
	var reloading sync.WaitGroup
	reloading.Go(func() {
		for {
			select {
			case <-hangUps:
				_, _ = a.Reload(ctx, "SIGHUP")
			case <-done:
				return
			}
		}
	})
	return func() { signal.Stop(hangUps); close(done); reloading.Wait() }
}

// logger writes for people on a terminal, unless they ask for JSON, and JSON
// elsewhere.
func (c *cli) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level %q: it is debug, info, warn or error", level)
	}
	if c.json || !isTerminal(c.err) {
		return slog.New(slog.NewJSONHandler(c.err, &slog.HandlerOptions{Level: l, ReplaceAttr: withUnits})), nil
	}
	return slog.New(tint.NewTextHandler(c.err, &tint.Options{
		Level: l, NoColor: c.getenv("NO_COLOR") != "", TimeFormat: "15:04:05.000",
	})), nil
}

// withUnits writes durations as the text log does: JSON has them in nanoseconds.
func withUnits(_ []string, a slog.Attr) slog.Attr {
	if a.Value.Kind() == slog.KindDuration {
		a.Value = slog.StringValue(a.Value.Duration().String())
	}
	return a
}
