// Package event is the vocabulary of Tidings: what a producer published
// ([Envelope]), what was decided and done about it ([Record], [Fact],
// [State]), how it ended ([Outcome]) and what an operator must look at
// ([Letter]). It imports nothing of the project, and everything else imports it.
//
// # What to believe
//
//   - An event has one history: its records, in order of [State.Revision]. A
//     record holds the facts of one change and the whole state after it, so the
//     last record alone says where the event stands.
//   - The fold ([State.Apply]) is pure and total: the same facts on the same
//     state give the same state, whoever folds them and whenever.
//   - An ended event (settled or dead) absorbs everything but a requeue. Only
//     the evidence that a message was delivered still gets in, because it is
//     never lost.
//   - Nothing here holds a recipient's address or a provider's words: addresses
//     are a keyed hash and a mask ([Recipient]), provider errors are codes.
//     Envelopes and letters hold the payload and are not part of the history.
//
// # Formats
//
// The JSON of Record, Duplicate and Letter is read by other programs. Its
// schemas are docs/record.schema.json, docs/duplicate.schema.json and
// docs/letter.schema.json. Fields are added, never renamed or removed; [Schema]
// is their version.
package event

// Schema is the version of the JSON that this package writes. A reader accepts
// any version and ignores the fields that it does not know.
const Schema = 1
