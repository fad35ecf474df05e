package streams_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"

	"tidings/streams"
	"tidings/streams/event"
	"tidings/streams/streamstest"
)

// large is a letter whose payload does not fit into a message.
func large(id string, generation int) event.Letter {
	l := letter(id, generation)
	l.Data = noise(16 << 20)
	return l
}

// noise is bytes that are the same each time, and of which no chunk is like another.
func noise(size int) []byte {
	b := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// bucket is the log with a connection beside it, to look at what is stored.
type bucket struct {
	*testing.T
	*streams.Log
	js jetstream.JetStream
}

func newBucket(t *testing.T, opts ...streamstest.Option) bucket {
	t.Helper()
	server := streamstest.NewServer(t, opts...)
	js, err := jetstream.New(server.Connect())
	require.NoError(t, err)
	return bucket{T: t, Log: server.Log(), js: js}
}

func (b bucket) put(l event.Letter) uint64 {
	b.Helper()
	sequence, _, err := b.DeadLetters.Put(b.Context(), l)
	require.NoError(b, err)
	return sequence
}

func (b bucket) get(l event.Letter) event.Letter {
	b.Helper()
	got, _, err := b.DeadLetters.Get(b.Context(), l.Tenant, l.Key)
	require.NoError(b, err)
	return got
}

func (b bucket) payload(l event.Letter) ([]byte, error) {
	b.Helper()
	r, err := b.DeadLetters.Payload(b.Context(), l)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// messages returns how many there are in the object store: chunks and descriptions.
func (b bucket) messages() int {
	b.Helper()
	info, err := b.Oversize.Info(b.Context())
	require.NoError(b, err)
	return int(info.Messages)
}

func (b bucket) sweep(before time.Time) int {
	b.Helper()
	n, err := b.DeadLetters.Sweep(b.Context(), before)
	require.NoError(b, err)
	return n
}

const object16MiB = 33 // messages: chunks of half a MiB, and the description

func TestLettersThatAreTooLargeForAMessage(t *testing.T) {
	for name, opts := range map[string][]streamstest.Option{"relaxed": nil, "strict": {streamstest.Strict}} {
		t.Run("have their payload in an object, byte for byte, "+name, func(t *testing.T) {
			b := newBucket(t, opts...)
			want := large("1", 0)
			b.put(want)

			got := b.get(want)

			require.Empty(t, got.Data)
			object := got.PayloadObject
			require.Equal(t, streams.OversizeBucket, object.Bucket)
			require.EqualValues(t, 16<<20, object.Size)
			payload, err := b.payload(got)
			require.NoError(t, err)
			require.True(t, bytes.Equal(want.Data, payload))
			got.PayloadObject, got.Data = nil, want.Data
			require.Equal(t, want, got)
		})
	}
	t.Run("have an object that the tools of NATS can read", func(t *testing.T) {
		b := newBucket(t)
		want := large("1", 0)
		b.put(want)
		object := b.get(want).PayloadObject

		store, err := b.js.ObjectStore(t.Context(), object.Bucket)
		require.NoError(t, err)
		info, err := store.GetInfo(t.Context(), object.Name)
		require.NoError(t, err)
		require.Equal(t, object.Digest, info.Digest)
		payload, err := store.GetBytes(t.Context(), object.Name)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want.Data, payload))
	})
	t.Run("are whole where only the payload of an event is too large for the letter", func(t *testing.T) {
		b := newBucket(t)
		want := letter("1", 0)
		want.Data = noise(streams.MaxData)
		want.Delivery = &event.Delivery{Headers: json.RawMessage(`{"h":"` + strings.Repeat("x", 2<<20) + `"}`)}
		b.put(want)
		got := b.get(want)
		require.NotNil(t, got.PayloadObject)
		got.PayloadObject = nil
		require.Equal(t, want, got)
	})
	t.Run("have their headers in an object too, and are listed by what is left", func(t *testing.T) {
		b := newBucket(t)
		want := letter("1", 0)
		want.Detail = strings.Repeat("ä", 1000)
		want.Envelope = &event.Envelope{Tenant: "acme", ID: "1", Type: "order.placed", Extensions: map[string]string{"big": strings.Repeat("x", 13<<20)}}
		want.Delivery = &event.Delivery{Headers: json.RawMessage(`{"n":{"I":1}}`), Properties: map[string]string{"message_id": "1"}}
		sequence := b.put(want)

		got := b.get(want)

		payload, err := b.payload(got)
		require.NoError(t, err)
		require.Equal(t, want.Data, payload)
		got.PayloadObject, got.LetterObject, got.Data = nil, nil, want.Data
		require.Equal(t, want, got)

		e, err := b.DeadLetters.Entry(t.Context(), sequence)
		require.NoError(t, err)
		var listed event.Letter
		require.NoError(t, json.Unmarshal(e.Data, &listed))
		require.Equal(t, want.Key, listed.Key)
		require.Equal(t, want.Cause, listed.Cause)
		require.Equal(t, "order.placed", listed.Envelope.Type)
		require.Equal(t, strings.Repeat("ä", 500)+"…", listed.Detail)
		require.Less(t, len(e.Data), 4<<10)
		require.Equal(t, []string{listed.PayloadObject.Name, listed.LetterObject.Name}, e.Header.Values(streams.HeaderObject))
	})
	t.Run("are one letter and one object however often they are put", func(t *testing.T) {
		b := newBucket(t)
		first := b.put(large("1", 0))
		require.Equal(t, first, b.put(large("1", 0)))
		require.Equal(t, object16MiB, b.messages())
	})
	t.Run("may be many at once", func(t *testing.T) {
		b := newBucket(t, streamstest.Strict)
		var group errgroup.Group
		for i := range 12 {
			group.Go(func() error {
				_, _, err := b.DeadLetters.Put(t.Context(), large(fmt.Sprint(i), 0))
				return err
			})
		}
		require.NoError(t, group.Wait())
		require.Equal(t, 12*object16MiB, b.messages())
	})
	t.Run("take their object with them when they are removed", func(t *testing.T) {
		b := newBucket(t)
		require.NoError(t, b.DeadLetters.Remove(t.Context(), b.put(large("1", 0))))
		require.Zero(t, b.messages())
	})
	t.Run("take their object with them when a later generation takes their place", func(t *testing.T) {
		b := newBucket(t)
		b.put(large("1", 0))
		b.put(large("1", 1))
		require.Equal(t, object16MiB, b.messages())
		payload, err := b.payload(b.get(large("1", 1)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise(16<<20), payload))
		b.put(letter("1", 2))
		require.Zero(t, b.messages())
	})
	t.Run("keep their object when they are replaced as they were read", func(t *testing.T) {
		b := newBucket(t)
		at := b.put(large("1", 0))
		read := b.get(large("1", 0))
		read.Detail = "looked at"
		_, err := b.DeadLetters.Replace(t.Context(), read, at)
		require.NoError(t, err)
		require.Equal(t, object16MiB, b.messages())
		got := b.get(large("1", 0))
		require.Equal(t, "looked at", got.Detail)
		payload, err := b.payload(got)
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise(16<<20), payload))
	})
}

