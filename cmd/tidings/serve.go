package main

import (
	"context"
	"errors"
	"io"
	"log/slog"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"

	"tidings/cmd/internal/app"
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
hand; the second ends the process at once.`,
		Args: exactly(),
		RunE: c.runs(func(ctx context.Context, _ []string) error {
			return c.serve(ctx, amqpURL, natsURL, listen, level)
		}),
	}
	cmd.Flags().StringVar(&amqpURL, "amqp-url", "", "RabbitMQ's URL (AMQP_URL); better in the environment if it holds a password")
	cmd.Flags().StringVar(&natsURL, "nats-url", "", "URL of an external NATS server (NATS_URL)")
	cmd.Flags().StringVar(&listen, "listen", "", "address of the API (TIDINGS_API_LISTEN)")
	cmd.Flags().StringVar(&level, "log-level", "info", "debug, info, warn or error")
	return cmd
}

func (c *cli) serve(ctx context.Context, amqpURL, natsURL, listen, level string) (err error) {
	conf, err := c.config()
	if err != nil {
		return err
	}
	setIf(&conf.AMQP.URL, amqpURL)
	setIf(&conf.NATS.URL, natsURL)
	setIf(&conf.API.Listen, listen)
	logger, err := c.logger(level)
	if err != nil {
		return err
	}
	a, err := app.New(app.Options{
		Config: conf, Version: thisBuild().Version, Logger: logger,
		Listening: func(url string) { logger.Info("the API takes requests", "url", url) },
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, a.Close()) }()
	logger.Info("tidings starts", "version", thisBuild().Version, "data", conf.Data)
	if err := a.Run(ctx); err != nil {
		return err
	}
	logger.Info("tidings has stopped: all that was in hand is recorded")
	return nil
}

func setIf[S ~string](target *S, value string) {
	if value != "" {
		*target = S(value)
	}
}

// logger writes for people on a terminal, and JSON elsewhere.
func (c *cli) logger(level string) (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(level)); err != nil {
		return nil, usage("--log-level %q: it is debug, info, warn or error", level)
	}
	return slog.New(logHandler(c.err, l, c.getenv("NO_COLOR") != "")), nil
}

func logHandler(w io.Writer, level slog.Level, noColor bool) slog.Handler {
	if !isTerminal(w) {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level})
	}
	return tint.NewTextHandler(w, &tint.Options{Level: level, NoColor: noColor, TimeFormat: "15:04:05.000"})
}
