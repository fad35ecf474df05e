package webhook

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tidings/dispatcher/channel"
)

var errRedirect = errors.New("redirects are not followed: use the URL that it leads to")

func code(status int) string { return "http_" + strconv.Itoa(status) }

// verdict says what an answer means; nil is delivered.
func verdict(status int, header http.Header, now time.Time) error {
	after := retryAfter(header.Get("Retry-After"), now)
	switch {
	case status/100 == 2:
		return nil
	case status == http.StatusTooManyRequests && after > 0:
		return channel.RateLimited(code(status), after, nil)
	case status/100 == 5, status == http.StatusRequestTimeout,
		status == http.StatusTooEarly, status == http.StatusTooManyRequests:
		e := channel.Transient(code(status), nil)
		e.After = after
		return e
	case status/100 == 4:
		return channel.Permanent(code(status), nil)
	case status/100 == 3:
		return channel.Permanent(code(status), errRedirect)
	default:
		return channel.Unknown(code(status), nil)
	}
}

// retryAfter returns how long a Retry-After header asks to wait, between 0 and
// [channel.MaxAfter]. Both forms are understood, a number of seconds and a date;
// anything else, and what lies in the past, is 0.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if !strings.ContainsFunc(value, func(r rune) bool { return r < '0' || r > '9' }) {
		seconds, err := strconv.ParseInt(value, 10, 64)
		if err != nil || seconds > int64(channel.MaxAfter/time.Second) {
			return channel.MaxAfter
		}
		return time.Duration(seconds) * time.Second
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), channel.MaxAfter)
}
