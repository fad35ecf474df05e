package api

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"tidings/streams"
	"tidings/streams/event"
)

// rawOutput is never shown by a browser: what came may be a page with scripts.
type rawOutput struct {
	ContentType string `header:"Content-Type"`
	Disposition string `header:"Content-Disposition"`
	Length      string `header:"Content-Length"`
	Digest      string `header:"Repr-Digest"`
	Body        func(huma.Context)
}

func (s *Server) getPayload(ctx context.Context, in *letterInput) (*rawOutput, error) {
	letter, _, err := s.letter(ctx, in.Key)
	if err != nil {
		return nil, err
	}
	// The context of this call ends only with the request.
	payload, err := s.Letters.Payload(ctx, letter)
	if err != nil {
		return nil, s.failure(err)
	}
	size, digest := describe(letter)
	return &rawOutput{
		ContentType: "application/octet-stream", Disposition: "attachment",
		Length: strconv.FormatInt(size, 10), Digest: digest,
		Body: func(ctx huma.Context) { s.stream(ctx, payload, letter.Key) },
	}, nil
}

// describe returns size and digest of a letter's payload, the latter as HTTP
// writes it.
func describe(l event.Letter) (size int64, digest string) {
	sum := sha256.Sum256(l.Data)
	size, hash := int64(len(l.Data)), sum[:]
	if o := l.PayloadObject; o != nil {
		size = o.Size
		hash, _ = base64.URLEncoding.DecodeString(strings.TrimPrefix(o.Digest, "SHA-256="))
	}
	return size, "sha-256=:" + base64.StdEncoding.EncodeToString(hash) + ":"
}

// stream writes a payload as it is read, for as long as it takes. What cannot be
// read to its end breaks off, so that nobody takes it for the whole.
func (s *Server) stream(ctx huma.Context, payload io.Reader, key event.Key) {
	_, w := humago.Unwrap(ctx)
	_, err := io.Copy(patient{w, http.NewResponseController(w)}, payload)
	if err == nil {
		return
	}
	if errors.Is(err, streams.ErrDamaged) {
		s.Logger.Error("a payload is damaged", "key", key, "error", err)
	}
	panic(http.ErrAbortHandler)
}

// patient gives every write the time of a whole request.
type patient struct {
	io.Writer
	control *http.ResponseController
}

// Write implements io.Writer.
func (p patient) Write(b []byte) (int, error) {
	_ = p.control.SetWriteDeadline(time.Now().Add(requestTimeout)) // not all connections have one
	return p.Writer.Write(b)
}
