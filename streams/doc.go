// Package streams is the log on JetStream: what producers published (EVENTS),
// what was decided and done about it (OUTCOMES), what an operator must look at
// (DEADLETTERS), and which events to look at again (RETRIES).
//
// # What to believe
//
//   - An append that returned without error is stored: on disk in strict
//     durability, written by the server in relaxed.
//   - An event's history is one subject of OUTCOMES, and an append to it names
//     the sequence it builds on. Of several that name the same, exactly one
//     wins, however many processes there are and however appends are grouped.
//   - An append whose fate is unknown is repeated with the same record, and
//     recognises itself. Nothing is ever concluded from the absence of an entry.
//   - A full stream refuses ([ErrFull]) and forgets nothing. The last tenth of
//     OUTCOMES is for the results of what was begun.
//   - A delivery is only a wake-up: it may come more than once, and after a
//     crash its count starts anew.
//
// # Caveats
//
//   - EVENTS recognises a repeated id only inside the duplicate window;
//     OUTCOMES decides.
//   - OUTCOMES holds nothing that may have to be erased: it cannot be.
//   - Readers of OUTCOMES and EVENTS may see an entry of a batch a moment before
//     it is on disk. Who acts on one must have its own append stored first.
//   - A stream with one replica on a server with damaged files may skip entries
//     without saying so. Readers check that sequences follow each other.
package streams
