package archive_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/klauspost/compress/zstd"
	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/archive"
)

// compress writes lines as another tool would, in one frame.
func compress(t require.TestingT, text string) []byte {
	var b bytes.Buffer
	w, err := zstd.NewWriter(&b)
	require.NoError(t, err)
	_, err = io.WriteString(w, text)
	require.NoError(t, err)
	require.NoError(t, w.Close())
	return b.Bytes()
}

func damageOf(t *testing.T, file []byte) *archive.DamageError {
	t.Helper()
	_, err := archive.Open(write(t, file))
	damage, ok := errors.AsType[*archive.DamageError](err)
	require.True(t, ok, "%v", err)
	return damage
}

func TestDamageIsFound(t *testing.T) {
	text := lines(t, export(t, small()))
	require.NoError(t, func() error { _, err := archive.Open(write(t, compress(t, text))); return err }(), "in other frames it is the same file")
	line := strings.SplitAfter(text, "\n")
	without := func(i int) string { return strings.Join(append(append([]string{}, line[:i]...), line[i+1:]...), "") }
	for _, c := range []struct {
		name, text, want string
	}{
		{"a line is missing", without(2), "the checksum is another"},
		{"an entry of OUTCOMES is missing", without(10), "entry 4 of OUTCOMES is missing"},
		{"the gap is missing", without(11), "entry 5 of OUTCOMES is missing"},
		{"what is skipped is missing", without(16), "the checksum is another"},
		{"what is skipped is not there", strings.Replace(text, `"skip","stream":"OUTCOMES","from":10,"to":10`, `"skip","stream":"OUTCOMES","from":10,"to":12`, 1), "skipped that are not there"},
		{"the header is missing", without(0), "does not begin as an export"},
		{"a byte of an entry is another", strings.Replace(text, `"aGVsbG8="`, `"aGVsbG9="`, 1), "the checksum is another"},
		{"a count is another", strings.Replace(text, `"entries":6`, `"entries":7`, 1), "the checksum is another"},
		{"two entries are exchanged", strings.Join(line[:9], "") + line[10] + line[9] + strings.Join(line[11:], ""), "is out of order"},
		{"an object is another", strings.Replace(text, `"size":80,`, `"size":81,`, 1), `the object "large" is not what it says it is`},
		{"something follows", text + line[2], "follows behind its end"},
		{"it is of a newer format", strings.Replace(text, `"format":1`, `"format":2`, 1), "use a newer tidings"},
		{"a line is of a newer kind", strings.Replace(text, `{"line":"gap"`, `{"line":"gape"`, 1), "use a newer tidings"},
		{"a line cannot be read", strings.Replace(text, `"seq":8`, `"seq":-8`, 1), "cannot be read"},
		{"a subject that no stream has", strings.Replace(text, `"audit.acme"`, `"audit. acme"`, 1), "which cannot be"},
		{"a header for the server", strings.Replace(text, `"Tidings-Kind":["replay"]`, `"Nats-Rollup":["all"]`, 1), `a header "Nats-Rollup"`},
		{"a header with a line break", strings.Replace(text, `["replay"]`, `["a\r\nNats-Rollup: all"]`, 1), "a line break in the header"},
		{"it ends inside a line", text[:len(text)-20], "ends inside a line"},
	} {
		t.Run(c.name, func(t *testing.T) {
			require.NotEqual(t, text, c.text)
			damage := damageOf(t, compress(t, c.text))
			require.False(t, damage.CutOff)
			require.ErrorContains(t, damage, c.want)
			require.ErrorContains(t, damage, "export again")
		})
	}
	t.Run("what is no export at all", func(t *testing.T) {
		require.ErrorContains(t, damageOf(t, []byte("hello, this is a letter to my aunt\n")), "no frame of zstd")
	})
	t.Run("a line that is larger than any can be", func(t *testing.T) {
		var b bytes.Buffer
		w, err := zstd.NewWriter(&b, zstd.WithEncoderLevel(zstd.SpeedFastest))
		require.NoError(t, err)
		for range 100 {
			_, err := w.Write(make([]byte, 1<<20))
			require.NoError(t, err)
		}
		require.NoError(t, w.Close())
		require.ErrorContains(t, damageOf(t, b.Bytes()), "a line has more than")
	})
}