func TestALetterWhoseWriterDiedAfterItsObject(t *testing.T) {
	server := streamstest.NewServer(t)
	b := bucket{T: t, Log: server.Log()}
	line, dying := server.DeafLog()
	line.DeafFrom(jetstream.MsgRollup) // its last word is that there is an object
	ctx, die := context.WithCancel(t.Context())
	died := make(chan error, 1)
	go func() {
		_, _, err := dying.DeadLetters.Put(ctx, large("1", 0))
		died <- err
	}()
	require.Eventually(t, func() bool { return b.messages() == object16MiB }, 30*time.Second, 5*time.Millisecond)
	die()
	require.ErrorIs(t, <-died, streams.ErrUnknown)
	require.Equal(t, object16MiB, b.messages())

	t.Run("is written by whoever gets the delivery again, with one object", func(t *testing.T) {
		b.put(large("1", 0))
		require.Equal(t, object16MiB, b.messages())
		payload, err := b.payload(b.get(large("1", 0)))
		require.NoError(t, err)
		require.True(t, bytes.Equal(noise(16<<20), payload))
	})
}

func TestAPayloadThatWasPutIsThereAfterAKill(t *testing.T) {
	for name, opt := range durabilities() {
		t.Run(name, func(t *testing.T) {
			server := streamstest.NewServer(t, opt)
			b := bucket{T: t, Log: server.Log()}
			b.put(large("1", 0))
			server.KillRestart()
			b.Log = server.Log()
			payload, err := b.payload(b.get(large("1", 0)))
			require.NoError(t, err)
			require.True(t, bytes.Equal(noise(16<<20), payload))
		})
	}
}

