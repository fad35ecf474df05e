package api

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v5"

	"tidings/streams/event"
)

// RecordQuery chooses the entries to follow.
type RecordQuery struct {
	// After is an id, a sequence of OUTCOMES, or "end"; empty: the beginning.
	After        string
	Tenant, Type string
	Key          event.Key
	Kinds        []string
	Outcomes     []string
	Final        bool // only the records that an event ended with
}

// Followed is one entry: a record, or another kind as it is.
type Followed struct {
	ID   string          `json:"id"` // where to go on
	Kind event.Kind      `json:"kind"`
	Data json.RawMessage `json:"data"`
}

// Follow calls handle for every entry that the query chooses, and goes on with the
// new ones until ctx is done or handle returns an error, which it returns. A
// connection that is lost is made again, behind what was handled. It returns a
// *[ProblemError] where tidings says no; of these, "forgotten" and "rewritten" mean
// that it cannot go on as if nothing had happened.
func (c *Client) Follow(ctx context.Context, q RecordQuery, handle func(Followed) error) error {
	pause := backoff.NewExponentialBackOff()
	pause.InitialInterval, pause.MaxInterval = 200*time.Millisecond, 10*time.Second
	for first := true; ; first = false {
		before := q.After
		err := c.followOnce(ctx, &q, handle)
		handled, ended := errors.AsType[*handlerError](err)
		refusal, refused := errors.AsType[*ProblemError](err)
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case ended:
			return handled.err
		case refused && refusal.Status != http.StatusServiceUnavailable:
			return err
		case first && err != nil && q.After == before:
			return err // it is not there at all
		case q.After != before:
			pause.Reset()
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(pause.NextBackOff()):
		}
	}
}

// handlerError is an error of whoever follows.
type handlerError struct{ err error }

func (e *handlerError) Error() string { return e.err.Error() }

func (c *Client) followOnce(ctx context.Context, q *RecordQuery, handle func(Followed) error) error {
	v := values{}
	v.set("after", q.After)
	v.set("tenant", q.Tenant)
	v.set("type", q.Type)
	v.set("key", string(q.Key))
	for _, kind := range q.Kinds {
		url.Values(v).Add("kind", kind)
	}
	for _, outcome := range q.Outcomes {
		url.Values(v).Add("outcome", outcome)
	}
	if q.Final {
		v.set("final", "true")
	}
	endless := *c.http()
	endless.Timeout = 0
	res, err := c.open(ctx, &endless, http.MethodGet, "/v1/records?"+url.Values(v).Encode(), nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	return readEvents(res.Body, func(e Followed) error {
		if err := handle(e); err != nil {
			return &handlerError{err}
		}
		q.After = e.ID
		return nil
	})
}

// readEvents reads server-sent events until the stream ends, which it always does
// with an error.
func readEvents(r io.Reader, handle func(Followed) error) error {
	in := bufio.NewReader(r)
	var e Followed
	for {
		line, err := in.ReadString('\n')
		if err != nil {
			return fmt.Errorf("the stream of records ended: %w", err)
		}
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			e.ID = value
		case "event":
			e.Kind = event.Kind(value)
		case "data":
			e.Data = append(e.Data, value...)
		case "":
			if line != "\n" || e.ID == "" { // a comment
				continue
			}
			if err := handle(e); err != nil {
				return err
			}
			e = Followed{}
		}
	}
}
