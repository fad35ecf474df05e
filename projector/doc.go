// Package projector folds the streams OUTCOMES and DEADLETTERS into the store.
// It has no way to send anything, so folding again sends nothing.
//
// # What to believe
//
//   - Entries and the checkpoint that covers them are one transaction of the
//     store: killed at any point, the projector goes on where it was.
//   - A missing ledger file is built again from the first entry on. The same
//     entries give the same digest.
//   - OUTCOMES is folded without a gap. Before every transaction, and every so
//     often while there is none, the checkpoint is compared with the stream:
//     the same stream, not shorter, with the same entry at the same sequence.
//   - What does not fit halts the projector with a [HaltError] that names the
//     sequence and what to do. A halted projector changes nothing, is not
//     ready, and does not end: [Projector.Run] blocks until its context does,
//     so that everybody can still read the ledger and the reason. Nothing but
//     a restart makes it go on, or [Projector.Skip] where an entry cannot be folded.
//   - What a later version wrote is kept and shown, and does not halt it. An entry
//     of a kind that this version knows halts it if it cannot be read, or if its
//     revision does not follow and nobody knows why.
//
// # What a gap is
//
// Entries that aged out are no gap: below its first sequence the stream has
// nothing, and the store forgets the same entries. If they are younger than the
// horizon, the stream lost its beginning, which halts. Dead letters are deleted one
// by one, so that DEADLETTERS has holes; there, only the order must rise. A gap
// in OUTCOMES halts when it is met twice in a row, since a client that lost its
// place is mended by asking again.
package projector
