// Package archive writes the entries of OUTCOMES and DEADLETTERS, and the objects
// that dead letters name, into a file, and reads and imports such files.
//
// # What to believe
//
//   - A file is JSON Lines in frames of zstd: any tool that knows both can read it.
//   - An export is what the streams had when it began. Entries keep their
//     sequences, subjects, times, headers and bytes, so that a ledger that is
//     folded from a file has the digest of the one that was folded from the log.
//     Headers beginning with Nats- are left out: they say how an entry was
//     appended, and nothing about it.
//   - Every frame ends with a checkpoint: a hash over all that comes before. One
//     that was cut off goes on behind the last whole frame, and becomes the file
//     that it would have been; nothing but the length of the cut is lost.
//   - A file is read only as a whole: what is damaged, cut off, out of order or
//     lacks an entry is refused with a *[DamageError] that names the line and says
//     what to do. What is read needs memory for a frame of the compression and for
//     one line.
//   - Dead letters hold payloads, and so does a file.
//
// # The lines
//
// Each is a JSON object whose first member, line, says what it is. The first is the
// header, the last is the end. Dead letters come first, each behind the objects that
// it names, since they may be gone a moment later; then comes OUTCOMES, without a
// gap but those that an operator accepted, each of which is a line where it is.
// docs/archive.md describes them for others.
package archive
