package streams

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/nats-io/nats.go"

	"tidings/streams/event"
)

// fit returns the message of a letter. What is too large for one is stored as
// an object before: first its payload, then, if that is not enough, the letter.
func (d *DeadLetters) fit(ctx context.Context, l event.Letter, subject, nonce string) (*nats.Msg, error) {
	payload := l.Data
	if l.Data, l.LetterObject = nil, nil; len(payload) > 0 {
		l.PayloadObject = nil // else it is a letter that was read, whose payload stays where it is
	}
	body, err := encodeJSON(l)
	if err != nil {
		return nil, err
	}
	room := d.room(l, nonce)
	name := string(l.Key) + "." + strconv.Itoa(l.Generation)
	if len(body)+base64.StdEncoding.EncodedLen(len(payload)) <= room {
		l.Data = payload
	} else if len(payload) > 0 {
		stored, err := d.oversize.put(ctx, subject, name, payload)
		if err != nil {
			return nil, err
		}
		l.PayloadObject = &stored
	}
	if body, err = encodeJSON(l); err != nil {
		return nil, err
	}
	if len(body) > room {
		stored, err := d.oversize.put(ctx, subject, name, body)
		if err != nil {
			return nil, err
		}
		l = beginning(l, stored)
		if body, err = encodeJSON(l); err != nil {
			return nil, err
		}
	}
	return &nats.Msg{Subject: subject, Header: letterHeaders(l, nonce), Data: body}, nil
}

// room is how many bytes of JSON a letter may have. What the headers of two
// objects and of the append itself need is set aside.
func (d *DeadLetters) room(l event.Letter, nonce string) int {
	return int(d.nc.MaxPayload()) - headerSize(letterHeaders(l, nonce)) - 1<<10
}

// beginning is what is left in the message of a letter that is an object: what
// it is listed by.
func beginning(l event.Letter, object event.Object) event.Letter {
	short := event.Letter{
		Schema: l.Schema, Kind: l.Kind, Key: l.Key, Tenant: l.Tenant, Cause: l.Cause, Stage: l.Stage,
		Detail: event.Shorten(l.Detail, listedText), Generation: l.Generation, At: l.At, Event: l.Event,
		PayloadObject: l.PayloadObject, LetterObject: &object,
	}
	if e := l.Envelope; e != nil {
		short.Envelope = &event.Envelope{
			Tenant: l.Tenant, Source: event.Shorten(e.Source, listedText), ID: event.Shorten(e.ID, listedText), IDSource: e.IDSource, Type: event.Shorten(e.Type, listedText), OccurredAt: e.OccurredAt,
		}
	}
	return short
}

// listedText is how long a text that is only listed may be, in bytes.
const listedText = 1000

// whole returns the letter with what is in objects, as far as it is there and
// not larger than an event.
func (d *DeadLetters) whole(ctx context.Context, l event.Letter) (event.Letter, error) {
	if object := l.LetterObject; object != nil {
		full, err := d.read(ctx, *object)
		if err != nil {
			return l, whatIsThere(err)
		}
		var restored event.Letter
		if err := json.Unmarshal(full, &restored); err != nil {
			return l, fmt.Errorf("decode %s: %w", object.Name, err)
		}
		restored.LetterObject = object
		l = restored
	}
	if object := l.PayloadObject; object != nil && object.Size <= MaxData {
		data, err := d.read(ctx, *object)
		if err != nil {
			return l, whatIsThere(err)
		}
		l.Data = data
	}
	return l, nil
}

// whatIsThere: the rest of a letter is worth showing where its object is damaged.
func whatIsThere(err error) error {
	if errors.Is(err, ErrDamaged) {
		return nil
	}
	return err
}

func (d *DeadLetters) read(ctx context.Context, object event.Object) ([]byte, error) {
	r, err := d.oversize.Open(ctx, object)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// Payload returns the payload of a letter that Get returned, byte for byte, of
// any size. Reading it may end with [ErrDamaged], see [Oversize.Open].
func (d *DeadLetters) Payload(ctx context.Context, l event.Letter) (io.Reader, error) {
	if l.PayloadObject == nil || l.Data != nil {
		return bytes.NewReader(l.Data), nil
	}
	return d.oversize.Open(ctx, *l.PayloadObject)
}
