//go:build race

package wire

// raceDetector is whether the race detector is on, which allocates on its own account.
const raceDetector = true
