//go:build !race

package linux_test

const raceDetector = false
