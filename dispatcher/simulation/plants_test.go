package simulation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams"
	"tidings/streams/event"
)

// plant is a bug, planted between the dispatcher and the log: in what the log is
// told, or in what it says. It makes of each request another one.
type plant func(r *request)

// change plants the bug in what a process of an instance asks.
func (p plant) change(who *process, r *request) {
	if p != nil && who.owner.Instance != "" {
		p(r)
	}
}

var (
	expectation = regexp.MustCompile("\r\nNats-Expected-Last-Subject-Sequence: [0-9]+")
	recordID    = regexp.MustCompile("\r\n" + streams.HeaderRecordID + ": [^\r]+")
	generation  = regexp.MustCompile("\r\n" + streams.HeaderGeneration + ": [^\r]+")
)

// expectNothing has claims expect nothing of the history that they are appended to.
func expectNothing(r *request) {
	if isRecord(r, event.KindClaimed) {
		r.header = expectation.ReplaceAll(r.header, nil)
	}
}

// knowNoNonce has a process not recognise its own record when it finds it.
func knowNoNonce(r *request) {
	rewrite(r, streams.OutcomesStream, func(header, data []byte) ([]byte, []byte) {
		return recordID.ReplaceAll(header, []byte("\r\n"+streams.HeaderRecordID+": another")), data
	})
}

// forgetLate drops results that come after their claim was taken over.
func forgetLate(r *request) {
	if isRecord(r, event.KindLate) {
		r.perform = func() answer { return asAnswer(map[string]any{"stream": r.stream.cfg.Name, "seq": r.stream.last}) }
	}
}

// knowNoWaiting has a waiting event taken for one that nobody holds.
func knowNoWaiting(r *request) {
	rewriteState(r, func(s *event.State) {
		if s.Phase == event.PhaseWaiting {
			s.Phase = event.PhaseOpen
		}
	})
}

// knowNoGeneration has the dead letter of any generation taken for that of this one.
func knowNoGeneration(r *request) {
	rewrite(r, streams.DeadLettersStream, func(header, data []byte) ([]byte, []byte) {
		return generation.ReplaceAll(header, []byte("\r\n"+streams.HeaderGeneration+": 1000")), data
	})
}

// knowNoLease has the lease of every claim be over.
func knowNoLease(r *request) {
	rewriteState(r, func(s *event.State) {
		if s.Claim != nil {
			c := *s.Claim
			s.Claim = &c
			c.LeaseMS = -10_000 // and 5 s more, by which clocks may differ
		}
	})
}

func isRecord(r *request, k event.Kind) bool {
	return r.kind == asksAppend && r.stream.cfg.Name == streams.OutcomesStream && headers(r.header).Get(streams.HeaderKind) == string(k)
}

func rewriteState(r *request, change func(*event.State)) {
	rewrite(r, streams.OutcomesStream, func(header, data []byte) ([]byte, []byte) {
		rec, err := event.DecodeRecord(data)
		if err != nil {
			return header, data
		}
		change(&rec.State)
		data, err = event.EncodeRecord(rec)
		if err != nil {
			panic(err)
		}
		return header, data
	})
}

// rewrite changes the entries that are read from a stream.
func rewrite(r *request, stream string, change func(header, data []byte) ([]byte, []byte)) {
	if r.kind != asksRead || r.stream.cfg.Name != stream {
		return
	}
	changed := func(read func() answer) func() answer {
		return func() answer {
			a := read()
			var said struct {
				Message map[string]any `json:"message"`
			}
			switch {
			case len(a.header) > 0 && !bytes.HasPrefix(a.header, []byte("NATS/1.0 404")): // of any replica
				a.header, a.data = change(a.header, a.data)
			case json.Unmarshal(a.data, &said) == nil && said.Message != nil: // of the leader
				var m struct {
					Header []byte `json:"hdrs"`
					Data   []byte `json:"data"`
				}
				raw, _ := json.Marshal(said.Message)
				_ = json.Unmarshal(raw, &m)
				said.Message["hdrs"], said.Message["data"] = change(m.Header, m.Data)
				return asAnswer(map[string]any{"message": said.Message})
			}
			return a
		}
	}
	r.perform = changed(r.perform)
	if r.lagging != nil {
		r.lagging = changed(r.lagging)
	}
}

func TestPlantedBugsAreFound(t *testing.T) {
	for name, c := range map[string]struct {
		bug  plant
		says string // the violation
	}{
		"a claim that expects nothing":                {expectNothing, "two histories"},
		"a nonce that is not looked at":               {knowNoNonce, "is told twice|is said to have crashed"},
		"results that are dropped when they are late": {forgetLate, "does not tell of the call"},
		"a waiting event that is taken in hand":       {knowNoWaiting, "although it waits"},
		"a generation that is not looked at":          {knowNoGeneration, "and its letter is"},
		"a lease that is not kept to":                 {knowNoLease, "is said to have crashed"},
	} {
		t.Run(name, func(t *testing.T) {
			const seeds = 300
			for seed := uint64(1); seed <= seeds; seed++ {
				if broken, _ := run(t, seed, c.bug); broken != "" {
					t.Logf("seed %d: %s", seed, broken)
					require.Regexp(t, c.says, broken)
					return
				}
			}
			require.Fail(t, fmt.Sprintf("not found within %d seeds", seeds))
		})
	}
}
