package streams

import (
	"fmt"
	"strconv"
	"sync"

	"github.com/synadia-io/orbit.go/jetstreamext"

	"tidings/streams/event"
)

// batch stores entries as one atomic batch, all or none, and returns the sequence
// of the last. It does not finish them. Errors are those of publishError.
//
// It is the PublishMsgBatch of jetstreamext without what that does for each
// message again: the values of the headers are made once for all batches.
func (p *publisher) batch(entries []*entry) (last uint64, err error) {
	answer, err := p.sendBatch(entries)
	if err == nil {
		<-answer.done
		err = answer.err
	}
	if err != nil {
		stripBatch(entries)
		return 0, err
	}
	return answer.sequence, nil
}

// sendBatch returns what the answer to the batch finishes. After an error the
// batch was certainly not committed.
func (p *publisher) sendBatch(entries []*entry) (*entry, error) {
	id, numbers, final := []string{event.NewNonce()[:12]}, batchNumbers(), len(entries)-1
	for i, e := range entries {
		e.msg.Header[jetstreamext.BatchIDHeader] = id
		e.msg.Header[jetstreamext.BatchSeqHeader] = numbers[i]
		if i == final {
			break
		}
		if err := p.nc.PublishMsg(e.msg); err != nil {
			return nil, fmt.Errorf("%w: the batch was not committed: %w", ErrUnavailable, err)
		}
	}
	commit := entries[final].msg
	commit.Header[jetstreamext.BatchCommitHeader] = committing
	answer := newEntry(commit, "")
	answer.parts = len(entries)
	p.send(answer)
	return answer, nil
}

var committing = []string{"1"}

// batchNumbers are the sequences in a batch, as values of a header.
var batchNumbers = sync.OnceValue(func() [][]string {
	numbers := make([][]string, maxBatch)
	for i := range numbers {
		numbers[i] = []string{strconv.Itoa(i + 1)}
	}
	return numbers
})

// batchHeaders is how many headers a batch adds to a message.
const batchHeaders = 3

// stripBatch makes messages fit to be published again: with a batch header
// left over, the server would wait for the rest of a batch that never comes.
func stripBatch(entries []*entry) {
	for _, e := range entries {
		delete(e.msg.Header, jetstreamext.BatchIDHeader)
		delete(e.msg.Header, jetstreamext.BatchSeqHeader)
		delete(e.msg.Header, jetstreamext.BatchCommitHeader)
	}
}
