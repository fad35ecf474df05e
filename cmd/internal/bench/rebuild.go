package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"tidings/bridge/bridgetest"
)

// RebuildOptions say what is measured. All but CPUProfile and Progress are required.
type RebuildOptions struct {
	Records int // entries of OUTCOMES
	Rounds  int // measurements of each kind
	// Process returns a command that calls [RebuildPart] with that text and its
	// standard output, in a process of its own.
	Process func(ctx context.Context, part string) *exec.Cmd
	Queries bool // measure the queries of the ledger as well
	Memory  bool // measure the memory for each event as well
	// CPUProfile is a file for what the processors did in the last measurement of
	// the product; empty: none.
	CPUProfile string
	Progress   io.Writer // a line a second; nil: discard
}

// RebuildResult is what was measured.
type RebuildResult struct {
	Records int `json:"records"`
	// Rate is the records a second that are folded into a new ledger, until it has
	// all: the median of the rounds. Floor is that of reading the same and putting
	// two rows for each, of the same sizes.
	Rate  float64 `json:"records_per_s"`
	Floor float64 `json:"floor_per_s"`
	Ratio float64 `json:"ratio"` // of the two
	// PeakRSS is the most memory of a process that rebuilds, with the embedded
	// server in it, in MiB; 0 where the system does not say.
	PeakRSS float64 `json:"peak_rss_mib"`

	// What is only measured where it is asked for.
	Queries []QueryResult `json:"queries,omitempty"`
	Heap    *HeapPerID    `json:"heap_bytes_per_id,omitempty"`
}

// Validate says what cannot be measured.
func (o RebuildOptions) Validate() error {
	var errs []error
	if o.Records < 1 {
		errs = append(errs, fmt.Errorf("--records %d: it is at least 1", o.Records))
	}
	if o.Rounds < 1 {
		errs = append(errs, fmt.Errorf("--rounds %d: it is at least 1", o.Rounds))
	}
	return errors.Join(errs...)
}

// Rebuild measures how fast a ledger is made anew. A measurement fails unless the
// ledger has what was put into the stream, and the same as in every other round.
// Nothing is left behind but the profile.
func Rebuild(ctx context.Context, o RebuildOptions) (RebuildResult, error) {
	if err := o.Validate(); err != nil {
		return RebuildResult{}, err
	}
	o.Progress = cmp.Or[io.Writer](o.Progress, io.Discard)
	dir, remove, err := bridgetest.TempDir("tidings-bench-")
	if err != nil {
		return RebuildResult{}, err
	}
	defer remove()
	b := &rebuildBench{RebuildOptions: o, dir: dir, want: newContents(), seen: map[string][]partResult{}}
	b.progress = &progress{to: o.Progress, started: time.Now(), all: o.steps()}
	if err := b.fill(ctx); err != nil {
		return RebuildResult{}, fmt.Errorf("fill OUTCOMES: %w", err)
	}
	if err := b.measure(ctx); err != nil {
		return RebuildResult{}, err
	}
	r := b.result()
	return r, b.look(ctx, &r)
}

// steps returns how many records are written and read, and questions asked.
func (o RebuildOptions) steps() int {
	n := o.Records * (1 + 2*2*o.Rounds) // each measurement is checked
	if o.Queries {
		n += len(queries()) * queriesOf
	}
	if o.Memory {
		n += 2 * o.writtenMore()
	}
	return n
}

// rebuildBench is one benchmark under way.
type rebuildBench struct {
	RebuildOptions
	dir      string
	want     *contents
	sizes    sizes
	ledger   string // of the last round, if it is looked at
	progress *progress
	seen     map[string][]partResult // by kind
}

func (b *rebuildBench) logDir() string { return filepath.Join(b.dir, "log") }

// fill makes the stream that all measurements read.
func (b *rebuildBench) fill(ctx context.Context) (err error) {
	p, err := openLogIn(ctx, b.logDir(), logOptions())
	if err != nil {
		return err
	}
	defer p.close()
	var done atomic.Int64
	stop := b.progress.follow("filling OUTCOMES", b.Records)(func() int { return int(done.Load()) })
	err = p.fill(ctx, b.want.of(histories{seed: 1}.lines(b.Records)), &done)
	stop()
	if err != nil {
		return err
	}
	b.sizes, err = p.sizes(ctx, filepath.Join(b.dir, "sizes.db"), min(b.Records, sizesOf))
	return err
}

// measure takes turns, so that what else the machine does hits both alike. Who is
// first changes with every round.
func (b *rebuildBench) measure(ctx context.Context) error {
	kinds := []string{partProduct, partFloor}
	for round := range b.Rounds {
		for _, kind := range kinds {
			what := fmt.Sprintf("round %d of %d, %s", round+1, b.Rounds, kind)
			r, err := b.once(ctx, kind, what)
			if err != nil {
				return fmt.Errorf("measure %s: %w", kind, err)
			}
			b.seen[kind] = append(b.seen[kind], r)
		}
		slices.Reverse(kinds)
	}
	if of := b.seen[partProduct]; slices.ContainsFunc(of, func(r partResult) bool { return r.Digest != of[0].Digest }) {
		return errDigests
	}
	return nil
}

var errDigests = errors.New("two rounds folded the same stream into different ledgers")

// once makes one measurement, on a new file.
func (b *rebuildBench) once(ctx context.Context, kind, what string) (partResult, error) {
	part := part{Kind: kind, Log: b.logDir(), File: filepath.Join(b.dir, kind+".db"), Want: b.want, Sizes: b.sizes}
	last := kind == partProduct && len(b.seen[kind]) == b.Rounds-1
	if last {
		part.CPUProfile, b.ledger = b.CPUProfile, part.File
	}
	if !last || !b.Queries && !b.Memory {
		defer removeFile(part.File)
	}
	return b.run(ctx, part, what, b.Records)
}

// look measures what is done with the ledger of the last round.
func (b *rebuildBench) look(ctx context.Context, r *RebuildResult) (err error) {
	if b.Queries {
		p := part{Kind: partQueries, File: b.ledger, Want: b.want}
		asked, err := b.run(ctx, p, "queries", len(queries())*queriesOf)
		if err != nil {
			return fmt.Errorf("measure queries: %w", err)
		}
		r.Queries = asked.Queries
	}
	if b.Memory { // last, since it writes
		if r.Heap, err = b.heapPerID(ctx); err != nil {
			return fmt.Errorf("measure memory: %w", err)
		}
	}
	return nil
}

func (b *rebuildBench) result() RebuildResult {
	rate := func(kind string) float64 {
		var rates []float64
		for _, r := range b.seen[kind] {
			rates = append(rates, r.Rate)
		}
		return median(rates)
	}
	r := RebuildResult{
		Records: b.Records, Rate: round(rate(partProduct), 1), Floor: round(rate(partFloor), 1),
		Ratio: round(rate(partProduct)/rate(partFloor), 3),
	}
	for _, m := range b.seen[partProduct] {
		r.PeakRSS = max(r.PeakRSS, round(m.PeakRSS, 1))
	}
	return r
}
