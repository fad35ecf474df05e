package projector

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"tidings/store"
)

// Source is the log that a ledger is made anew from.
type Source struct {
	Outcomes    Stream
	DeadLetters Stream
	Live        *Projector // which follows into the ledger
}

// UpkeepOptions are what an upkeep is made of. Store and Source must be given.
type UpkeepOptions struct {
	Store  *store.Store
	Source func() (Source, bool) // false while the log is not open
	Logger *slog.Logger          // nil: discard
	Now    func() time.Time      // nil: time.Now
}

// Upkeep carries out what operators want done with the ledger while it serves, one
// thing at a time. Its methods may be called by many goroutines.
type Upkeep struct {
	UpkeepOptions
	orders chan order

	mu     sync.Mutex
	busy   bool
	last   *Operation // the one under way, or the one before
	cancel context.CancelFunc
}

// NewUpkeep returns an upkeep. It starts nothing.
func NewUpkeep(o UpkeepOptions) *Upkeep {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Upkeep{UpkeepOptions: o, orders: make(chan order, 1)} // one thing at a time
}

// Kind is what an operation does.
type Kind string

// The kinds.
const (
	KindRebuild Kind = "rebuild"
	KindVerify  Kind = "verify"
)

// Result is how an operation ended.
type Result string

// The results.
const (
	ResultSame      Result = "same"      // the ledger is what the log says; of a rebuild: and is made anew
	ResultDiffers   Result = "differs"   // it is not, and stays as it is
	ResultAccepted  Result = "accepted"  // it was not, and is made anew all the same
	ResultFailed    Result = "failed"    // see Error
	ResultRefused   Result = "refused"   // log and ledger do not fit, see Error
	ResultCancelled Result = "cancelled" // by an operator or by the end of the process
)

// Operation is a rebuild or a verification, under way or over.
type Operation struct {
	Kind     Kind   `json:"kind" enum:"rebuild,verify"`
	Operator string `json:"operator"`
	Accept   bool   `json:"accept"` // differences
	Progress
	Rate    float64   `json:"rate"`         // entries a second
	Left    float64   `json:"seconds_left"` // of folding, about
	Started time.Time `json:"started"`
	Ended   time.Time `json:"ended,omitzero"` // missing: it is under way
	Result  Result    `json:"result,omitempty" enum:"same,differs,accepted,failed,refused,cancelled"`
	Error   string    `json:"error,omitempty"`
	Found   *Rebuilt  `json:"found,omitempty"` // once it is over

	first uint64    // what was done when folding began
	since time.Time // and when that was
}

// Over reports whether it has ended.
func (o Operation) Over() bool { return !o.Ended.IsZero() }

// at notes how far it is.
func (o *Operation) at(p Progress, now time.Time) {
	if p.Phase == PhaseFolding && o.since.IsZero() {
		o.first, o.since = p.Done, now
	}
	if p.Total == 0 { // of a phase that has no count
		p.Done, p.Total = o.Done, o.Total
	}
	o.Progress = p
	if s := now.Sub(o.since).Seconds(); p.Phase == PhaseFolding && s > 0 {
		o.Rate = float64(p.Done-min(o.first, p.Done)) / s
		o.Left = float64(p.Total-min(p.Done, p.Total)) / max(o.Rate, 1)
	} else {
		o.Left = 0
	}
}

type order struct {
	ctx context.Context
	RebuildOptions
}

// Errors of asking for something to be done.
var (
	// ErrBusy means that something else is being done with the ledger.
	ErrBusy = errors.New("the ledger is being rebuilt, verified or backed up: wait for that, or cancel it")
	// ErrNoLog means that the log is not open yet.
	ErrNoLog = errors.New("the log is not open yet")
	// ErrIdle means that there is nothing to cancel.
	ErrIdle = errors.New("no rebuild or verification is under way")
)

