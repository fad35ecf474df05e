// Package simulation runs the dispatcher, the steward and the operators' desk as
// they are, through the real client and [tidings/streams], against a simulated
// NATS server and simulated providers, with everything that can go wrong going
// wrong. It holds tests only.
//
// # What a run is
//
// A run takes place on synthetic time, in a bubble of testing/synctest, and a seed
// decides all of it. Whatever anybody waits for, a request to the log or its answer,
// a delivery, a call of a provider, a look at the plan, the suppressions or the
// ledger, is a move. One goroutine, the world's, waits until all others wait, and
// lets one move happen, or not happen, or half of it; or it kills a process, stops
// one and lets it go on, cuts one off from the log, tells one to end, steps a clock,
// fills a stream, kills the server; or time passes. After this storm comes a calm,
// in which all is well, and everything has to end.
//
// # What is checked
//
// The guarantees that ARCHITECTURE.md states, at every record and at every call, and
// at the end: see checker. What a process may be said to have done depends on what
// happened to it: only who was killed, stopped, or without the log may be said to have
// crashed.
//
// # How to believe it
//
// TestContract holds the simulated server to the real one. TestPlantedBugsAreFound
// plants bugs between dispatcher and log, and wants each of them found. A failing seed
// prints what happened, in words, and does so again:
//
//	go test ./dispatcher/simulation -run TestSimulation -seed 4711
//	go test ./dispatcher/simulation -run TestSimulation -seeds 100000
package simulation
