package archive

import (
	"errors"
	"io"
)

// Receive reads an export as it comes, or the rest of one behind a checkpoint, and
// checks it. It returns its end, and a *[DamageError] where it is not whole. progress
// is told at the end of every frame how far it is; it may be nil.
func Receive(in io.Reader, after *Checkpoint, progress func(Checkpoint)) (Checkpoint, error) {
	var at place
	if after != nil {
		at.after = *after
	}
	r, err := newReader(in, at)
	if err != nil {
		return Checkpoint{}, err
	}
	defer r.close()
	for {
		_, err := r.next()
		switch {
		case errors.Is(err, io.EOF):
			return r.snapshot(), nil
		case err != nil:
			return r.behind.after, err
		case r.marked && progress != nil:
			progress(r.snapshot())
		}
	}
}

// Damaged returns how many objects of dead letters could not be read when the file was
// written: the letters are there, without them.
func (f *File) Damaged() int { return f.damaged }
