//go:build race

package linux_test

// raceDetector says that the probes need far more memory than usual.
const raceDetector = true
