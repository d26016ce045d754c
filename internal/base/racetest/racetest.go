// Package racetest lets tests see that the race detector watches them. It makes a program
// several times as slow and as large, so a test of memory or of one goroutine's time says
// nothing under it.
package racetest

import (
	"hash/crc32"
	"os"
	"runtime/debug"
	"slices"
	"testing"
)

// On reports whether the race detector watches.
func On() bool {
	info, _ := debug.ReadBuildInfo()
	return info != nil && slices.Contains(info.Settings, debug.BuildSetting{Key: "-race", Value: "true"})
}

// Skip skips a test of one goroutine under the race detector, but not in make soak.
func Skip(t testing.TB, why string) {
	t.Helper()
	if On() && os.Getenv("REMIT_SOAK") == "" {
		t.Skip("with the race detector only in make soak: " + why)
	}
}

// Some skips all but one in n of the tests that call it, always the same ones, under the race detector,
// but not in make soak. It is for tests that differ from others in what they compare alone.
func Some(t testing.TB, n uint32, why string) {
	t.Helper()
	if crc32.ChecksumIEEE([]byte(t.Name()))%n != 0 {
		Skip(t, why)
	}
}
