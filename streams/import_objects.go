package streams

import (
	"context"
	"errors"
	"fmt"

	"github.com/nats-io/nats.go/jetstream"

	"tidings/streams/event"
)

// objectImport is the object that is being imported, if any.
type objectImport struct {
	name   string // empty: none
	nuid   string
	chunks uint32
	there  bool // it is in the store already
}

// Chunk stores the next bytes of an object, which [Importer.Object] ends. One that an
// import before stored is let alone.
func (i *Importer) Chunk(ctx context.Context, name string, data []byte) error {
	if i.object.name != name {
		_, err := i.oversize.find(ctx, name)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return err
		}
		i.object = objectImport{name: name, nuid: event.NewNonce(), there: err == nil}
	}
	if i.object.there {
		return nil
	}
	if err := i.oversize.writeChunks(ctx, chunkPrefix+i.object.nuid, data); err != nil {
		return fmt.Errorf("import object %s: %w", name, err)
	}
	i.object.chunks += uint32((len(data) + chunkSize - 1) / chunkSize)
	return nil
}

// Object makes an object of the chunks before it, which belongs to the dead letter of
// a subject.
func (i *Importer) Object(ctx context.Context, named event.Object, letter string) error {
	o := i.object
	if o.name != named.Name { // it has no bytes
		o = objectImport{name: named.Name, nuid: event.NewNonce()}
	}
	i.object = objectImport{}
	if o.there {
		return nil
	}
	err := i.oversize.describe(ctx, jetstream.ObjectInfo{
		ObjectMeta: jetstream.ObjectMeta{
			Name: named.Name, Metadata: map[string]string{letterOf: letter},
			Opts: &jetstream.ObjectMetaOptions{ChunkSize: chunkSize},
		},
		Bucket: OversizeBucket, NUID: o.nuid, Size: uint64(named.Size), Chunks: o.chunks, Digest: named.Digest,
	})
	if err != nil {
		return fmt.Errorf("import object %s: %w", named.Name, err)
	}
	return nil
}

// Forget lets go of the chunks before it: they are no object.
func (i *Importer) Forget(ctx context.Context) error {
	o := i.object
	i.object = objectImport{}
	if o.name == "" || o.there {
		return nil
	}
	return i.oversize.purge(ctx, chunkPrefix+o.nuid, 0)
}