func TestSweep(t *testing.T) {
	soon := func() time.Time { return time.Now().Add(time.Minute) }
	t.Run("removes an object without a letter, but no young one", func(t *testing.T) {
		b := newBucket(t)
		sequence := b.put(large("1", 0))
		stream, err := b.js.Stream(t.Context(), streams.DeadLettersStream)
		require.NoError(t, err)
		require.NoError(t, stream.DeleteMsg(t.Context(), sequence))
		require.Zero(t, b.sweep(time.Now().Add(-time.Minute)))
		require.Equal(t, object16MiB, b.messages())
		require.Equal(t, 1, b.sweep(soon()))
		require.Zero(t, b.messages())
	})
	t.Run("removes chunks that are no object, but no young ones", func(t *testing.T) {
		b := newBucket(t)
		_, err := b.js.Publish(t.Context(), "$O.OVERSIZE.C.lost", []byte("x"))
		require.NoError(t, err)
		require.Zero(t, b.sweep(time.Now().Add(-time.Minute)))
		require.Equal(t, 1, b.sweep(soon()))
		require.Zero(t, b.messages())
	})
	t.Run("lets alone what a letter names, and what others keep there", func(t *testing.T) {
		b := newBucket(t)
		b.put(large("1", 0))
		b.put(large("2", 0))
		for subject, data := range map[string]string{"C.theirs": "x", "M.dGhlaXJz": `{"name":"theirs","nuid":"theirs","size":1,"chunks":1}`, "M.Pw==": "?"} {
			_, err := b.js.Publish(t.Context(), "$O.OVERSIZE."+subject, []byte(data))
			require.NoError(t, err)
		}
		require.Zero(t, b.sweep(soon()))
		require.Equal(t, 2*object16MiB+3, b.messages())
	})
}

func TestAFullObjectStore(t *testing.T) {
	b := newBucket(t, func(o *streams.Options) { o.OversizeMaxBytes = 8 << 20 })
	_, _, err := b.DeadLetters.Put(t.Context(), large("1", 0))
	require.ErrorIs(t, err, streams.ErrFull)
	require.ErrorContains(t, err, "object of 16777216 bytes in OVERSIZE")
	require.Zero(t, b.messages(), "nothing of it is left behind")
	_, _, err = b.DeadLetters.Get(t.Context(), "acme", large("1", 0).Key)
	require.ErrorIs(t, err, streams.ErrNotFound)
	b.put(letter("2", 0)) // others have room
}

func TestADamagedObject(t *testing.T) {
	damage := func(t *testing.T, b bucket, sequence uint64) {
		t.Helper()
		stream, err := b.js.Stream(t.Context(), streams.OversizeStream)
		require.NoError(t, err)
		require.NoError(t, stream.DeleteMsg(t.Context(), sequence))
	}
	for name, sequence := range map[string]uint64{"first chunk": 1, "last chunk": object16MiB - 1} {
		t.Run("without its "+name+" is never taken for the whole", func(t *testing.T) {
			b := newBucket(t)
			b.put(large("1", 0))
			damage(t, b, sequence)
			_, err := b.payload(b.get(large("1", 0)))
			require.ErrorIs(t, err, streams.ErrDamaged)
		})
	}
	t.Run("that is gone says so, and the rest of the letter is there", func(t *testing.T) {
		b := newBucket(t)
		b.put(large("1", 0))
		damage(t, b, object16MiB)
		got := b.get(large("1", 0))
		require.Equal(t, event.CauseCrashes, got.Cause)
		_, err := b.payload(got)
		require.ErrorIs(t, err, streams.ErrDamaged)
		require.ErrorContains(t, err, "it is gone")
	})
}
