//go:build race

package simulation

// The race detector makes a run ten times slower.
const defaultSeeds = 100