func TestAFileThatIsCutOffSaysWhatToDo(t *testing.T) {
	file := export(t, small())
	for n := 0; n < len(file); n += 3 {
		damage := damageOf(t, file[:n])
		require.True(t, damage.CutOff, "at byte %d: %v", n, damage)
		require.ErrorContains(t, damage, "run the same tidings ledger export again")
	}
}

func TestNoByteCanBeAnother(t *testing.T) {
	file := export(t, small())
	want := lines(t, file)
	path := write(t, nil)
	for i := range file {
		other := bytes.Clone(file)
		other[i] ^= 1 << (i % 8)
		require.NoError(t, os.WriteFile(path, other, 0o600))
		if _, err := archive.Open(path); err == nil {
			require.Equal(t, want, lines(t, other), "byte %d was taken", i) // of the compression, which says the same in another way
		}
	}
}

func FuzzReader(f *testing.F) {
	file, _ := os.ReadFile(filepath.Join("testdata", "small.jsonl.zst"))
	text, _ := os.ReadFile(filepath.Join("testdata", "small.jsonl"))
	f.Add(file, false)
	f.Add(text, true)
	f.Add([]byte{}, false)
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, data []byte, plain bool) {
		if plain {
			data = compress(t, string(data))
		}
		path := filepath.Join(dir, fmt.Sprint("fuzz", os.Getpid()))
		require.NoError(t, os.WriteFile(path, data, 0o600))
		read, err := archive.Open(path)
		if err != nil {
			return
		}
		// What is taken is whole: it says the same again.
		for _, s := range []*archive.Stream{read.Outcomes(), read.DeadLetters()} {
			info, err := s.Info(t.Context())
			require.NoError(t, err)
			require.Len(t, all(t, s), int(info.Messages))
		}
	})
}

// cutter is a disk that is full after some bytes.
type cutter struct {
	io.Writer
	left int
}

var errFull = errors.New("no space left")

func (c *cutter) Write(p []byte) (int, error) {
	if len(p) > c.left {
		n, _ := c.Writer.Write(p[:c.left])
		c.left = 0
		return n, errFull
	}
	c.left -= len(p)
	return c.Writer.Write(p)
}

func TestAnExportThatWasCutOffGoesOn(t *testing.T) {
	from := big()
	want := export(t, from)
	random := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		path := filepath.Join(t.TempDir(), "export")
		cuts := 0
		for whole := false; !whole; {
			f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
			require.NoError(t, err)
			var after *archive.Checkpoint
			if after, whole, err = archive.Resume(f); !whole {
				require.NoError(t, err)
				if after != nil { // it goes by way of a request
					again, err := archive.ParseCursor(after.Cursor())
					require.NoError(t, err)
					after = &again
				}
				o := options()
				o.After = after
				o.Now = nil // a header is written once
				if after == nil {
					o.Now = options().Now
				}
				if _, err = archive.Export(t.Context(), &cutter{f, 20_000 + random.IntN(len(want))}, from, o); err != nil {
					require.ErrorIs(t, err, errFull)
					cuts++
				}
			}
			require.NoError(t, f.Close())
		}
		got, err := os.ReadFile(path)
		require.NoError(t, err)
		require.True(t, bytes.Equal(want, got), "after %d cuts it is another file", cuts)
	}
}