// Start has a rebuild or a verification begin, which [Upkeep.Run] carries out, and
// returns it. Errors: [ErrBusy], [ErrNoLog].
func (u *Upkeep) Start(kind Kind, accept bool, operator string) (Operation, error) {
	source, ok := u.Source()
	if !ok {
		return Operation{}, ErrNoLog
	}
	if !u.take() {
		return Operation{}, ErrBusy
	}
	begun := Operation{Kind: kind, Operator: operator, Accept: accept, Started: u.Now().UTC(), Progress: Progress{Phase: PhaseFolding}}
	running, cancel := context.WithCancel(context.Background())
	u.mu.Lock()
	u.last, u.cancel = new(begun), cancel
	u.mu.Unlock()
	u.orders <- order{running, RebuildOptions{
		Outcomes: source.Outcomes, DeadLetters: source.DeadLetters, Store: u.Store, Live: source.Live,
		Accept: accept, Logger: u.Logger, Progress: u.progress,
	}}
	return begun, nil
}

func (u *Upkeep) take() bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.busy {
		return false
	}
	u.busy = true
	return true
}

func (u *Upkeep) release() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.busy = false
}

func (u *Upkeep) progress(p Progress) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last.at(p, u.Now())
}

// Last returns what is under way, or was the last to be; false if nothing was since
// the start.
func (u *Upkeep) Last() (Operation, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil {
		return Operation{}, false
	}
	return *u.last, true
}

// Cancel ends what is under way, if its files have not begun to change places. What a
// rebuild has done until then is kept for the next one.
func (u *Upkeep) Cancel() (Operation, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.last == nil || u.last.Over() {
		return Operation{}, ErrIdle
	}
	u.cancel()
	return *u.last, nil
}

// File returns what the file of the ledger is: its schema, size and checkpoints.
func (u *Upkeep) File() (f store.Checked, err error) {
	f = store.Checked{Schema: store.Schema, Bytes: sizeOf(u.Store.Path())}
	f.Checkpoints, err = u.Store.Checkpoints()
	return f, err
}

// Backup begins a copy of the ledger as it is now. release is to be called, and waits
// for nothing. The error is [ErrBusy] while something else is done with the ledger.
func (u *Upkeep) Backup() (b *store.Backup, release func() error, err error) {
	if !u.take() {
		return nil, nil, ErrBusy
	}
	if b, err = u.Store.Backup(); err != nil {
		u.release()
		return nil, nil, err
	}
	return b, func() error { defer u.release(); return b.Close() }, nil
}

// Run carries out what is started until ctx is done, and returns nil then. The error
// is [store.ErrReplaced], after which the process has to end.
func (u *Upkeep) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case o := <-u.orders:
			if err := u.carryOut(ctx, o); errors.Is(err, store.ErrReplaced) {
				return err
			}
		}
	}
}

func (u *Upkeep) carryOut(ctx context.Context, o order) error {
	running, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(o.ctx, cancel)()
	op, _ := u.Last()
	u.Logger.Info("ledger: begun", "what", op.Kind, "operator", op.Operator, "accept", op.Accept)
	do := Rebuild
	if op.Kind == KindVerify {
		do = Verify
	}
	found, err := do(running, o.RebuildOptions)
	u.end(op, found, err)
	return err
}

func (u *Upkeep) end(op Operation, found Rebuilt, err error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cancel()
	u.last.Found, u.last.Ended, u.last.Left = &found, u.Now().UTC(), 0
	u.last.Result = ResultOf(found, err)
	level := slog.LevelInfo
	if err != nil {
		u.last.Error, level = err.Error(), slog.LevelWarn
	}
	u.busy = false
	u.Logger.Log(context.Background(), level, "ledger: ended", "what", op.Kind, "operator", op.Operator, "result", u.last.Result,
		"differences", found.Differences.String(), "entries", found.Entries, "error", cmp.Or(u.last.Error, "none"))
}

// ResultOf returns how a rebuild or a verification ended.
func ResultOf(found Rebuilt, err error) Result {
	_, halt := errors.AsType[*HaltError](err)
	switch {
	case err == nil && found.Differences.None():
		return ResultSame
	case err == nil:
		return ResultAccepted
	case errors.Is(err, ErrDiffers):
		return ResultDiffers
	case halt:
		return ResultRefused
	case errors.Is(err, context.Canceled):
		return ResultCancelled
	}
	return ResultFailed
}

// Err returns how an operation that is over failed, nil if it did not.
func (o Operation) Err() error {
	if o.Error == "" {
		return nil
	}
	return fmt.Errorf("%s: %s", o.Kind, o.Error)
}
