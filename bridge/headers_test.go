package bridge_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/bridge"
)

// everyType has a value of every type that a delivery's headers can have.
func everyType() amqp.Table {
	return amqp.Table{
		"nothing": nil,
		"bool":    true,
		"text":    `Ann "A" <a@b>` + "\r\n\x00\u007f é 😀",
		"raw":     "not UTF-8: \xff\xfe",
		"bytes":   []byte{0, 1, 0xff},
		"int8":    int8(-128), "uint8": byte(255),
		"int16": int16(-32768), "uint16": uint16(65535),
		"int32": int32(math.MinInt32), "uint32": uint32(math.MaxUint32), "int64": int64(math.MinInt64),
		"float32": float32(0.1), "float64": -0.1, "nan": math.NaN(), "inf": math.Inf(-1), "zero": math.Copysign(0, -1),
		"decimal": amqp.Decimal{Scale: 2, Value: -12345},
		"time":    time.Unix(1767225600, 0).UTC(), "far": time.Unix(math.MaxInt64, 0).UTC(),
		"table": amqp.Table{"F": amqp.Table{"x": []byte("a")}, "": "empty name", "\xff": "odd name", "\x00": int32(0)},
		"array": []any{int64(1), "two", nil, amqp.Table{}, []any{}},
	}
}

func TestTypedHeaders(t *testing.T) {
	t.Run("keep the type and value of everything that AMQP has", func(t *testing.T) {
		typed, err := bridge.EncodeHeaders(everyType())
		require.NoError(t, err)
		back, err := bridge.DecodeHeaders(typed)
		require.NoError(t, err)
		requireSame(t, everyType(), back)
	})
	t.Run("are one line of printable ASCII", func(t *testing.T) {
		typed, err := bridge.EncodeHeaders(everyType())
		require.NoError(t, err)
		require.True(t, json.Valid(typed))
		require.Empty(t, strings.Trim(string(typed), printable()))
	})
	t.Run("look like this", func(t *testing.T) {
		typed, err := bridge.EncodeHeaders(amqp.Table{
			"n": int32(7), "who": "Ann", "x-death": []any{amqp.Table{"count": int64(1), "queue": "orders"}},
			"at": time.Unix(5, 0), "ok": true, "f": 1.5, "d": amqp.Decimal{Scale: 1, Value: 15},
		})
		require.NoError(t, err)
		require.Equal(t, `{"at":{"T":5},"d":{"D":[1,15]},"f":{"d":1.5},"n":{"I":7},"ok":true,"who":"Ann",`+
			`"x-death":[{"F":{"count":{"l":1},"queue":"orders"}}]}`, string(typed))
	})
	t.Run("of no headers are none, and of an empty table an empty object", func(t *testing.T) {
		none, err := bridge.EncodeHeaders(nil)
		require.NoError(t, err)
		require.Nil(t, none)
		empty, err := bridge.EncodeHeaders(amqp.Table{})
		require.NoError(t, err)
		require.Equal(t, "{}", string(empty))
	})
	t.Run("refuse what AMQP does not have", func(t *testing.T) {
		_, err := bridge.EncodeHeaders(amqp.Table{"a": []any{struct{}{}}})
		require.ErrorContains(t, err, "struct {}")
	})
	t.Run("refuse nesting without end", func(t *testing.T) {
		loop := amqp.Table{}
		loop["again"] = []any{loop}
		_, err := bridge.EncodeHeaders(loop)
		require.ErrorContains(t, err, "nest deeper")
	})
}

func TestTypedHeadersThatAreNone(t *testing.T) {
	for name, typed := range map[string]string{
		"not JSON":             `{`,
		"not an object":        `[]`,
		"null":                 `null`,
		"a bare number":        `{"n":7}`,
		"two types at once":    `{"n":{"I":1,"l":2}}`,
		"no type":              `{"n":{}}`,
		"an unknown type":      `{"n":{"Q":1}}`,
		"text for a number":    `{"n":{"I":"1"}}`,
		"a fraction":           `{"n":{"I":1.5}}`,
		"too large":            `{"n":{"b":128}}`,
		"no base64":            `{"n":{"x":"%"}}`,
		"half a decimal":       `{"n":{"D":[1]}}`,
		"a decimal out of one": `{"n":{"D":[256,1]}}`,
		"bits that are none":   `{"n":{"d":"zz"}}`,
		"a broken inner table": `{"n":{"F":{"m":1}}}`,
		"a broken array":       `{"n":[1]}`,
		"a broken name":        `{"\u0000%":null}`,
	} {
		t.Run(name, func(t *testing.T) {
			_, err := bridge.DecodeHeaders(json.RawMessage(typed))
			require.ErrorContains(t, err, "decode typed headers")
		})
	}
}

