package event

import (
	"reflect"
	"strings"
	"sync"
	"time"
)

// Records are read by whoever folds a stream, millions at a time, and nearly all of
// them are as this package writes them: without blanks, escapes and nulls, each
// member known and there once. That form is read here, in a third of the time that
// encoding/json takes, which reads everything else. The result is the same.

// shape says how the JSON of a type is read.
type shape struct {
	read   func(p *plain, v reflect.Value, s *shape) bool
	fields []field // of a struct
	elem   *shape  // of a pointer or a slice
}

type field struct {
	name  string
	index int
	shape *shape
	note  func(p *plain, encoded string) // called with what was read, if not nil
}

func (s *shape) field(name string) *field {
	for i := range s.fields {
		if s.fields[i].name == name {
			return &s.fields[i]
		}
	}
	return nil
}

// factShape is the shape of a kind of facts.
type factShape struct {
	*shape
	of reflect.Type
}

type shapes struct {
	record *shape
	facts  map[string]factShape
}

var shapesOnce = sync.OnceValue(func() shapes {
	s := shapes{record: shapeOf(reflect.TypeFor[Record]()), facts: map[string]factShape{}}
	s.record.field("facts").note = func(p *plain, encoded string) { p.parts.Facts = encoded }
	s.record.field("state").shape.field("messages").note = func(p *plain, encoded string) { p.parts.Messages = encoded }
	for _, f := range FactKinds() {
		of := reflect.TypeOf(f)
		s.facts[string(f.FactKind())] = factShape{shapeOf(of), of}
	}
	return s
})

// shapeOf returns the shape of a type. Of one that it does not know, nothing is read
// here.
func shapeOf(t reflect.Type) *shape {
	switch t {
	case reflect.TypeFor[time.Time]():
		return &shape{read: (*plain).time}
	case reflect.TypeFor[Facts]():
		return &shape{read: (*plain).facts}
	}
	switch t.Kind() {
	case reflect.String:
		return &shape{read: (*plain).string}
	case reflect.Bool:
		return &shape{read: (*plain).bool}
	case reflect.Int, reflect.Int64:
		return &shape{read: (*plain).int}
	case reflect.Uint64:
		return &shape{read: (*plain).uint}
	case reflect.Pointer:
		return &shape{read: (*plain).pointer, elem: shapeOf(t.Elem())}
	case reflect.Slice:
		return &shape{read: (*plain).slice, elem: shapeOf(t.Elem())}
	case reflect.Struct:
		return shapeOfStruct(t)
	default:
		return &shape{read: func(*plain, reflect.Value, *shape) bool { return false }}
	}
}

func shapeOfStruct(t reflect.Type) *shape {
	s := &shape{read: (*plain).object}
	for i := range t.NumField() {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		s.fields = append(s.fields, field{name: name, index: i, shape: shapeOf(t.Field(i).Type)})
	}
	return s
}

// plain reads a text. Its methods return false where it is not in the plain form,
// and leave what they have read until then.
type plain struct {
	shapes shapes
	rest   string
	parts  Parts
}

// decodePlain reads a record in the plain form, and reports whether it is.
func decodePlain(text string) (r Record, parts Parts, ok bool) {
	p := plain{shapes: shapesOnce(), rest: text}
	s := p.shapes.record
	ok = s.read(&p, reflect.ValueOf(&r).Elem(), s) && p.rest == ""
	return r, p.parts, ok
}

// skip passes over a byte that is expected.
func (p *plain) skip(c byte) bool {
	if len(p.rest) == 0 || p.rest[0] != c {
		return false
	}
	p.rest = p.rest[1:]
	return true
}

// quoted reads a string in which nothing is escaped, nor should be.
func (p *plain) quoted() (string, bool) {
	if !p.skip('"') {
		return "", false
	}
	end := strings.IndexByte(p.rest, '"')
	if end < 0 {
		return "", false
	}
	s := p.rest[:end]
	for _, c := range []byte(s) {
		if c < ' ' || c == '\\' {
			return "", false
		}
	}
	p.rest = p.rest[end+1:]
	return s, true
}

// object reads the members of a struct, each of them at most once.
func (p *plain) object(v reflect.Value, s *shape) bool {
	return p.skip('{') && p.members(v, s)
}

