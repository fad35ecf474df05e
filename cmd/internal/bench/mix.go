package bench

import (
	"iter"
	"math/rand/v2"
)

// mix says which parts of the messages, from 0 to 1, have the id of a message
// before: duplicates with its body, conflicts with another one. The zero value
// is a load without either.
type mix struct{ duplicates, conflicts float64 }

// kind is what a message is to the bridge.
type kind int

const (
	original kind = iota
	duplicate
	conflict
	kinds
)

// message is one that is published.
type message struct {
	kind kind
	id   int // that of an original before, if it is not one itself
}

// repeatWithin is how many originals back a repeat may be: often it meets the
// original in the window, and it is always inside the duplicate window of the log.
const repeatWithin = 1000

// messages are the same every time. Each original is repeated at most once, so
// that what becomes of each message is certain whichever is stored first.
func (m mix) messages(count int) iter.Seq[message] {
	return func(yield func(message) bool) {
		random := rand.New(rand.NewPCG(1, 2))
		var recent []int // originals that are not repeated yet
		var due [kinds]float64
		for i := range count {
			due[duplicate] += m.duplicates
			due[conflict] += m.conflicts
			next := message{id: i}
			for k := duplicate; k < kinds; k++ {
				if due[k] >= 1 && len(recent) > 0 && next.kind == original {
					due[k]--
					at := random.IntN(len(recent))
					next = message{kind: k, id: recent[at]}
					recent = append(recent[:at], recent[at+1:]...)
				}
			}
			if next.kind == original {
				recent = append(recent, i)
			}
			if len(recent) > repeatWithin {
				recent = recent[1:]
			}
			if !yield(next) {
				return
			}
		}
	}
}

// count returns how many messages there are of each kind.
func (m mix) count(count int) (of [kinds]int) {
	for msg := range m.messages(count) {
		of[msg.kind]++
	}
	return of
}
