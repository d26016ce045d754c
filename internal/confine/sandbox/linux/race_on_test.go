//go:build race

package linux_test

// raceDetector says that the tests are slow and need far more memory than usual.
const raceDetector = true
