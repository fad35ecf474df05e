package app

import (
	"errors"
	"io"
	"slices"
	"sync"

	"tidings/cmd/internal/config"
	"tidings/dispatcher/channel"
)

// senders are those that are open, each with who has it. One that a configuration and the
// next have in common is made once, so that its connections and what the dispatcher
// knows of its provider stay.
type senders struct {
	mu  sync.Mutex
	all []*heldSender
}

type heldSender struct {
	channel.Sender
	section config.Channel
	files   string // digest of what those hold that the section names
	uses    int
}

// get returns the sender of a section, which is released by whoever got it.
func (s *senders) get(section config.Channel) (*heldSender, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	files := section.FilesDigest()
	for _, h := range s.all {
		if h.files == files && h.section.SameSender(&section) {
			h.uses++
			return h, nil
		}
	}
	sender, err := newSender(section)
	if err != nil {
		return nil, err
	}
	h := &heldSender{Sender: sender, section: section, files: files, uses: 1}
	s.all = append(s.all, h)
	return h, nil
}

// release closes the senders that nobody has any more.
func (s *senders) release(held []*heldSender) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, h := range held {
		if h.uses--; h.uses > 0 {
			continue
		}
		s.all = slices.DeleteFunc(s.all, func(other *heldSender) bool { return other == h })
		if closer, ok := h.Sender.(io.Closer); ok {
			errs = append(errs, closer.Close())
		}
	}
	return errors.Join(errs...)
}
