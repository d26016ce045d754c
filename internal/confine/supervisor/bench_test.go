//go:build linux && (amd64 || arm64)

package supervisor_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// loop opens and closes a file, and prints the time of each in nanoseconds.
func loop(n int) {
	start := time.Now()
	for range n {
		fd, _ := unix.Open("f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
	}
	fmt.Print(time.Since(start).Nanoseconds() / int64(n))
}

// BenchmarkOpen measures one more open in a loop, beside that of the kernel alone.
func BenchmarkOpen(b *testing.B) {
	dir := b.TempDir()
	must(b, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
	for b.Loop() {
		s := supervised{dir: dir, decide: allow}
		with, _ := s.run(b, os.Args[0], "-loop", "20000")
		without, _ := bare(b, dir, os.Args[0], "-loop", "20000")
		w, _ := strconv.ParseFloat(with, 64)
		k, _ := strconv.ParseFloat(without, 64)
		b.ReportMetric(w, "ns/open")
		b.ReportMetric(k, "ns/open-alone")
	}
}
