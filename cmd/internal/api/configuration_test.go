package api_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"tidings/cmd/internal/api"
)

func TestReloadConfiguration(t *testing.T) {
	var by string
	var answer error
	w := newWorld(t)
	w.options.Reload = func(_ context.Context, operator string) (api.Reload, error) {
		by = operator
		return api.Reload{Revision: "new", Before: "old", Changed: []string{"policy.tries"}, At: time.Now()}, answer
	}
	w.serve()
	client := w.client
	refused := func() *api.ProblemError {
		_, err := client.ReloadConfiguration(t.Context())
		var problem *api.ProblemError
		require.ErrorAs(t, err, &problem)
		return problem
	}
	t.Run("wants to know who", func(t *testing.T) {
		client.Operator = ""
		problem := refused()
		require.Equal(t, http.StatusBadRequest, problem.Status)
		require.Equal(t, "operator", problem.Name)
		require.Empty(t, by)
	})
	client.Operator = "ann"
	t.Run("says what changed", func(t *testing.T) {
		done, err := client.ReloadConfiguration(t.Context())
		require.NoError(t, err)
		require.Equal(t, "ann", by)
		require.Equal(t, []string{"new", "old", "policy.tries"}, []string{done.Revision, done.Before, done.Changed[0]})
	})
	t.Run("has every problem with its place", func(t *testing.T) {
		answer = &api.RefusedConfiguration{Problems: []api.ConfigurationProblem{
			{Place: "tidings.yaml:3:5", Message: `unknown key "x"`}, {Key: "horizon", Message: "is too short"},
		}}
		problem := refused()
		require.Equal(t, http.StatusUnprocessableEntity, problem.Status)
		require.Equal(t, "config", problem.Name)
		require.Equal(t, []string{`tidings.yaml:3:5: unknown key "x"`, "horizon: is too short"}, problem.Details)
	})
	t.Run("is a conflict where it takes a restart", func(t *testing.T) {
		answer = &api.RefusedConfiguration{Restart: true, Problems: []api.ConfigurationProblem{{Key: "data", Message: "data: a is b now"}}}
		problem := refused()
		require.Equal(t, http.StatusConflict, problem.Status)
		require.Equal(t, "restart", problem.Name)
		require.Equal(t, []string{"data: a is b now"}, problem.Details)
	})
	t.Run("shows nothing of what is nobody's business", func(t *testing.T) {
		answer = errors.New("secret-word")
		require.NotContains(t, refused().Error(), "secret-word")
	})
}

func TestAProcessThatCannotReloadSaysSo(t *testing.T) {
	client := newWorld(t).client
	client.Operator = "ann"
	_, err := client.ReloadConfiguration(t.Context())
	require.ErrorContains(t, err, "restart it")
}
