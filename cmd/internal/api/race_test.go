package api_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"tidings/store/storetest"
)

// Of operators who have looked at the same letter and want something at the same
// time, one has it done. The others are told who did what, and nothing of theirs is.
func TestOperatorsWhoRaceForALetter(t *testing.T) {
	w := newDesk(t)
	for n := range 10 {
		ref := storetest.Ref("a", n)
		tag := w.dead(ref)
		path := "/v1/deadletters/" + string(ref.Key)
		wants := [][2]string{
			{"/edit", `{"reason":"the address","data_base64":"e30="}`},
			{"/edit", `{"reason":"the amount","data_base64":"eyJuIjozfQ=="}`},
			{"/discard", `{"reason":"a test"}`},
			{"/discard", `{"reason":"too old"}`},
			{"/requeue", `{"reason":"mended"}`},
			{"/requeue", `{}`},
		}
		answers := make([]*http.Response, len(wants))
		var racing sync.WaitGroup
		for i, want := range wants {
			racing.Go(func() {
				req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.server.URL+path+want[0], strings.NewReader(want[1]))
				if err != nil {
					return
				}
				for name, value := range map[string]string{
					"Authorization": "Bearer " + token, "Content-Type": "application/json", "Tidings-Operator": "ann", "If-Match": tag,
				} {
					req.Header.Set(name, value)
				}
				answers[i], _ = w.server.Client().Do(req) // nil is looked at below
			})
		}
		racing.Wait()
		won := 0
		for i, res := range answers {
			require.NotNil(t, res, wants[i])
			t.Cleanup(func() { _ = res.Body.Close() })
			if res.StatusCode == http.StatusOK {
				won++
				continue
			}
			require.Contains(t, []int{http.StatusConflict, http.StatusPreconditionFailed, http.StatusNotFound}, res.StatusCode, wants[i])
			problem(t, res, res.StatusCode)
		}
		require.Equal(t, 1, won, "%d", n)
		r, err := w.stream.Outcomes.Last(t.Context(), ref.Tenant, ref.Key)
		require.NoError(t, err)
		require.Equal(t, 4, r.Record.State.Revision, "one record by all of them")
	}
}
