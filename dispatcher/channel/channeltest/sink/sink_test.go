package sink_test

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/smtp"
	"strings"
	"testing"
	"time"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"tidings/dispatcher/channel/channeltest/sink"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const raw = "From: a@example.com\r\nTo: b@example.com\r\nMessage-ID: <m-1@example.com>\r\n" +
	"Subject: =?utf-8?q?Gr=C3=BC=C3=9Fe?=\r\n\r\nHello\r\n"

func startSMTP(t *testing.T, o sink.SMTPOptions) *sink.SMTP {
	t.Helper()
	s, err := sink.StartSMTP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, s.Close()) })
	return s
}

func send(s *sink.SMTP, auth smtp.Auth) error {
	return smtp.SendMail(s.Addr(), auth, "a@example.com", []string{"b@example.com"}, []byte(raw))
}

func TestSMTPKeepsWhatItTook(t *testing.T) {
	s := startSMTP(t, sink.SMTPOptions{})

	require.NoError(t, send(s, nil))

	require.Equal(t, 1, s.Count())
	got := s.Mails()[0]
	require.Equal(t, "a@example.com", got.From)
	require.Equal(t, []string{"b@example.com"}, got.To)
	require.Equal(t, "m-1@example.com", got.MessageID)
	require.Equal(t, "Grüße", got.Subject)
	require.Equal(t, raw, string(got.Raw))
	require.Equal(t, map[string]int{"m-1@example.com": 1}, s.ByMessageID())
}

func TestSMTPAnswersAsItIsTold(t *testing.T) {
	for _, step := range []sink.Step{sink.StepMail, sink.StepRcpt, sink.StepEnd} {
		t.Run("refuses at "+string(step), func(t *testing.T) {
			s := startSMTP(t, sink.SMTPOptions{Answer: func(at sink.Step, _ sink.Mail) error {
				if at == step {
					return sink.Refuse(451, "4.7.1", "later")
				}
				return nil
			}})

			require.ErrorContains(t, send(s, nil), "4.7.1 later")
			require.Zero(t, s.Count(), "what is refused is not taken")
		})
	}
	t.Run("cuts the connection after the body", func(t *testing.T) {
		s := startSMTP(t, sink.SMTPOptions{Answer: func(at sink.Step, m sink.Mail) error {
			if at == sink.StepEnd && m.MessageID == "m-1@example.com" {
				return sink.ErrCut
			}
			return nil
		}})

		require.Error(t, send(s, nil))
		require.Zero(t, s.Count())
	})
	t.Run("demands a login", func(t *testing.T) {
		s := startSMTP(t, sink.SMTPOptions{Username: "u", Password: "p"})

		require.ErrorContains(t, send(s, nil), "530")
		require.ErrorContains(t, send(s, smtp.PlainAuth("", "u", "wrong", s.Host())), "535")
		require.NoError(t, send(s, smtp.PlainAuth("", "u", "p", s.Host())))
		require.Equal(t, "u", s.Mails()[0].User)
	})
}

func TestWaitReturnsWhenTheNumberIsReached(t *testing.T) {
	s := startSMTP(t, sink.SMTPOptions{Keep: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- s.Wait(ctx, 2) }()

	require.NoError(t, send(s, nil))
	require.NoError(t, send(s, nil))
	require.NoError(t, <-done)
	require.Empty(t, s.Mails(), "nothing is kept")

	cancel()
	require.ErrorContains(t, s.Wait(ctx, 3), "waited for 3, got 2")
}

func startHTTP(t *testing.T, o sink.HTTPOptions) *sink.HTTP {
	t.Helper()
	h, err := sink.StartHTTP(o)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, h.Close()) })
	return h
}

func post(t *testing.T, url, id, secret string) int {
	t.Helper()
	body := []byte(`{"a":1}`)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(body))
	require.NoError(t, err)
	req.Close = true
	req.Header.Set("webhook-id", id)
	if secret != "" {
		now := time.Now()
		signer, err := standardwebhooks.NewWebhook(secret)
		require.NoError(t, err)
		signature, err := signer.Sign(id, now, body)
		require.NoError(t, err)
		req.Header.Set("webhook-timestamp", fmt.Sprint(now.Unix()))
		req.Header.Set("webhook-signature", signature)
	}
	res, err := http.DefaultClient.Do(req)
	require.NoError(t, err)
	require.NoError(t, res.Body.Close())
	return res.StatusCode
}

func TestHTTPAnswersByPath(t *testing.T) {
	h := startHTTP(t, sink.HTTPOptions{Handle: map[string]http.HandlerFunc{
		"/teapot": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusTeapot) },
		"/quiet":  func(http.ResponseWriter, *http.Request) {},
	}})

	for _, c := range []struct {
		path, id string
		status   int
	}{
		{"/ok", "1", 200},
		{"/ok/shop", "2", 200},
		{"/always500", "1", 500},
		{"/gone", "1", 410},
		{"/flaky", "1", 503},
		{"/flaky", "2", 503},
		{"/flaky", "1", 503},
		{"/flaky", "1", 200},
		{"/flaky", "2", 503},
		{"/teapot", "1", 418},
		{"/quiet", "3", 200},
		{"/other", "1", 404},
	} {
		require.Equal(t, c.status, post(t, h.URL(c.path), c.id, ""), c.path)
	}

	require.Equal(t, 12, h.Count())
	require.Equal(t, 4, h.Accepted())
	require.Equal(t, map[string]int{"1": 2, "2": 1, "3": 1}, h.ByID())
	require.NoError(t, h.Wait(t.Context(), 12))
	require.NoError(t, h.WaitAccepted(t.Context(), 4))
	require.Equal(t, 418, h.Requests()[9].Status)
	require.JSONEq(t, `{"a":1}`, string(h.Requests()[0].Body))
}

func TestHTTPRefusesWhatNobodySigned(t *testing.T) {
	const known, other = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_" + "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	h := startHTTP(t, sink.HTTPOptions{Secrets: []string{other, known}})

	require.Equal(t, 200, post(t, h.URL("/ok"), "1", known))
	require.Equal(t, 401, post(t, h.URL("/ok"), "2", "whsec_"+strings.Repeat("B", 32)))
	require.Equal(t, 401, post(t, h.URL("/ok"), "3", ""))

	require.NoError(t, h.Requests()[0].Signature)
	require.ErrorIs(t, h.Requests()[1].Signature, standardwebhooks.ErrNoMatchingSignature)
	require.ErrorIs(t, h.Requests()[2].Signature, standardwebhooks.ErrRequiredHeaders)
	require.Equal(t, 1, h.Accepted())
}

func TestHTTPSecretHasToBeBase64(t *testing.T) {
	_, err := sink.StartHTTP(sink.HTTPOptions{Secrets: []string{"not base64!"}})

	require.EqualError(t, err, "secret 0 of the sink is not base64")
}
