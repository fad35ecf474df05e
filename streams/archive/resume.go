package archive

import (
	"errors"
	"fmt"
	"io"
	"os"
)

// Resume looks how far the export in a file is that was cut off, and takes away what
// is behind the last frame that is whole and as it was written. It returns the
// checkpoint to go on behind, nil if nothing of the file is of use, or its end and that
// it is whole already. A file that does not begin as an export is let alone, and is a
// *[DamageError].
func Resume(f *os.File) (after *Checkpoint, whole bool, err error) {
	r, err := newReader(f, place{})
	if err != nil {
		return nil, false, err
	}
	defer r.close()
	for err == nil {
		_, err = r.next()
	}
	damage, damaged := errors.AsType[*DamageError](err)
	switch {
	case errors.Is(err, io.EOF):
		end := r.snapshot()
		return &end, true, nil
	case !damaged, !damage.CutOff && r.behind.offset == 0:
		return nil, false, fmt.Errorf("export %s: %w", f.Name(), err)
	}
	if err := f.Truncate(r.behind.offset); err != nil {
		return nil, false, fmt.Errorf("export %s: cut off what is not whole: %w", f.Name(), err)
	}
	if _, err := f.Seek(r.behind.offset, io.SeekStart); err != nil {
		return nil, false, fmt.Errorf("export %s: %w", f.Name(), err)
	}
	if r.behind.offset == 0 {
		return nil, false, nil
	}
	return &r.behind.after, false, nil
}
