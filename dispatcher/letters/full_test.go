package letters_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/dispatcher/letters"
	"tidings/streams"
	"tidings/streams/event"
)

func TestWhenThereIsNoRoomForLettersOperatorsMakeSome(t *testing.T) {
	r := newRig(t, func(o *streams.Options) { o.DeadLettersMaxBytes = 256 << 10 })
	var keys []event.Key
	var err error
	for i := 0; err == nil; i++ {
		body := fmt.Sprintf(`{"id":"%d",`, i)
		key := event.NewKey("delivery", body)
		_, _, err = r.log.DeadLetters.Put(t.Context(), event.Letter{
			Schema: event.Schema, Kind: event.LetterDelivery, Key: key, Tenant: "acme",
			Cause: event.CauseUndecodable, Stage: event.StageBridge, At: time.Now(), Data: []byte(body), Delivery: &event.Delivery{},
		})
		if err == nil {
			keys = append(keys, key)
		}
	}
	require.ErrorIs(t, err, streams.ErrFull)

	_, err = r.desk.Edit(t.Context(), r.target(keys[0]), ann, letters.Change{Data: []byte(`{"id":"0"}`)})
	require.NoError(t, err)
	_, err = r.desk.Discard(t.Context(), r.target(keys[1]), ann)
	require.NoError(t, err)
	r.noLetter(keys[0])
	r.noLetter(keys[1])
}
