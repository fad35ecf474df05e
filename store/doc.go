// Package store is the read side of Tidings on bbolt: the ledger (one row per
// event), the audit (every record and duplicate, in order), the messages of
// each event, the dead-letter list, and the checkpoints that say how far the
// streams are folded in.
//
// # What to believe
//
//   - The file is a projection. It can be deleted at any time: whatever folds
//     the streams into it builds the same content again.
//   - [Store.Update] is one transaction: entries and the checkpoint that covers
//     them are written together or not at all.
//   - Applying an entry again changes nothing, and how entries are split into
//     transactions leaves no trace: the same entries give the same [Store.Digest].
//   - A ledger row is a function of its event's last record and of the number
//     of its duplicates. A duplicate alone never makes a row, but it is kept,
//     and counted if the record comes later.
//   - Every query is a range scan, bounded in results and in work, newest first.
//
// # Caveats
//
//   - One process at a time has the file open: everybody else asks that process
//     over its HTTP API.
//   - What is read is as old as the last transaction of the projector. Nothing
//     may be decided from it that must be certain; the log decides.
//   - A page may hold fewer results than asked for, even none, while Next says
//     that there is more: the bound on work was reached first.
package store
