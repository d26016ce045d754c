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

// loop opens and closes a file, or makes and removes one, and prints the time of each in nanoseconds.
func loop(n int, create bool) {
	start := time.Now()
	for range n {
		if create {
			fd, _ := unix.Open("new", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o600)
			_ = unix.Close(fd)
			_ = unix.Unlink("new")
			continue
		}
		fd, _ := unix.Open("f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		_ = unix.Close(fd)
	}
	fmt.Print(time.Since(start).Nanoseconds() / int64(n))
}

// BenchmarkOpen measures one more open in a loop, beside that of the kernel alone; create one more file that is made and
// removed.
func BenchmarkOpen(b *testing.B) {
	for _, how := range []string{"-loop", "-create"} {
		b.Run(how[1:], func(b *testing.B) {
			dir := b.TempDir()
			must(b, os.WriteFile(filepath.Join(dir, "f"), nil, 0o600))
			for b.Loop() {
				s := supervised{dir: dir, decide: allow}
				with, _ := s.run(b, os.Args[0], how, "20000")
				without, _ := bare(b, dir, os.Args[0], how, "20000")
				w, _ := strconv.ParseFloat(with, 64)
				k, _ := strconv.ParseFloat(without, 64)
				b.ReportMetric(w, "ns/open")
				b.ReportMetric(k, "ns/open-alone")
			}
		})
	}
}

// BenchmarkSmallFiles measures programs that open 20,000 small files, or make 2,000, beside the same without a
// supervisor.
func BenchmarkSmallFiles(b *testing.B) {
	dir := b.TempDir()
	for i := range 20_000 {
		name := filepath.Join(dir, strconv.Itoa(i/100), strconv.Itoa(i))
		if i%100 == 0 {
			must(b, os.Mkdir(filepath.Dir(name), 0o700))
		}
		must(b, os.WriteFile(name, []byte("one\ntwo\n"), 0o600))
	}
	bare(b, dir, "bash", "-c", "git init -q && git add .")
	for name, script := range map[string]string{"true": "true", "grep": "grep -r three .", "git": "git status --short", "tar": "tar cf - . | tar tf - >/dev/null", "create": "mkdir -p d && cd d && seq 2000 | xargs touch; cd .. && rm -r d"} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				begin := time.Now()
				bare(b, dir, "bash", "-c", script)
				alone := time.Since(begin)
				s := supervised{dir: dir, decide: allow}
				begin = time.Now()
				s.run(b, "bash", "-c", script)
				b.ReportMetric(float64(time.Since(begin).Milliseconds()), "ms")
				b.ReportMetric(float64(alone.Milliseconds()), "ms-alone")
			}
		})
	}
}
