package archive

import (
	"bufio"
	"encoding/binary"
	"errors"
	"io"

	"github.com/klauspost/compress/zstd"
)

// frame reads the bytes of exactly one frame of zstd, so that it is known where in
// the file it ends. It checks the outline of the frame only: the decoder does the
// rest.
type frame struct {
	in   *bufio.Reader
	size int64 // bytes read so far
	left int   // bytes that are in hand of the part that was begun
	part part  // what comes after those
	err  error // why it cannot be read on
}

// part is a part of a frame.
type part int

const (
	partHeader part = iota
	partBlock
	partChecksum
	partNone
)

var errNoFrame = errors.New("this is no frame of zstd as an export has them")

// next begins with the frame behind the one that was read. It returns io.EOF if
// there is none.
func (f *frame) next() error {
	_, err := f.in.Peek(1)
	f.left, f.part, f.err = 0, partHeader, nil
	return err
}

// whole reports whether all of the frame was read.
func (f *frame) whole() bool { return f.left == 0 && f.part == partNone }

// Read implements io.Reader.
func (f *frame) Read(p []byte) (int, error) {
	for f.left == 0 {
		if f.part == partNone {
			return 0, io.EOF
		}
		if f.err = cutOff(f.begin()); f.err != nil {
			return 0, f.err
		}
	}
	n, err := f.in.Read(p[:min(len(p), f.left)])
	f.left, f.size = f.left-n, f.size+int64(n)
	f.err = cutOff(err)
	return n, f.err
}

// cutOff: inside a frame the end of the file is no end.
func cutOff(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// begin finds out how long the next part is.
func (f *frame) begin() error {
	switch f.part {
	case partHeader:
		return f.header()
	case partBlock:
		return f.block()
	case partChecksum, partNone:
		f.left, f.part = 4, partNone
	}
	return nil
}

func (f *frame) header() error {
	some, err := f.in.Peek(zstd.HeaderMaxSize)
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var h zstd.Header
	switch err := h.Decode(some); {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case err != nil, h.Skippable, !h.HasCheckSum, h.DictionaryID != 0:
		return errNoFrame
	}
	f.left, f.part = h.HeaderSize, partBlock
	return nil
}

// block reads ahead the three bytes that begin a block.
func (f *frame) block() error {
	some, err := f.in.Peek(3)
	if err != nil {
		return err
	}
	head := binary.LittleEndian.Uint32(append(append([]byte{}, some...), 0))
	last, kind, size := head&1 == 1, head>>1&3, int(head>>3)
	switch kind {
	case 1: // one byte, repeated
		size = 1
	case 3:
		return errNoFrame
	}
	f.left = 3 + size
	if last {
		f.part = partChecksum
	}
	return nil
}
