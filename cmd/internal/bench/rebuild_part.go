package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"time"
)

// The kinds of parts.
const (
	partProduct = "product"
	partFloor   = "floor"
	partQueries = "queries"
	partMemory  = "memory"
)

// part is a measurement that has a process of its own, so that its memory is
// nobody else's.
type part struct {
	Kind       string    `json:"kind"`
	Log        string    `json:"log"`  // the directory
	File       string    `json:"file"` // to make, or to look into
	Want       *contents `json:"want"`
	Sizes      sizes     `json:"sizes"`
	More       int       `json:"more,omitempty"` // records to write while the memory is measured
	CPUProfile string    `json:"cpu_profile,omitempty"`
}

// partResult is what a part found.
type partResult struct {
	Rate    float64 `json:"rate"` // records a second
	PeakRSS float64 `json:"peak_rss_mib"`
	Digest  string  `json:"digest,omitempty"` // of a ledger

	Queries []QueryResult `json:"queries,omitempty"`
	Heaps   *heaps        `json:"heaps,omitempty"`
}

// said is a line of what a part writes: how far it is, or at last what it found.
type said struct {
	Done     int         `json:"done"`     // of what it measures
	Checked  int         `json:"checked"`  // of what it has made, afterwards
	Checking bool        `json:"checking"` // it does so
	Result   *partResult `json:"result,omitempty"`
}

// pace is how far a part is.
type pace struct {
	done, checked atomic.Int64
	checking      atomic.Bool
}

func (p *pace) say() said {
	return said{Done: int(p.done.Load()), Checked: int(p.checked.Load()), Checking: p.checking.Load()}
}

func (p *pace) hear(s said) {
	p.done.Store(int64(s.Done))
	p.checked.Store(int64(s.Checked))
	p.checking.Store(s.Checking)
}

// tellEvery is how often a part says how far it is.
const tellEvery = 200 * time.Millisecond

// RebuildPart makes one measurement of [Rebuild]. It is for the process that
// Rebuild starts, see [RebuildOptions].
func RebuildPart(ctx context.Context, text string, out io.Writer) error {
	var p part
	if err := json.Unmarshal([]byte(text), &p); err != nil {
		return fmt.Errorf("this is no part of a measurement: %w", err)
	}
	var at pace
	encoder := json.NewEncoder(out)
	stop := every(tellEvery, func() { _ = encoder.Encode(at.say()) })
	result, err := p.measure(ctx, &at)
	stop()
	if err != nil {
		return err
	}
	last := at.say()
	last.Result = &result
	return encoder.Encode(last)
}

// every calls fn every so often until stop is called, and not after.
func every(period time.Duration, fn func()) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(period)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				fn()
			case <-end:
				return
			}
		}
	}()
	return func() { close(end); <-ended }
}

func (p part) measure(ctx context.Context, at *pace) (partResult, error) {
	if p.Kind == partQueries {
		return p.queries(ctx, &at.done)
	}
	log, err := openLogIn(ctx, p.Log, logOptions())
	if err != nil {
		return partResult{}, err
	}
	defer log.close()
	switch p.Kind {
	case partProduct:
		return p.product(ctx, log, at)
	case partFloor:
		return p.floor(ctx, log, at)
	case partMemory:
		return p.memory(ctx, log, &at.done)
	}
	return partResult{}, fmt.Errorf("there is no part %q", p.Kind)
}

var errNoResult = errors.New("it ended without a result")

// run has a process make a measurement of so many steps.
func (b *rebuildBench) run(ctx context.Context, p part, what string, steps int) (partResult, error) {
	text, err := json.Marshal(p)
	if err != nil {
		return partResult{}, err
	}
	cmd := b.Process(ctx, string(text))
	var trouble bytes.Buffer
	cmd.Stderr, cmd.WaitDelay = &trouble, time.Second
	out, err := cmd.StdoutPipe()
	if err != nil {
		return partResult{}, err
	}
	if err := cmd.Start(); err != nil {
		return partResult{}, err
	}
	result, err := b.listen(out, what, steps)
	if ended := cmd.Wait(); ended != nil {
		err = errors.New(strings.TrimSpace(strings.TrimPrefix(trouble.String(), "error: ")))
		if trouble.Len() == 0 {
			err = ended
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return result, err
}

// listen reads what a part says, to its end, and passes on how far it is.
func (b *rebuildBench) listen(out io.Reader, what string, steps int) (partResult, error) {
	var at pace
	stop := b.progress.follow(what, steps)(func() int { return int(at.done.Load()) })
	defer func() { stop() }()
	var result *partResult
	for decoder := json.NewDecoder(out); ; {
		var s said
		err := decoder.Decode(&s)
		if errors.Is(err, io.EOF) && result != nil {
			return *result, nil
		}
		if err != nil {
			return partResult{}, fmt.Errorf("%w (%w)", errNoResult, err)
		}
		begins := s.Checking && !at.checking.Load()
		if at.hear(s); begins {
			stop()
			stop = b.progress.follow(what+", checking", steps)(func() int { return int(at.checked.Load()) })
		}
		result = s.Result
	}
}

func removeFile(path string) { _ = os.Remove(path) }
