package channel

import (
	"errors"
	"fmt"
	"time"

	"tidings/streams/event"
)

// MaxAfter caps the time for which a provider may ask not to be called.
const MaxAfter = 24 * time.Hour

// Error is how a call ended that did not deliver, and what to do about it.
type Error struct {
	// Result is the instruction.
	Result event.TryResult
	// Code says why in a word that is safe to store and to count by, such as
	// "smtp_550_5.1.1", "http_503" or one of the Code constants.
	Code string
	// After is how long the provider asked not to be called; 0 if it did not say.
	After time.Duration
	// OfMessage says that the message or its recipient is what was refused, and not for
	// good: another provider is not asked instead, because it would be told the same.
	OfMessage bool
	// Err is the cause; nil if the code says it all. Its text is part of the
	// error's text, so it has to keep the promise of the package about secrets.
	Err error
}

// Permanent says that the provider refused the message for good, or that it can
// never be sent as it is.
func Permanent(code string, err error) *Error {
	return &Error{Result: event.TryPermanent, Code: code, Err: err}
}

// RateLimited says that the provider did not take the message and asked to be
// called again after the given time. Such a try burns nothing.
func RateLimited(code string, after time.Duration, err error) *Error {
	return &Error{Result: event.TryRateLimited, Code: code, After: after, Err: err}
}

// Transient says that the provider certainly did not take the message, and may
// later: it was not reached, it said so, or it was not given all of the message.
// Set After on the result if it named a time.
func Transient(code string, err error) *Error {
	return &Error{Result: event.TryTransient, Code: code, Err: err}
}

// Unknown says that the provider may have taken the message: all of it was, or
// may have been, handed over, and no answer was read.
func Unknown(code string, err error) *Error {
	return &Error{Result: event.TryUnknown, Code: code, Err: err}
}

// Error implements error.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (%s)", e.Code, e.Result)
	if e.After > 0 {
		text += fmt.Sprintf(", not before %s", e.After)
	}
	if e.Err != nil {
		text += ": " + e.Err.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Classify reads the instruction out of what [Sender.Send] returned. No error
// is delivered; an error of no class is unknown, since nobody promised that the
// message was not taken. A rate limit that names no time is transient, because
// without a time to wait for it would burn nothing for ever. After is between 0
// and [MaxAfter].
func Classify(err error) (result event.TryResult, code string, after time.Duration) {
	if err == nil {
		return event.TryDelivered, "", 0
	}
	var e *Error
	if !errors.As(err, &e) || e == nil {
		return event.TryUnknown, CodeUnclassified, 0
	}
	after = min(max(e.After, 0), MaxAfter)
	return instruction(e.Result, after), e.Code, after
}

// Elsewhere reports whether another provider may be asked for the message in the
// same moment: it was certainly not taken, for reasons that are the provider's own.
// Never if its fate is unknown, and never if it is the message that was refused.
func Elsewhere(err error) bool {
	result, _, _ := Classify(err)
	if result != event.TryTransient && result != event.TryRateLimited {
		return false
	}
	var e *Error
	return errors.As(err, &e) && !e.OfMessage
}

func instruction(result event.TryResult, after time.Duration) event.TryResult {
	switch result {
	case event.TryPermanent, event.TryTransient:
		return result
	case event.TryRateLimited:
		if after == 0 {
			return event.TryTransient
		}
		return result
	default:
		return event.TryUnknown
	}
}
