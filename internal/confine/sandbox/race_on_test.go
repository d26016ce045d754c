//go:build race

package sandbox_test

// raceDetector says that the probes need far more memory than usual.
const raceDetector = true
