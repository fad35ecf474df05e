package archive_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/archive"
)

var update = flag.Bool("update", false, "write the golden files")

// lines returns what is in a file, as any tool reads it.
func lines(t *testing.T, file []byte) string {
	t.Helper()
	r, err := zstd.NewReader(bytes.NewReader(file))
	require.NoError(t, err)
	defer r.Close()
	text, err := io.ReadAll(r)
	require.NoError(t, err)
	return string(text)
}

func write(t *testing.T, file []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "export.jsonl.zst")
	require.NoError(t, os.WriteFile(path, file, 0o600))
	return path
}

// all returns the entries of a stream.
func all(t *testing.T, s *archive.Stream) []streams.Entry {
	t.Helper()
	info, err := s.Info(t.Context())
	require.NoError(t, err)
	var out []streams.Entry
	if info.Messages == 0 {
		return nil
	}
	stop := errors.New("stop")
	require.Equal(t, stop, s.Follow(t.Context(), 1, func(e streams.Entry) error {
		if out = append(out, e); uint64(len(out)) == info.Messages {
			return stop
		}
		return nil
	}))
	return out
}

func TestTheFormat(t *testing.T) {
	file := export(t, small())
	golden, kept := filepath.Join("testdata", "small.jsonl"), filepath.Join("testdata", "small.jsonl.zst")
	if *update {
		require.NoError(t, os.WriteFile(golden, []byte(lines(t, file)), 0o644))
		require.NoError(t, os.WriteFile(kept, file, 0o644))
	}
	want, err := os.ReadFile(golden)
	require.NoError(t, err)
	require.Equal(t, string(want), lines(t, file), "go test ./streams/archive -update writes it anew: only ever add to the format")

	t.Run("a file that was written once can always be read", func(t *testing.T) {
		_, err := archive.Open(kept)
		require.NoError(t, err)
	})
}

func TestWhatIsReadIsWhatWasExported(t *testing.T) {
	for name, from := range map[string]archive.Source{"small": small(), "big": big()} {
		t.Run(name, func(t *testing.T) {
			f, err := archive.Open(write(t, export(t, from)))
			require.NoError(t, err)
			for _, c := range []struct {
				want *fake
				have *archive.Stream
			}{{from.Outcomes.(*fake), f.Outcomes()}, {from.DeadLetters.(*fake), f.DeadLetters()}} {
				info, err := c.have.Info(t.Context())
				require.NoError(t, err)
				require.Equal(t, c.want.info.Created, info.Created)
				require.Equal(t, c.want.info.First, info.First)
				require.Equal(t, c.want.info.Last, info.Last)
				require.Equal(t, c.want.info.Gaps, info.Gaps)
				read := all(t, c.have)
				require.Len(t, read, len(c.want.entries))
				for i, e := range c.want.entries {
					delete(e.Header, "Nats-Expected-Last-Subject-Sequence") // it says how it was appended
					require.Equal(t, e.Header, read[i].Header)
					require.Equal(t, string(e.Data), string(read[i].Data))
					require.Equal(t, e.Subject, read[i].Subject)
					require.Equal(t, e.Sequence, read[i].Sequence)
					require.Equal(t, e.Time, read[i].Time)
				}
			}
		})
	}
}

func TestAStreamOfAFile(t *testing.T) {
	f, err := archive.Open(write(t, export(t, big())))
	require.NoError(t, err)
	t.Run("is followed from anywhere", func(t *testing.T) {
		for _, from := range []uint64{1, 4096, 4097, 4098, 12345, 20_000} {
			stop := errors.New("stop")
			require.Equal(t, stop, f.Outcomes().Follow(t.Context(), from, func(e streams.Entry) error {
				require.Equal(t, from, e.Sequence)
				return stop
			}))
		}
	})
	t.Run("is asked for any entry, also for those that were not followed", func(t *testing.T) {
		for _, sequence := range []uint64{1, 4096, 4097, 12345, 20_000} {
			e, err := f.Outcomes().Entry(t.Context(), sequence)
			require.NoError(t, err)
			require.Equal(t, sequence, e.Sequence)
		}
		for _, sequence := range []uint64{0, 2, 10_000, 30_000} {
			_, err := f.DeadLetters().Entry(t.Context(), sequence)
			require.ErrorIs(t, err, streams.ErrNotFound)
		}
	})
	t.Run("of letters that were removed at the end nothing is read", func(t *testing.T) {
		from := big()
		from.DeadLetters.(*fake).info.Last = 200_000
		f, err := archive.Open(write(t, export(t, from)))
		require.NoError(t, err)
		letters := f.DeadLetters()
		for sequence := uint64(10_000); sequence <= 200_000; sequence++ { // as who looks for the last one does
			if _, err := letters.Entry(t.Context(), sequence); !errors.Is(err, streams.ErrNotFound) {
				require.ErrorIs(t, err, streams.ErrNotFound)
			}
		}
	})
	t.Run("waits at its end", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		err := f.Outcomes().Follow(ctx, 20_000, func(streams.Entry) error { cancel(); return nil })
		require.ErrorIs(t, err, context.Canceled)
	})
}