func TestAnExportGoesOnOnlyWithTheSameLog(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(letters, outcomes *fake)
		want   error // nil: it goes on
	}{
		{"which has grown", func(_, outcomes *fake) {
			outcomes.entries = append(outcomes.entries, entry(20_001, "settled", `{}`))
			outcomes.info.Last++
		}, nil},
		{"whose letters were dealt with", func(letters, _ *fake) { letters.entries = nil }, nil},
		{"and not with one that was made anew", func(_, outcomes *fake) { outcomes.info.Created = start.Add(1) }, archive.ErrOtherLog},
		{"or whose letters were", func(letters, _ *fake) { letters.info.Created = start.Add(1) }, archive.ErrOtherLog},
		{"or that lost its end", func(_, outcomes *fake) { outcomes.info.Last = 19_999 }, archive.ErrOtherLog},
		{"or has another entry there", func(_, outcomes *fake) {
			for i := range outcomes.entries {
				outcomes.entries[i].Data = []byte(`{"other":true}`)
			}
		}, archive.ErrOtherLog},
		{"or forgot what comes next", func(_, outcomes *fake) {
			outcomes.entries = outcomes.entries[15_000:]
			outcomes.info.First = 15_001
		}, archive.ErrForgotten},
	} {
		t.Run(c.name, func(t *testing.T) {
			from := big()
			var last archive.Checkpoint
			o := options()
			o.Flush = func(c archive.Checkpoint) error {
				if last = c; c.Streams[1].At > 5000 {
					return errFull
				}
				return nil
			}
			_, err := archive.Export(t.Context(), io.Discard, from, o)
			require.ErrorIs(t, err, errFull)
			c.change(from.DeadLetters.(*fake), from.Outcomes.(*fake))
			o.Flush, o.After = nil, &last
			end, err := archive.Export(t.Context(), io.Discard, from, o)
			if c.want != nil {
				require.ErrorIs(t, err, c.want)
				return
			}
			require.NoError(t, err)
			require.EqualValues(t, 25_000, end.Entries())
		})
	}
}

func TestADiskThatCannotBeReadIsNoDamage(t *testing.T) {
	file := export(t, small())
	broken := errors.New("input/output error")
	_, err := archive.Receive(io.MultiReader(bytes.NewReader(file[:600]), iotest.ErrReader(broken)), nil, nil)
	require.ErrorIs(t, err, broken)
	_, damaged := errors.AsType[*archive.DamageError](err)
	require.False(t, damaged)
}

func TestResume(t *testing.T) {
	resume := func(t *testing.T, file []byte) (*archive.Checkpoint, bool, []byte, error) {
		path := write(t, file)
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		require.NoError(t, err)
		defer f.Close()
		after, whole, err := archive.Resume(f)
		left, readErr := os.ReadFile(path)
		require.NoError(t, readErr)
		return after, whole, left, err
	}
	file := export(t, small())
	t.Run("a whole file is whole", func(t *testing.T) {
		_, whole, left, err := resume(t, file)
		require.NoError(t, err)
		require.True(t, whole)
		require.Equal(t, file, left)
	})
	t.Run("of less than a frame nothing is left", func(t *testing.T) {
		after, whole, left, err := resume(t, file[:20])
		require.NoError(t, err)
		require.Nil(t, after)
		require.False(t, whole)
		require.Empty(t, left)
	})
	t.Run("what a power cut left behind the last frame is taken away", func(t *testing.T) {
		after, _, left, err := resume(t, append(bytes.Clone(file[:len(file)-10]), make([]byte, 100)...))
		require.NoError(t, err)
		require.EqualValues(t, 2, after.Lines)
		require.True(t, bytes.HasPrefix(file, left))
	})
	t.Run("a file that is something else is let alone", func(t *testing.T) {
		letter := []byte(strings.Repeat("dear aunt, ", 100))
		_, _, left, err := resume(t, letter)
		require.ErrorContains(t, err, "no frame of zstd")
		require.Equal(t, letter, left)
	})
	t.Run("a cursor is one of ours", func(t *testing.T) {
		for _, word := range []string{"", "x", "bm8", "e30"} {
			_, err := archive.ParseCursor(word)
			require.ErrorContains(t, err, "not a place to go on")
		}
	})
}

func TestMemoryIsBoundedWhateverTheFileHas(t *testing.T) {
	from := archive.Source{Outcomes: newFake(streams.OutcomesStream), Objects: objects{"large": strings.Repeat("0123456789abcdef", 8<<20)}}
	from.DeadLetters = newFake(streams.DeadLettersStream, letterEntry(1, `{}`, "large"))
	path := filepath.Join(t.TempDir(), "export")
	out, err := os.Create(path)
	require.NoError(t, err)
	defer debug.SetGCPercent(debug.SetGCPercent(10)) // what is garbage is not what is needed
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	_, err = archive.Export(t.Context(), out, from, options())
	require.NoError(t, err)
	require.NoError(t, out.Close())
	f, err := archive.Open(path)
	require.NoError(t, err)
	runtime.ReadMemStats(&after)
	require.EqualValues(t, 1, f.End().Objects)
	require.Less(t, after.HeapSys-min(before.HeapSys, after.HeapSys), uint64(96<<20), "the object has 128 MiB, and more in base64")
}
