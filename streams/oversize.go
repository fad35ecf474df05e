package streams

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// OversizeBucket is the object store of what is too large for a message of the
// log.
const OversizeBucket = "OVERSIZE"

const (
	chunkPrefix = "$O." + OversizeBucket + ".C."
	infoPrefix  = "$O." + OversizeBucket + ".M."

	// chunkSize is half of what every server takes in one message, see [Open].
	chunkSize = 512 << 10
	// chunksInFlight, of at most objectsInFlight, bound what the server has to
	// buffer: it refuses what is sent faster than it can sync.
	chunksInFlight  = 16
	objectsInFlight = 2

	digestPrefix = "SHA-256="
	letterOf     = "letter" // in an object's metadata: the subject of its letter
)

// Oversize is the object store of what is too large for one message: the
// payloads of some dead letters. Each belongs to one letter, and goes with it.
//
// The objects are in the format of NATS' object stores, whose tools can read
// them. They are written and removed here nevertheless: the client's own writer
// sends the description of an object while its parts may still be refused, and
// uses a buffer again that it may have to send a second time; what it removes
// leaves a marker behind for ever.
type Oversize struct {
	stream
	writing chan struct{} // has one for each object that is being written
}

// object is an object as it is described in the store.
type object struct {
	info     jetstream.ObjectInfo
	sequence uint64 // of the description
	at       time.Time
}

// put stores data for the letter of a subject, and returns what names it, when
// every byte is as durable as any append. Repeated, it takes the place of what
// is there: that may be about to be removed. Errors are those of publishError.
func (o *Oversize) put(ctx context.Context, subject, name string, data []byte) (event.Object, error) {
	select {
	case o.writing <- struct{}{}:
		defer func() { <-o.writing }()
	case <-ctx.Done():
		return event.Object{}, fmt.Errorf("%w: others are being stored: %w", ErrUnavailable, context.Cause(ctx))
	}
	digest := digestOf(data)
	named := event.Object{Bucket: OversizeBucket, Name: name + "." + digest[len(digestPrefix):][:22], Size: int64(len(data)), Digest: digest}
	before, err := o.find(ctx, named.Name)
	if err != nil && !errors.Is(err, ErrNotFound) && !errors.Is(err, ErrForeign) {
		return event.Object{}, err
	}
	err = o.write(ctx, jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{
			Name: named.Name, Metadata: map[string]string{letterOf: subject},
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize},
		},
		Bucket: OversizeBucket, NUID: event.NewNonce(), Size: uint64(len(data)),
		Chunks: uint32((len(data) + chunkSize - 1) / chunkSize), Digest: digest,
	}, data)
	if err != nil {
		return event.Object{}, fmt.Errorf("object of %d bytes in %s: %w", len(data), OversizeBucket, o.full(err))
	}
	if before.sequence > 0 {
		_ = o.purge(ctx, chunkPrefix+before.info.NUID, 0) // else it is swept
	}
	return named, nil
}

// digestOf returns the digest of data as object stores write it.
func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return digestPrefix + base64.URLEncoding.EncodeToString(sum[:])
}

// write stores the chunks, and then the description that makes an object of them.
func (o *Oversize) write(ctx context.Context, info jetstream.ObjectInfo, data []byte) error {
	if err := o.writeChunks(ctx, chunkPrefix+info.NUID, data); err != nil {
		_ = o.purge(context.WithoutCancel(ctx), chunkPrefix+info.NUID, 0) // else it is swept
		return err
	}
	return o.describe(ctx, info)
}

// describe makes an object of the chunks that are stored.
func (o *Oversize) describe(ctx context.Context, info jetstream.ObjectInfo) error {
	description, err := encodeJSON(info)
	if err != nil {
		return err
	}
	msg := nats.NewMsg(infoSubject(info.Name))
	msg.Header.Set(jetstream.MsgRollup, jetstream.MsgRollupSubject) // one description of a name
	msg.Data = description
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	_, err = o.js.PublishMsg(ctx, msg)
	return publishError(err)
}

func infoSubject(name string) string {
	return infoPrefix + base64.URLEncoding.EncodeToString([]byte(name))
}

// writeChunks returns when all chunks are stored. They are slices of data.
func (o *Oversize) writeChunks(ctx context.Context, subject string, data []byte) error {
	for some := range slices.Chunk(data, chunkSize*chunksInFlight) {
		if err := o.writeSome(ctx, subject, some); err != nil {
			return err
		}
	}
	return nil
}

func (o *Oversize) writeSome(ctx context.Context, subject string, data []byte) error {
	ctx, cancel := withAckWait(ctx, o.nc)
	defer cancel()
	var sent []jetstream.PubAckFuture
	for chunk := range slices.Chunk(data, chunkSize) {
		future, err := o.js.PublishMsgAsync(&nats.Msg{Subject: subject, Data: chunk})
		if err != nil {
			return publishError(err)
		}
		sent = append(sent, future)
	}
	for _, future := range sent {
		if err := answer(ctx, future); err != nil {
			return err
		}
	}
	return nil
}

func answer(ctx context.Context, future jetstream.PubAckFuture) error {
	select {
	case <-future.Ok():
		return nil
	case err := <-future.Err():
		return publishError(err)
	case <-ctx.Done():
		return fmt.Errorf("%w: %w", ErrUnknown, context.Cause(ctx))
	}
}

// find returns the object of a name, or [ErrNotFound].
func (o *Oversize) find(ctx context.Context, name string) (object, error) {
	e, err := o.last(ctx, infoSubject(name))
	if err != nil {
		return object{}, err
	}
	return decodeObject(e)
}

func decodeObject(e Entry) (object, error) {
	there := object{sequence: e.Sequence, at: e.Time}
	if err := json.Unmarshal(e.Data, &there.info); err != nil {
		return object{}, fmt.Errorf("object %s in %s: %w: %w", e.Subject, OversizeBucket, ErrForeign, err)
	}
	return there, nil
}

// drop removes an object as it was seen. One that was written anew meanwhile
// has another sequence and other chunks, and stays.
func (o *Oversize) drop(ctx context.Context, there object) error {
	if err := o.delete(ctx, there.sequence); err != nil && !errors.Is(err, ErrNotFound) {
		return err
	}
	return o.purge(ctx, chunkPrefix+there.info.NUID, 0)
}
