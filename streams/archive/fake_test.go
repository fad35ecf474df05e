package archive_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/nats-io/nats.go"

	"tidings/streams"
	"tidings/streams/archive"
	"tidings/streams/event"
)

// start is when the fake streams were made: a real one has another time at every run,
// which no golden file could have.
var start = time.Date(2026, 3, 1, 12, 0, 0, 123456789, time.UTC)

// fake is a stream that does not grow, but where a test says so.
type fake struct {
	name    string
	info    streams.StreamInfo
	entries []streams.Entry
	// fails is returned in the place of the entry at a sequence.
	fails map[uint64]error
}

func newFake(name string, entries ...streams.Entry) *fake {
	f := &fake{name: name, entries: entries, info: streams.StreamInfo{Created: start}}
	if n := len(entries); n > 0 {
		f.info.First, f.info.Last = entries[0].Sequence, entries[n-1].Sequence
	}
	return f
}

func (f *fake) Info(context.Context) (streams.StreamInfo, error) { return f.info, nil }

func (f *fake) Entry(_ context.Context, sequence uint64) (streams.Entry, error) {
	for _, e := range f.entries {
		if e.Sequence == sequence {
			return e, nil
		}
	}
	return streams.Entry{}, streams.ErrNotFound
}

func (f *fake) Next(_ context.Context, after uint64) (streams.Entry, error) {
	for _, e := range f.entries {
		if e.Sequence > after {
			return e, f.fails[e.Sequence]
		}
	}
	return streams.Entry{}, streams.ErrNotFound
}

func (f *fake) Follow(ctx context.Context, from uint64, handle func(streams.Entry) error) error {
	for _, e := range f.entries {
		if e.Sequence < from {
			continue
		}
		if err := errors.Join(f.fails[e.Sequence], ctx.Err()); err != nil {
			return err
		}
		if err := handle(e); err != nil {
			return err
		}
	}
	<-ctx.Done()
	return ctx.Err()
}

// objects are those of an object store, by name.
type objects map[string]string

func (o objects) Find(_ context.Context, name string) (event.Object, error) {
	data, ok := o[name]
	if !ok {
		return event.Object{}, fmt.Errorf("object %s: %w", name, streams.ErrNotFound)
	}
	h := sha256.New()
	for part := data; part != ""; { // not all of it at once, which would be another copy
		n := min(len(part), 1<<16)
		_, _ = io.WriteString(h, part[:n])
		part = part[n:]
	}
	return event.Object{
		Bucket: streams.OversizeBucket, Name: name, Size: int64(len(data)), Digest: "SHA-256=" + base64.URLEncoding.EncodeToString(h.Sum(nil)),
	}, nil
}

func (o objects) Open(_ context.Context, named event.Object) (io.Reader, error) {
	if strings.HasPrefix(named.Name, "damaged") {
		return io.MultiReader(strings.NewReader("some"), failing{}), nil
	}
	return strings.NewReader(o[named.Name]), nil
}

type failing struct{}

func (failing) Read([]byte) (int, error) {
	return 0, fmt.Errorf("it ends after 4 of 9 bytes: %w", streams.ErrDamaged)
}

// entry returns an entry of OUTCOMES.
func entry(sequence uint64, kind, data string) streams.Entry {
	return streams.Entry{
		Sequence: sequence, Time: start.Add(time.Duration(sequence) * time.Second),
		Subject: fmt.Sprintf("outcomes.acme.%022d", sequence%7),
		Header: nats.Header{
			streams.HeaderKind: {kind}, streams.HeaderRecordID: {fmt.Sprint("r", sequence)},
			"Nats-Expected-Last-Subject-Sequence": {fmt.Sprint(sequence - 1)},
		},
		Data: []byte(data),
	}
}

func letterEntry(sequence uint64, data string, objects ...string) streams.Entry {
	e := entry(sequence, "event", data)
	e.Subject = fmt.Sprintf("dead.acme.%022d", sequence)
	if len(objects) > 0 {
		e.Header[streams.HeaderObject] = objects
	}
	return e
}

// small is a log with one of everything that a file can have.
func small() archive.Source {
	outcomes := newFake(streams.OutcomesStream,
		entry(3, "claimed", `{"id":"r3","state":{"phase":"claimed"},"note":"<ü> &"}`),
		entry(4, "duplicate", `{"id":"r4"}`),
		entry(8, "operation", `{"id":"r8"}`),
		entry(9, "replay", "{\n  \"pretty\": true\n}"),
		streams.Entry{Sequence: 10, Time: start.UTC(), Subject: "plans.x\xff", Header: nats.Header{"X-Bytes": {"\xff", "plain"}}, Data: []byte("no JSON \x00\xff")},
		streams.Entry{Sequence: 11, Time: start.UTC(), Subject: "audit.acme"},
	)
	outcomes.info.Gaps = []streams.Gap{{From: 5, To: 7, Accepted: "ann at 2026-03-01T12:00:00Z: a power cut"}, {From: 10, To: 10, Accepted: "bob at 2026-03-01T12:00:00Z: not ours", Skipped: true}}
	letters := newFake(streams.DeadLettersStream,
		letterEntry(2, `{"kind":"event","data_base64":"aGVsbG8="}`),
		letterEntry(5, `{"kind":"delivery"}`, "large", "damaged", "gone"),
	)
	letters.info.First, letters.info.Last = 2, 6 // the last one was removed
	return archive.Source{Outcomes: outcomes, DeadLetters: letters, Objects: objects{"large": strings.Repeat("payload ", 10), "damaged": "some more"}}
}

// big is a log of several frames.
func big() archive.Source {
	var all []streams.Entry
	for i := range uint64(20_000) {
		all = append(all, entry(i+1, "settled", fmt.Sprintf(`{"id":"r%d","n":%d}`, i+1, i*i)))
	}
	var letters []streams.Entry
	for i := range uint64(5000) {
		letters = append(letters, letterEntry(2*i+1, fmt.Sprintf(`{"letter":%d}`, i)))
	}
	return archive.Source{
		Outcomes: newFake(streams.OutcomesStream, all...), DeadLetters: newFake(streams.DeadLettersStream, letters...), Objects: objects{},
	}
}

func options() archive.Options {
	return archive.Options{Version: "v1.2.3", Now: func() time.Time { return start.Add(time.Hour) }}
}

// export returns the whole file.
func export(t interface {
	Context() context.Context
	Fatal(...any)
}, from archive.Source,
) []byte {
	var b bytes.Buffer
	if _, err := archive.Export(t.Context(), &b, from, options()); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
