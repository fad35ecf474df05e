// Package processes runs dispatcher, operators' desk, replay plans and steward in
// processes that are killed, and on a cluster whose servers are. It holds tests only.
//
// A process is the test binary, started again, with a NATS server of its own on a
// directory, as `tidings serve` has it. It kills itself with SIGKILL at a named point,
// which an environment variable tells it: before one of the things that it writes to
// the log reaches the server, or when the server has stored it and the process does
// not know. A first run that is not killed writes down which points there are, so the
// tests go through all of them.
package processes