func TestTypedHeadersRoundTrip(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		headers := table(3).Draw(rt, "headers")
		typed, err := bridge.EncodeHeaders(headers)
		require.NoError(rt, err)
		require.Empty(rt, strings.Trim(string(typed), printable()))
		back, err := bridge.DecodeHeaders(typed)
		require.NoError(rt, err)
		requireSame(rt, headers, back)
	})
}

func FuzzDecodeHeaders(f *testing.F) {
	typed, err := bridge.EncodeHeaders(everyType())
	require.NoError(f, err)
	f.Add([]byte(typed))
	f.Add([]byte(`{"n":{"D":[1,2]},"a":[null,{"f":"7fc00001"}]}`))
	f.Fuzz(func(t *testing.T, typed []byte) {
		headers, err := bridge.DecodeHeaders(typed)
		if err != nil {
			return
		}
		again, err := bridge.EncodeHeaders(headers)
		if err != nil {
			require.ErrorContains(t, err, "nest deeper")
			return
		}
		back, err := bridge.DecodeHeaders(again)
		require.NoError(t, err)
		requireSame(t, headers, back)
	})
}

func printable() string {
	var b strings.Builder
	for c := byte(' '); c <= '~'; c++ {
		b.WriteByte(c)
	}
	return b.String()
}

// requireSame compares bit by bit: require.Equal takes no two NaN for equal.
func requireSame(t require.TestingT, want, got any) {
	require.Equal(t, bitwise(want), bitwise(got))
}

func bitwise(v any) any {
	switch v := v.(type) {
	case float32:
		return [2]any{"float32", math.Float32bits(v)}
	case float64:
		return [2]any{"float64", math.Float64bits(v)}
	case time.Time:
		return v.UTC()
	case amqp.Table:
		out := map[string]any{}
		for name, inner := range v {
			out[name] = bitwise(inner)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i := range v {
			out[i] = bitwise(v[i])
		}
		return out
	}
	return v
}

func table(depth int) *rapid.Generator[amqp.Table] {
	return rapid.Custom(func(rt *rapid.T) amqp.Table {
		out := amqp.Table{}
		for range rapid.IntRange(0, 4).Draw(rt, "size") {
			name := string(rapid.SliceOfN(rapid.Byte(), 0, 12).Draw(rt, "name"))
			out[name] = field(depth).Draw(rt, "value")
		}
		return out
	})
}

func field(depth int) *rapid.Generator[any] {
	gens := []*rapid.Generator[any]{
		rapid.Just[any](nil), rapid.Bool().AsAny(), rapid.String().AsAny(),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return string(b) }),
		rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) any { return append([]byte{}, b...) }),
		rapid.Int8().AsAny(), rapid.Byte().AsAny(), rapid.Int16().AsAny(), rapid.Uint16().AsAny(),
		rapid.Int32().AsAny(), rapid.Uint32().AsAny(), rapid.Int64().AsAny(),
		rapid.Map(rapid.Uint32(), func(bits uint32) any { return math.Float32frombits(bits) }),
		rapid.Map(rapid.Uint64(), func(bits uint64) any { return math.Float64frombits(bits) }),
		rapid.Map(rapid.Int64(), func(s int64) any { return time.Unix(s, 0).UTC() }),
		rapid.Map(rapid.Int32(), func(n int32) any { return amqp.Decimal{Scale: byte(n), Value: n} }),
	}
	if depth > 0 {
		gens = append(gens, table(depth-1).AsAny(), rapid.Custom(func(rt *rapid.T) any {
			return append([]any{}, rapid.SliceOfN(field(depth-1), 0, 3).Draw(rt, "array")...)
		}))
	}
	return rapid.OneOf(gens...)
}