// members reads what is left of an object.
func (p *plain) members(v reflect.Value, s *shape) bool {
	if p.skip('}') {
		return true
	}
	seen := uint64(0)
	for likely := 0; ; likely++ {
		name, ok := p.quoted()
		if !ok || !p.skip(':') {
			return false
		}
		f := s.find(name, &likely)
		if f == nil || seen>>likely&1 == 1 {
			return false
		}
		seen |= 1 << likely
		from := p.rest
		if !f.shape.read(p, v.Field(f.index), f.shape) {
			return false
		}
		if f.note != nil {
			f.note(p, from[:len(from)-len(p.rest)])
		}
		if !p.skip(',') {
			return p.skip('}')
		}
	}
}

// find returns the field of that name. Members come in the order of the fields, so
// that it is the likely one or not far behind, as a rule; at is set to where it is.
func (s *shape) find(name string, at *int) *field {
	for n := range s.fields {
		i := (*at + n) % len(s.fields)
		if f := &s.fields[i]; f.name == name {
			*at = i
			return f
		}
	}
	return nil
}

func (p *plain) facts(v reflect.Value, _ *shape) bool {
	if !p.skip('[') {
		return false
	}
	facts := Facts{}
	for more := !p.skip(']'); more; {
		f, ok := p.fact()
		if !ok {
			return false
		}
		facts = append(facts, f)
		if more = p.skip(','); !more && !p.skip(']') {
			return false
		}
	}
	*v.Addr().Interface().(*Facts) = facts
	return true
}

// fact reads a fact whose first member is the kind.
func (p *plain) fact() (Fact, bool) {
	rest, ok := strings.CutPrefix(p.rest, `{"fact":`)
	if !ok {
		return nil, false
	}
	p.rest = rest
	kind, ok := p.quoted()
	s, known := p.shapes.facts[kind]
	if !ok || !known {
		return nil, false
	}
	v := reflect.New(s.of).Elem()
	if p.skip(',') {
		ok = len(p.rest) > 0 && p.rest[0] == '"' && p.members(v, s.shape)
	} else {
		ok = p.skip('}')
	}
	if !ok {
		return nil, false
	}
	return v.Interface().(Fact), true
}

func (p *plain) slice(v reflect.Value, s *shape) bool {
	if !p.skip('[') {
		return false
	}
	if v.Set(reflect.MakeSlice(v.Type(), 0, 1)); p.skip(']') {
		return true
	}
	for n := 0; ; n++ {
		v.Grow(1)
		v.SetLen(n + 1)
		if v.Index(n).SetZero(); !s.elem.read(p, v.Index(n), s.elem) {
			return false
		}
		if !p.skip(',') {
			return p.skip(']')
		}
	}
}

func (p *plain) pointer(v reflect.Value, s *shape) bool {
	v.Set(reflect.New(v.Type().Elem()))
	return s.elem.read(p, v.Elem(), s.elem)
}

func (p *plain) string(v reflect.Value, _ *shape) bool {
	s, ok := p.quoted()
	v.SetString(s)
	return ok
}

func (p *plain) time(v reflect.Value, _ *shape) bool {
	s, ok := p.quoted()
	return ok && v.Addr().Interface().(*time.Time).UnmarshalText([]byte(s)) == nil
}

func (p *plain) bool(v reflect.Value, _ *shape) bool {
	rest, yes := strings.CutPrefix(p.rest, "true")
	if !yes {
		var no bool
		if rest, no = strings.CutPrefix(p.rest, "false"); !no {
			return false
		}
	}
	p.rest = rest
	v.SetBool(yes)
	return true
}

func (p *plain) int(v reflect.Value, _ *shape) bool {
	negative := p.skip('-')
	n, ok := p.digits()
	if negative {
		n = -n
	}
	v.SetInt(n)
	return ok
}

func (p *plain) uint(v reflect.Value, _ *shape) bool {
	n, ok := p.digits()
	v.SetUint(uint64(n))
	return ok
}

// digits reads a number of up to 18 digits. What follows one is looked at by who
// reads on: a fraction is not expected there.
func (p *plain) digits() (n int64, ok bool) {
	i := 0
	for i < len(p.rest) && '0' <= p.rest[i] && p.rest[i] <= '9' {
		n = n*10 + int64(p.rest[i]-'0')
		i++
	}
	if i == 0 || i > 18 || i > 1 && p.rest[0] == '0' {
		return 0, false
	}
	p.rest = p.rest[i:]
	return n, true
}
