package api

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"tidings/bridge"
	"tidings/store"
	"tidings/streams/event"
)

// Client asks a running tidings. Its errors say what to do: an
// *[UnreachableError] if nothing or something else answers, a *[ProblemError]
// if tidings says no.
type Client struct {
	BaseURL string // such as http://127.0.0.1:8420
	Token   string
	// Operator is who wants what is done with this client; it goes into histories.
	Operator string
	// HTTP makes the requests; nil takes one with a timeout of a minute. It is
	// never to follow redirects, which would send the token somewhere else.
	HTTP *http.Client
	// Behind is told why the ledger is behind the log, with each answer that says
	// so. It may be nil.
	Behind func(why string)
}

// UnreachableError means that there is no tidings at the URL.
type UnreachableError struct {
	URL string
	Err error
}

// Error implements error.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("no tidings at %s: start it with `tidings serve`, or set --url or TIDINGS_URL (%s)", e.URL, e.Err)
}

// Unwrap returns what happened.
func (e *UnreachableError) Unwrap() error { return e.Err }

// ProblemError is a refusal or failure in the words of the server.
type ProblemError struct {
	Status  int    // of HTTP
	Name    string // stable, such as not-found
	Detail  string
	Details []string
}

// Error implements error.
func (e *ProblemError) Error() string {
	text := e.Detail
	if e.Status == http.StatusUnauthorized {
		text += ": set --token, --token-file or TIDINGS_TOKEN; without them it is read from api.token in the data directory (--data)"
	}
	for _, d := range e.Details {
		text += "\n  " + d
	}
	return text
}

// EventQuery chooses ledger rows: those of a query, and of an address that one of
// their messages goes to, if it is set.
type EventQuery struct {
	store.Query
	Address string
}

// Events returns a page of ledger rows, newest first. The hash of a recipient, which
// a client cannot know, is not sent: the address is.
func (c *Client) Events(ctx context.Context, q EventQuery) (store.Page[store.Row], error) {
	v := values{}
	v.set("id", q.ID)
	v.set("tenant", q.Tenant)
	v.set("type", q.Type)
	v.set("outcome", string(q.Outcome))
	v.set("phase", string(q.Phase))
	v.set("source", q.Source)
	v.set("correlation_id", q.CorrelationID)
	v.set("text", q.Text)
	v.page(q.Since, q.Until, q.Limit, q.Cursor)
	header := http.Header{}
	if q.Address != "" {
		header.Set(RecipientHeader, q.Address)
	}
	body, err := c.do(ctx, http.MethodGet, "/v1/events?"+url.Values(v).Encode(), header, nil)
	if err != nil {
		return store.Page[store.Row]{}, err
	}
	return decode[store.Page[store.Row]](c, body)
}

// Event returns the event that a key, or an id of a tenant, names. An empty
// tenant means all.
func (c *Client) Event(ctx context.Context, id, tenant string) (Event, error) {
	v := values{}
	v.set("tenant", tenant)
	return get[Event](ctx, c, "/v1/events/"+segment(id), v)
}

// History returns the whole history of an event, in order.
func (c *Client) History(ctx context.Context, key event.Key) ([]store.Entry, error) {
	entries := []store.Entry{}
	v := values{}
	for {
		part, err := get[History](ctx, c, "/v1/events/"+segment(string(key))+"/history", v)
		if err != nil {
			return nil, err
		}
		entries = append(entries, part.Items...)
		if part.Next == 0 {
			return entries, nil
		}
		v = values{"after": {strconv.FormatUint(part.Next, 10)}}
	}
}

// Tries returns a page of the messages of an event, each with its tries.
func (c *Client) Tries(ctx context.Context, key event.Key, cursor string) (MessagePage, error) {
	v := values{}
	v.set("limit", strconv.Itoa(store.MaxLimit))
	v.set("cursor", cursor)
	return get[MessagePage](ctx, c, "/v1/events/"+segment(string(key))+"/messages", v)
}

// DeadLetters returns a page of the dead-letter list, newest first.
func (c *Client) DeadLetters(ctx context.Context, q store.LetterQuery) (LetterLines, error) {
	return get[LetterLines](ctx, c, "/v1/deadletters", lettersOf(q))
}

