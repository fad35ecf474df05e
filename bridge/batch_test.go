package bridge_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"tidings/bridge"
)

func TestSplitBatch(t *testing.T) {
	for name, c := range map[string]struct {
		body string
		want []string
	}{
		"an empty list":                        {` [ ] `, nil},
		"elements byte for byte":               {"\t[{\"a\": 1 },\n {\"b\":\"\xff\"}]", []string{`{"a": 1 }`, "{\"b\":\"\xff\"}"}},
		"elements that are no events, as well": {`[1,null,"x",[[]]]`, []string{"1", "null", `"x"`, "[[]]"}},
	} {
		t.Run("gives "+name, func(t *testing.T) {
			var got []string
			elements, err := bridge.SplitBatch([]byte(c.body), 4)
			require.NoError(t, err)
			for _, e := range elements {
				got = append(got, string(e))
			}
			require.Equal(t, c.want, got)
		})
	}
	for name, body := range map[string]string{
		"nothing": "", "an object": "{}", "a list that breaks off": `[{"hunter2":1}`, "what follows a list": "[] []",
		"a null": "null", "a list nested without end": strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000),
	} {
		t.Run("refuses "+name, func(t *testing.T) {
			_, err := bridge.SplitBatch([]byte(body), 4)
			require.EqualError(t, err, "the content type is application/cloudevents-batch+json and the body is no JSON array")
		})
	}
	t.Run("stops at the bound", func(t *testing.T) {
		_, err := bridge.SplitBatch([]byte("[1,2,3,4,5]"), 4)
		require.ErrorIs(t, err, bridge.ErrBatchTooLong)
	})
	t.Run("gives back what was put together", rapid.MakeCheck(func(t *rapid.T) {
		want := rapid.SliceOf(rapid.SampledFrom([]string{`{"a":"]"}`, `"\"["`, "-1e9", "[ ]", "{}"})).Draw(t, "elements")
		elements, err := bridge.SplitBatch([]byte("["+strings.Join(want, " ,\n")+"]"), len(want))
		require.NoError(t, err)
		require.Len(t, elements, len(want))
		for i, e := range elements {
			require.Equal(t, want[i], string(e))
		}
	}))
}

func TestIsBatch(t *testing.T) {
	for contentType, want := range map[string]bool{
		"application/cloudevents-batch+json": true, "Application/CloudEvents-Batch+JSON; charset=utf-8": true,
		"application/cloudevents+json": false, "application/cloudevents-batch+avro": false, "application/json": false, "": false,
	} {
		require.Equal(t, want, bridge.IsBatch(contentType), contentType)
	}
}
