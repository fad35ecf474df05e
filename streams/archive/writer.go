package archive

import (
	"io"

	"github.com/klauspost/compress/zstd"
)

// A frame is ended when it has so many lines or bytes: what an export that is cut
// off loses at most, and what is read to find one entry.
const (
	frameLines = 4096
	frameBytes = 4 << 20
)

// writer writes lines in frames.
type writer struct {
	*tally
	w       io.Writer
	encoder *zstd.Encoder
	open    bool // a frame is
	flush   func(Checkpoint) error
}

func newWriter(w io.Writer, t *tally, flush func(Checkpoint) error) *writer {
	encoder, _ := zstd.NewWriter(nil, // the options are never refused
		zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(true), zstd.WithWindowSize(frameBytes))
	return &writer{tally: t, w: w, encoder: encoder, flush: flush}
}

// write writes a line and counts it.
func (w *writer) write(line []byte) error {
	w.add(line)
	return w.put(line)
}

func (w *writer) put(line []byte) error {
	if !w.open {
		w.encoder.Reset(w.w)
		w.open = true
	}
	_, err := w.encoder.Write(line)
	return err
}

func (w *writer) endIfFull() error {
	if w.since < frameLines && w.bytes < frameBytes {
		return nil
	}
	return w.end(lineCheckpoint)
}

// end ends a frame with a line that says how far the file is.
func (w *writer) end(kind string) error {
	if err := w.put(w.checkpoint(kind)); err != nil {
		return err
	}
	w.open = false
	if err := w.encoder.Close(); err != nil || w.flush == nil {
		return err
	}
	return w.flush(w.snapshot())
}
