// Package dispatcher turns each event into its messages once: it claims the
// event, decides, sends, and records, one step at a time.
//
// # What to believe
//
//   - A delivery is only a wake-up. What to do is decided by the state in the
//     event's last record ([rules.decide], a pure function with reasons).
//   - A claim is appended to OUTCOMES before any side effect, expecting the last
//     sequence of the event's subject: of any number of claimants one wins.
//   - What was done is recorded before anything else is done about the event.
//     Results are facts: they are appended on top of whatever is there until
//     they land.
//   - A message recorded as delivered is not sent again. A message whose fate is
//     unknown is recorded as uncertain before it is sent again, and the repeat
//     carries the same id.
//   - A claim whose owner is gone is taken over: what it may have been sending
//     is uncertain. After too many such crashes the event becomes a dead letter,
//     so an event that kills the process does so a bounded number of times.
//   - A provider that is slow, dead or limited holds only the events that need it:
//     these have seats on its channel, or are set aside before they are claimed,
//     which burns nothing ([outlet], [circuit]).
//   - Trouble with the log is waited out with the delivery in hand. It is never
//     counted against an event, and never answered with a Nak.
//
// # Files
//
// decide.go says what to do with a wake-up, step.go does it, admission.go finds
// room or sets aside, work.go is what a claim is for, try.go calls the providers,
// conclude.go says how the claim ends, bury.go writes dead letters, history.go
// appends records. outlet.go, call.go and breaker.go are what each channel has,
// round.go says what a claim may try, waiting.go bounds those who wait.
package dispatcher