func TestAnEmptyLog(t *testing.T) {
	used := newFake(streams.OutcomesStream)
	used.info.First, used.info.Last = 8, 7 // all of it is beyond the horizon
	for name, outcomes := range map[string]*fake{"never used": newFake(streams.OutcomesStream), "forgotten": used} {
		t.Run(name, func(t *testing.T) {
			f, err := archive.Open(write(t, export(t, archive.Source{Outcomes: outcomes, DeadLetters: newFake(streams.DeadLettersStream)})))
			require.NoError(t, err)
			require.Zero(t, f.End().Entries())
			info, err := f.Outcomes().Info(t.Context())
			require.NoError(t, err)
			require.Equal(t, outcomes.info.Last, info.Last)
		})
	}
}

func TestWhatCannotBeExported(t *testing.T) {
	t.Run("a log with a gap that nobody accepted", func(t *testing.T) {
		from := small()
		from.Outcomes.(*fake).info.Gaps[0].To = 6
		_, err := archive.Export(t.Context(), io.Discard, from, options())
		require.ErrorContains(t, err, "entry 7 of OUTCOMES: missing")
		require.ErrorContains(t, err, "tidings recover")
	})
	t.Run("entries that are forgotten half-way", func(t *testing.T) {
		from := big()
		outcomes := from.Outcomes.(*fake)
		outcomes.entries = append(outcomes.entries[:100], outcomes.entries[200:]...)
		from.Outcomes = &moves{fake: outcomes, to: 201}
		_, err := archive.Export(t.Context(), io.Discard, from, options())
		require.ErrorIs(t, err, archive.ErrForgotten)
	})
	t.Run("but those that were forgotten before they were reached are none of the export", func(t *testing.T) {
		from := big()
		outcomes := from.Outcomes.(*fake)
		outcomes.entries = outcomes.entries[100:]
		from.Outcomes = &moves{fake: outcomes, to: 101}
		f, err := archive.Open(write(t, export(t, from)))
		require.NoError(t, err)
		info, err := f.Outcomes().Info(t.Context())
		require.NoError(t, err)
		require.EqualValues(t, 101, info.First)
		require.EqualValues(t, 1, f.Header().Streams[1].First)
	})
}

// moves forgets its beginning after it was asked where it stands.
type moves struct {
	*fake
	to uint64
}

func (m *moves) Info(ctx context.Context) (streams.StreamInfo, error) {
	info, err := m.fake.Info(ctx)
	m.fake.info.First = m.to
	return info, err
}

func TestObjectsOfLetters(t *testing.T) {
	text := lines(t, export(t, small()))
	at := func(part string) int {
		i := strings.Index(text, part)
		require.Positive(t, i, part)
		return i
	}
	large, letter := at(`{"line":"object","bucket":"OVERSIZE","name":"large"`), at(`"seq":5`)
	require.Less(t, at(`{"line":"chunk","object":"large"`), large)
	require.Less(t, large, letter, "an object is there before the letter that names it")
	at(`"name":"damaged","letter":"dead.acme.0000000000000000000005","size":9,"digest":"SHA-256=`)
	at(`"damaged":"it ends after 4 of 9 bytes: `)
	at(`"name":"gone","letter":"dead.acme.0000000000000000000005","size":0,"digest":"","damaged":"object gone: `)
}