func lettersOf(q store.LetterQuery) values {
	v := values{}
	v.set("tenant", q.Tenant)
	v.set("cause", string(q.Cause))
	v.set("kind", string(q.Kind))
	v.set("type", q.Type)
	v.set("text", q.Text)
	v.page(q.Since, q.Until, q.Limit, q.Cursor)
	return v
}

// DeadLetter returns a dead letter with its payload.
func (c *Client) DeadLetter(ctx context.Context, key event.Key) (event.Letter, error) {
	letter, _, err := c.TaggedLetter(ctx, key)
	return letter, err
}

// TaggedLetter returns a dead letter with its payload, and the ETag by which it is
// known that it is still the same.
func (c *Client) TaggedLetter(ctx context.Context, key event.Key) (event.Letter, string, error) {
	header, body, err := c.ask(ctx, http.MethodGet, "/v1/deadletters/"+segment(string(key)), nil, nil)
	if err != nil {
		return event.Letter{}, "", err
	}
	letter, err := decode[event.Letter](c, body)
	return letter, header.Get("ETag"), err
}

// Payload writes the payload of a dead letter to w, byte for byte, as it comes.
// It returns an error if that was not all of it, or something else.
func (c *Client) Payload(ctx context.Context, key event.Key, w io.Writer) error {
	client := *c.http()
	client.Timeout = 0 // it may be large
	res, err := c.open(ctx, &client, http.MethodGet, "/v1/deadletters/"+segment(string(key))+"/raw", nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	hash := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, hash), res.Body); err != nil {
		return c.brokeOff(err)
	}
	if want := "sha-256=:" + base64.StdEncoding.EncodeToString(hash.Sum(nil)) + ":"; res.Header.Get("Repr-Digest") != want {
		return errors.New("what was read is not the payload: its digest is another")
	}
	return nil
}

// Status returns where the process stands.
func (c *Client) Status(ctx context.Context) (Status, error) {
	return get[Status](ctx, c, "/v1/status", nil)
}

// Ready returns which parts of the process work, as /readyz says. It needs no
// token. A process that is not ready is no error.
func (c *Client) Ready(ctx context.Context) (Ready, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(c.BaseURL, "/")+"/readyz", nil)
	if err != nil {
		return Ready{}, c.badURL()
	}
	res, err := c.http().Do(req)
	if err != nil {
		return Ready{}, c.stranger(plain(err))
	}
	defer res.Body.Close()
	body, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return Ready{}, c.stranger(fmt.Errorf("its answer broke off: %w", err))
	}
	return decode[Ready](c, body)
}

// ErrBatch means that a batch was given to [Client.Publish].
var ErrBatch = errors.New("this publishes one event, not a batch: POST " + bridge.TypeBatch + " to /v1/events instead")

// Publish hands in an event with the headers that describe it. It returns
// [ErrBatch] for a batch.
func (c *Client) Publish(ctx context.Context, header http.Header, body []byte) (Accepted, error) {
	if bridge.IsBatch(header.Get("Content-Type")) {
		return Accepted{}, ErrBatch
	}
	answer, err := c.do(ctx, http.MethodPost, "/v1/events", header, body)
	if err != nil {
		return Accepted{}, err
	}
	return decode[Accepted](c, answer)
}

// segment is a string of strangers as one segment of a path: an id may be "..",
// which is a way up unless its dots are escaped.
func segment(s string) string {
	return strings.ReplaceAll(url.PathEscape(s), ".", "%2E")
}

// values are query parameters; what is empty is left out.
type values url.Values

func (v values) set(name, value string) {
	if value != "" {
		v[name] = []string{value}
	}
}

func (v values) page(since, until time.Time, limit int, cursor string) {
	if !since.IsZero() {
		v.set("since", since.UTC().Format(time.RFC3339Nano))
	}
	if !until.IsZero() {
		v.set("until", until.UTC().Format(time.RFC3339Nano))
	}
	if limit != 0 {
		v.set("limit", strconv.Itoa(limit))
	}
	v.set("cursor", cursor)
}

