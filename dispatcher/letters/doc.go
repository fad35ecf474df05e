// Package letters is what an operator can do about a dead letter, and about an
// event that has ended: send it again, with the payload as it was or with an
// edited one, try a single message again, or be done with it.
//
// # What to believe
//
//   - Everything is a record in the history of the event, with the operator and
//     the reason, appended where the history ended as the operator saw it. Of two
//     operators at once one wins; the other gets a *[ConflictError] that says who
//     did what.
//   - What was delivered is never sent again: a requeue is a new generation of the
//     same event, and its messages keep their ids. It works inside the duplicate
//     window, since nothing is published again, and after the horizon, since the
//     letter knows where the event stood.
//   - A letter is removed only when what it stands for has ended otherwise, see
//     [Over]. A process that dies between two steps leaves at most a wake-up or a
//     removal undone, which the steward does.
package letters
