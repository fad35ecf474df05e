package main

import (
	"bytes"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/streams/event"
)

func TestRawPayloadsAreByteForByte(t *testing.T) {
	w := newWorld(t)
	for name, letter := range map[string]event.Letter{"of a letter": w.raw, "of an object": w.large} {
		t.Run(name, func(t *testing.T) {
			var out bytes.Buffer
			root := newRoot(&cli{out: &out, err: io.Discard})
			root.SetArgs([]string{"deadletters", "show", string(letter.Key), "--raw", "--url", w.server.URL, "--token", token})
			require.NoError(t, root.ExecuteContext(t.Context()))
			require.True(t, bytes.Equal(letter.Data, out.Bytes()), "%d bytes and not %d", out.Len(), len(letter.Data))
		})
	}
}
