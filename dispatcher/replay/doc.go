// Package replay requeues dead letters in bulk, by one word of an operator: a
// replay plan.
//
// # What to believe
//
//   - A plan is entries in the log. Which letters it is about is frozen when it is
//     made, so it ends although letters fail again, and new ones are not taken in.
//   - Each letter gets one generation of the plan, however often the process dies
//     and goes on: a requeue names its plan, and is recognised.
//   - What somebody else has dealt with meanwhile is skipped, and counted.
//   - With a canary the first letters go alone. Unless each of them ends well, the
//     plan stops, and the rest stays as it was. A letter that has to wait for
//     another round did not end well.
//   - A plan ends when each letter was dealt with and has ended or waits for
//     another round. The last entry says how many of which.
package replay
