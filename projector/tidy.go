package projector

import (
	"context"
	"errors"
	"sort"

	"tidings/store"
	"tidings/streams"
)

// tidyMax is how much is tidied in one transaction.
const tidyMax = 1000

// headCut returns a *[HaltError] if OUTCOMES has lost first entries that are younger
// than its horizon: an event whose record is gone would be taken for one that was never
// sent. The horizon is the present one, so that lowering it cuts nothing off.
func headCut(s *store.Store, info streams.StreamInfo) error {
	oldest, err := s.Audit(0, 1)
	if err != nil || len(oldest) == 0 || oldest[0].Sequence >= info.First {
		return err
	}
	// The entries are in the order of time.
	from, young := oldest[0].Sequence, store.Entry{}
	sort.Search(int(info.First-from), func(n int) bool {
		entries, asked := s.Audit(from+uint64(n)-1, 1)
		err = errors.Join(err, asked)
		if len(entries) == 0 || entries[0].Sequence >= info.First {
			return true
		}
		keeps := info.Keeps(entries[0].StoredAt)
		if keeps {
			young = entries[0]
		}
		return keeps
	})
	if err != nil || young.Sequence == 0 {
		return err
	}
	return cutHead(streams.OutcomesStream, young, info)
}

// trim makes the store forget the entries that OUTCOMES no longer has. It returns a
// *[HaltError] if it should still have them.
func trim(ctx context.Context, f *follower, info streams.StreamInfo) error {
	oldest, err := f.store.Audit(0, 1)
	if err != nil || len(oldest) == 0 || oldest[0].Sequence >= info.First {
		return err
	}
	if err := headCut(f.store, info); err != nil {
		return err
	}
	for more := true; more && ctx.Err() == nil; {
		err := f.store.Update(func(tx *store.Tx) (err error) {
			more, err = tx.Trim(info.First, tidyMax)
			return err
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// reconciler takes the letters out of the list that DEADLETTERS no longer has.
// Asking for every letter takes its time, so it is done at the start, and later
// only when the numbers differ and have changed since.
type reconciler struct {
	compared bool
	listed   int
	messages uint64
}

func (r *reconciler) needless(listed int, messages uint64) bool {
	return r.compared && (uint64(listed) == messages || listed == r.listed && messages == r.messages)
}

func (r *reconciler) reconcile(ctx context.Context, f *follower, info streams.StreamInfo) error {
	counts, err := f.store.Counts()
	if err != nil || r.needless(counts.Letters, info.Messages) {
		return err
	}
	for q, more := (store.LetterQuery{Limit: tidyMax}), true; more; {
		page, err := f.store.DeadLetters(q)
		if err != nil {
			return err
		}
		if err := dropGone(ctx, f, info, page.Items); err != nil {
			return err
		}
		q.Cursor, more = page.Next, page.Next != ""
	}
	if counts, err = f.store.Counts(); err != nil {
		return err
	}
	r.compared, r.listed, r.messages = true, counts.Letters, info.Messages
	return nil
}

func dropGone(ctx context.Context, f *follower, info streams.StreamInfo, letters []store.Letter) error {
	var gone []store.Letter
	for _, l := range letters {
		if l.Sequence >= info.First {
			_, err := f.entry(ctx, l.Sequence)
			if err == nil {
				continue
			}
			if !errors.Is(err, streams.ErrNotFound) {
				return err
			}
		}
		gone = append(gone, l)
	}
	if len(gone) == 0 {
		return nil
	}
	return f.store.Update(func(tx *store.Tx) error {
		for _, l := range gone {
			if err := tx.DropLetter(l.Key, l.Sequence); err != nil {
				return err
			}
		}
		return nil
	})
}