func get[T any](ctx context.Context, c *Client, path string, v values) (T, error) {
	if len(v) > 0 {
		path += "?" + url.Values(v).Encode()
	}
	body, err := c.do(ctx, http.MethodGet, path, nil, nil)
	if err != nil {
		var none T
		return none, err
	}
	return decode[T](c, body)
}

func decode[T any](c *Client, body []byte) (T, error) {
	var value T
	if err := json.Unmarshal(body, &value); err != nil {
		return value, c.stranger(fmt.Errorf("its answer is not what tidings says: %w", err))
	}
	return value, nil
}

// maxAnswer bounds what is read of an answer; a letter is the largest.
const maxAnswer = 64 << 20

// do makes one request, and returns the answer if it is a good one.
func (c *Client) do(ctx context.Context, method, path string, header http.Header, body []byte) ([]byte, error) {
	_, answer, err := c.ask(ctx, method, path, header, body)
	return answer, err
}

// ask is do that returns the headers of the answer too.
func (c *Client) ask(ctx context.Context, method, path string, header http.Header, body []byte) (http.Header, []byte, error) {
	res, err := c.open(ctx, c.http(), method, path, header, body)
	if err != nil {
		return nil, nil, err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, nil, c.brokeOff(err)
	}
	return res.Header, answer, nil
}

// open makes one request. The body of its answer is to be closed, and the answer
// is a good one if there is no error.
func (c *Client) open(ctx context.Context, client *http.Client, method, path string, header http.Header, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.BaseURL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, c.badURL()
	}
	for name, v := range header {
		req.Header[name] = v
	}
	req.Header.Set("Authorization", "Bearer "+c.Token)
	if c.Operator != "" {
		req.Header.Set(OperatorHeader, c.Operator)
	}
	res, err := client.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		return nil, c.stranger(plain(err))
	}
	if why := res.Header.Get(LedgerHeader); why != "" && c.Behind != nil {
		c.Behind(why)
	}
	if res.StatusCode/100 == 2 {
		return res, nil
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer))
	if err != nil {
		return nil, c.brokeOff(err)
	}
	return nil, c.refusal(res, answer)
}

func (c *Client) brokeOff(err error) error {
	return c.stranger(fmt.Errorf("its answer broke off: %w", err))
}

// plain leaves out method and URL, which the message has already.
func plain(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}

func (c *Client) http() *http.Client {
	if c.HTTP != nil {
		return c.HTTP
	}
	return &http.Client{
		Timeout:       time.Minute,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func (c *Client) badURL() error {
	return fmt.Errorf("the URL %q is not one: set --url or TIDINGS_URL to something like http://127.0.0.1:8420", c.shownURL())
}

func (c *Client) stranger(err error) error { return &UnreachableError{URL: c.shownURL(), Err: err} }

// shownURL is the URL without a password in it.
func (c *Client) shownURL() string {
	if u, err := url.Parse(c.BaseURL); err == nil {
		return u.Redacted()
	}
	if strings.Contains(c.BaseURL, "@") {
		return "…"
	}
	return c.BaseURL
}

// refusal reads the problem in an answer.
func (c *Client) refusal(res *http.Response, body []byte) error {
	var p huma.ErrorModel
	err := json.Unmarshal(body, &p)
	if err != nil || !strings.HasPrefix(res.Header.Get("Content-Type"), "application/problem+json") {
		return c.stranger(fmt.Errorf("what answers there is not tidings: it says %s", res.Status))
	}
	problem := &ProblemError{
		Status: res.StatusCode, Name: strings.TrimPrefix(p.Type, problemPrefix), Detail: p.Detail,
	}
	for _, d := range p.Errors {
		if d.Location == locationDeed { // the detail says it too
			continue
		}
		problem.Details = append(problem.Details, detail(d))
	}
	return problem
}

// detail names a parameter as the flag that sets it.
func detail(d *huma.ErrorDetail) string {
	if d.Location == "key" {
		return fmt.Sprintf("%v  %s", d.Value, d.Message)
	}
	if name, ok := strings.CutPrefix(d.Location, "query."); ok {
		return fmt.Sprintf("--%s %q: %s", name, fmt.Sprint(d.Value), d.Message)
	}
	if d.Location == "" {
		return d.Message
	}
	return fmt.Sprintf("%s: %s", d.Location, d.Message)
}
