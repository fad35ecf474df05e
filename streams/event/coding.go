package event

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// Facts is a list of facts with its JSON form: each is an object whose member
// "fact" is the kind, beside the fields of its type.
type Facts []Fact

// MarshalJSON implements json.Marshaler.
func (fs Facts) MarshalJSON() ([]byte, error) {
	objects, err := fs.objects()
	if err != nil {
		return nil, err
	}
	return encodeJSON(objects)
}

// objects returns the facts in the form in which they are encoded.
func (fs Facts) objects() ([]any, error) {
	objects := make([]any, len(fs))
	for i, f := range fs {
		if u, ok := f.(UnknownFact); ok && len(u.Raw) == 0 {
			return nil, fmt.Errorf("encode fact %s: it has no raw JSON to keep", f.FactKind())
		}
		if objects[i] = object(f); objects[i] == nil {
			return nil, fmt.Errorf("encode fact %s: object has no form for it", f.FactKind())
		}
	}
	return objects, nil
}

// object returns what is encoded as the fields of a fact behind its kind, nil where
// it is not told here how. Each kind is spelled out: a type parameter cannot be
// embedded, and to write the kind in front of encoded fields took two thirds longer.
func object(f Fact) any {
	switch kind := f.FactKind(); f := f.(type) {
	case Claimed:
		return struct {
			Kind FactKind `json:"fact"`
			Claimed
		}{kind, f}
	case Crashed:
		return struct {
			Kind FactKind `json:"fact"`
			Crashed
		}{kind, f}
	case Planned:
		return struct {
			Kind FactKind `json:"fact"`
			Planned
		}{kind, f}
	case Tried:
		return struct {
			Kind FactKind `json:"fact"`
			Tried
		}{kind, f}
	case Withheld:
		return struct {
			Kind FactKind `json:"fact"`
			Withheld
		}{kind, f}
	case GaveUp:
		return struct {
			Kind FactKind `json:"fact"`
			GaveUp
		}{kind, f}
	case Expired:
		return struct {
			Kind FactKind `json:"fact"`
			Expired
		}{kind, f}
	case Waiting:
		return struct {
			Kind FactKind `json:"fact"`
			Waiting
		}{kind, f}
	case Settled:
		return struct {
			Kind FactKind `json:"fact"`
			Settled
		}{kind, f}
	case Dead:
		return struct {
			Kind FactKind `json:"fact"`
			Dead
		}{kind, f}
	case Requeued:
		return struct {
			Kind FactKind `json:"fact"`
			Requeued
		}{kind, f}
	case Discarded:
		return struct {
			Kind FactKind `json:"fact"`
			Discarded
		}{kind, f}
	case Restored:
		return struct {
			Kind FactKind `json:"fact"`
			Restored
		}{kind, f}
	case UnknownFact:
		return f.Raw
	}
	return nil
}

// encodeJSON is json.Marshal without the escapes for HTML, which would rewrite
// what is kept as it came.
func encodeJSON(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// UnmarshalJSON implements json.Unmarshaler. A fact of an unknown kind becomes
// an [UnknownFact].
func (fs *Facts) UnmarshalJSON(data []byte) error {
	var encoded []encodedFact
	if err := json.Unmarshal(data, &encoded); err != nil {
		return err
	}
	*fs = factsOf(encoded)
	return nil
}

func factsOf(encoded []encodedFact) Facts {
	if encoded == nil {
		return nil
	}
	facts := make(Facts, len(encoded))
	for i, e := range encoded {
		facts[i] = e.Fact
	}
	return facts
}

// encodedFact is a fact as it is decoded.
type encodedFact struct{ Fact }

// UnmarshalJSON implements json.Unmarshaler.
func (e *encodedFact) UnmarshalJSON(raw []byte) (err error) {
	e.Fact, err = unmarshalFact(raw)
	return err
}

func unmarshalFact(raw json.RawMessage) (Fact, error) {
	kind, err := kindOfFact(raw)
	if err != nil {
		return nil, err
	}
	decode, known := factDecoders[kind]
	if !known {
		return UnknownFact{Kind: kind, Raw: bytes.Clone(raw)}, nil
	}
	return decode(raw)
}

// kindOfFact returns the kind of an encoded fact. What this package writes begins
// with it, so that there is nothing else to decode.
func kindOfFact(raw []byte) (FactKind, error) {
	if rest, ok := bytes.CutPrefix(raw, []byte(`{"fact":"`)); ok {
		kind, _, _ := bytes.Cut(rest, []byte(`"`))
		if _, known := factDecoders[FactKind(kind)]; known {
			return FactKind(kind), nil
		}
	}
	var head struct {
		Kind FactKind `json:"fact"`
	}
	if err := json.Unmarshal(raw, &head); err != nil {
		return "", err
	}
	if head.Kind == "" {
		return "", fmt.Errorf(`no "fact" member`)
	}
	return head.Kind, nil
}

// factDecoders is read-only after initialisation.
var factDecoders = map[FactKind]func([]byte) (Fact, error){
	"claimed":   decodeAs[Claimed],
	"crashed":   decodeAs[Crashed],
	"planned":   decodeAs[Planned],
	"tried":     decodeAs[Tried],
	"withheld":  decodeAs[Withheld],
	"gave_up":   decodeAs[GaveUp],
	"expired":   decodeAs[Expired],
	"settled":   decodeAs[Settled],
	"waiting":   decodeAs[Waiting],
	"dead":      decodeAs[Dead],
	"requeued":  decodeAs[Requeued],
	"discarded": decodeAs[Discarded],
	"restored":  decodeAs[Restored],
}

func decodeAs[F Fact](raw []byte) (Fact, error) {
	var f F
	if err := json.Unmarshal(raw, &f); err != nil {
		return nil, fmt.Errorf("decode %s: %w", f.FactKind(), err)
	}
	return f, nil
}
