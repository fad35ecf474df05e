package dispatcher

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestAKeyIsHandedOnInTheOrderOfAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var h inHand
		var got []int
		putDown, err := h.take(t.Context(), "k")
		require.NoError(t, err)
		for i := range 5 {
			go func() {
				putDown, err := h.take(t.Context(), "k")
				require.NoError(t, err)
				got = append(got, i)
				putDown()
			}()
			synctest.Wait() // it has asked
		}
		require.Equal(t, 1, h.len())
		putDown()
		synctest.Wait()
		require.Equal(t, []int{0, 1, 2, 3, 4}, got)
		require.Zero(t, h.len())
	})
}

func TestWhoStopsWaitingForAKeyHoldsUpNobody(t *testing.T) {
	gaveUp := errors.New("gave up")
	for name, atOnce := range map[string]bool{"before its turn": false, "at its turn": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var h inHand
				putDown, err := h.take(t.Context(), "k")
				require.NoError(t, err)
				ctx, cancel := context.WithCancelCause(t.Context())
				left := make(chan error, 1)
				go func() {
					putDown, err := h.take(ctx, "k")
					if err == nil {
						putDown()
					}
					left <- err
				}()
				synctest.Wait()
				taken := make(chan struct{})
				go func() {
					putDown, err := h.take(t.Context(), "k")
					require.NoError(t, err)
					putDown()
					close(taken)
				}()
				synctest.Wait()
				cancel(gaveUp)
				if !atOnce {
					require.ErrorIs(t, <-left, gaveUp)
				}
				putDown()
				<-taken
				synctest.Wait()
				require.Zero(t, h.len())
			})
		})
	}
}
