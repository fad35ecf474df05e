package event

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"
	"strconv"
	"time"
)

// Key names one event in streams, ledger and API: 22 characters of unpadded
// base64url, so it is one subject token and one path segment as it stands.
type Key string

// NewKey returns the key of the given parts: the first 16 bytes of SHA-256 over
// the parts, each preceded by its length as 8 big-endian bytes, so that no two
// different lists of parts share a digest input.
func NewKey(parts ...string) Key {
	var room [160]byte // enough for most, which then need no memory but the key's
	b := room[:0]
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	sum := sha256.Sum256(b)
	return Key(encode128(sum[:]))
}

// bodyKey is NewKey with body as the last part, which may be large: it is not copied.
func bodyKey(body []byte, parts ...string) Key {
	var b []byte
	for _, p := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(p)))
		b = append(b, p...)
	}
	h := sha256.New()
	h.Write(binary.BigEndian.AppendUint64(b, uint64(len(body))))
	h.Write(body)
	return Key(encode128(h.Sum(nil)))
}

// encode128 is the text form of a 128-bit value: 22 characters of base64url.
func encode128(sum []byte) string { return base64.RawURLEncoding.EncodeToString(sum[:16]) }

// Valid reports whether k has the form of a key. It is what to check before a
// key from outside becomes part of a subject.
func (k Key) Valid() bool {
	if len(k) != 22 {
		return false
	}
	// The decoder skips line breaks; only 22 characters that all count give 16 bytes.
	sum, err := base64.RawURLEncoding.DecodeString(string(k))
	return err == nil && len(sum) == 16
}

// Identity says which attributes make two events the same one. The zero value
// is (tenant, source, id).
type Identity struct {
	// IgnoreSource leaves the source out: the same id from two sources is one
	// event. For producers that do not keep their source stable.
	IgnoreSource bool
}

// Key returns the key of the event e. It is not defined for events without an
// id of their own (IDSource content): their key needs the sequence of the
// stored copy, see [ContentKey].
func (i Identity) Key(e Envelope) Key { return i.KeyOf(e.Tenant, e.Source, e.ID) }

// KeyOf returns the key of the event with these attributes. A test never shares
// that of an event, see [TestSource].
func (i Identity) KeyOf(tenant, source, id string) Key {
	if i.IgnoreSource && source != TestSource {
		return NewKey("event", tenant, id)
	}
	return NewKey("event", tenant, source, id)
}

// ContentKey returns the key of an event that has neither id nor timestamp: the
// hash of its content and the sequence of its copy in EVENTS. Repeats inside
// the duplicate window share the copy, hence the key; beyond it the same
// content is a new event, because two honest "disk full" alerts a day apart are two.
func ContentKey(contentHash string, sequence uint64) Key {
	return NewKey("content", contentHash, strconv.FormatUint(sequence, 10))
}

// DerivedID returns the id of an event that came without one but with a
// timestamp: a redelivery of the same message gets the same id.
func DerivedID(tenant, source, typ string, at time.Time, body []byte) string {
	return string(bodyKey(body, "derived", tenant, source, typ, at.UTC().Format(time.RFC3339Nano)))
}

// ContentHash returns what stands in for the id of an event that came with
// neither id nor timestamp.
func ContentHash(tenant, source, typ string, body []byte) string {
	return string(bodyKey(body, "hash", tenant, source, typ))
}

// DeliveryKey returns the key of a raw delivery that could not become an
// envelope: stable over redeliveries, so its dead letter is written once.
func DeliveryKey(tenant, exchange, routingKey, contentType string, body []byte) Key {
	return bodyKey(body, "delivery", tenant, exchange, routingKey, contentType)
}

// ConflictKey returns the key of the dead letter for a second event that claims
// the identity key with another body.
func ConflictKey(key Key, digest string) Key { return NewKey("id_conflict", string(key), digest) }

// Digest returns the fingerprint of a payload that tells a repeat from another
// event under the same identity.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return encode128(sum[:])
}

// NewMessageID returns the id of one message. It is the same in every
// generation and on every machine, and is what providers get as idempotency key.
func NewMessageID(key Key, route, channel, recipient string) string {
	return string(NewKey("message", string(key), route, channel, recipient))
}

// NewNonce returns 128 random bits as 22 characters: the id of a record, which
// is also how its writer recognises it after an append of unknown fate. Nonces
// differ, and are no secrets: the generator is the runtime's, which the operating
// system seeds, and costs no system call.
func NewNonce() string {
	b := binary.NativeEndian.AppendUint64(make([]byte, 0, 16), rand.Uint64())
	return encode128(binary.NativeEndian.AppendUint64(b, rand.Uint64()))
}
