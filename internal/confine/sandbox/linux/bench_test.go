//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"os/exec"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// The four figures that belong together: compare their ratios, of one run.

func BenchmarkBare(b *testing.B) {
	for b.Loop() {
		must(b, exec.Command("/bin/true").Run())
	}
}

func BenchmarkFresh(b *testing.B) { benchmarkTier(b, openPolicy, "fresh") }

func BenchmarkSession(b *testing.B) { benchmarkTier(b, sessionPolicy, "session") }

func benchmarkTier(b *testing.B, src, tier string) {
	w := newWorld(b, src)
	w.sh("true")
	for b.Loop() {
		out, err := w.run(sandbox.Command{Argv: []string{"/bin/true"}})
		if err != nil || out.ExitCode != 0 || out.Tier != tier {
			b.Fatalf("%+v, %v", out, err)
		}
	}
}

// BenchmarkBubblewrap makes the same namespaces, without a filter.
func BenchmarkBubblewrap(b *testing.B) {
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		b.Skipf("NOT MEASURED: %v", err)
	}
	for b.Loop() {
		must(b, exec.Command(bwrap, "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib", "/lib", "--symlink", "usr/lib64", "/lib64",
			"--symlink", "usr/bin", "/bin", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "/bin/true").Run())
	}
}

// BenchmarkTiers takes turns, so that whatever else the machine does falls on
// all of them, and reports medians as multiples of a bare start.
func BenchmarkTiers(b *testing.B) {
	fresh, session := newWorld(b, openPolicy), newWorld(b, sessionPolicy)
	fresh.sh("true")
	session.sh("true")
	one := func(w *world) func() {
		return func() {
			out, err := w.run(sandbox.Command{Argv: []string{"/bin/true"}})
			if err != nil || out.ExitCode != 0 {
				b.Fatalf("%+v, %v", out, err)
			}
		}
	}
	runs := map[string]func(){"bare": func() { must(b, exec.Command("/bin/true").Run()) }, "fresh": one(fresh), "session": one(session)}
	took := map[string][]time.Duration{}
	for b.Loop() {
		for _, name := range []string{"bare", "session", "fresh"} {
			begun := time.Now()
			runs[name]()
			took[name] = append(took[name], time.Since(begun))
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return float64(took[name][len(took[name])/2])
	}
	b.ReportMetric(median("session")/median("bare"), "session/bare")
	b.ReportMetric(median("fresh")/median("bare"), "fresh/bare")
}

// BenchmarkProxy says what the proxy costs a command that connects nowhere. The two
// take turns, as in BenchmarkTiers.
func BenchmarkProxy(b *testing.B) {
	worlds := map[string]*world{"without": newWorld(b, openPolicy), "with": newWorld(b, openPolicy)}
	box := linux.New(linux.Config{Getenv: os.LookupEnv, Egress: func(p permit.Permit, _ sandbox.Command) (sandbox.Proxy, error) {
		return realProxy{egress.New(egress.Options{Permit: p})}, nil
	}})
	b.Cleanup(func() { must(b, box.Close()) })
	worlds["with"].box = box
	took := map[string][]time.Duration{}
	for _, w := range worlds {
		w.sh("true")
	}
	for b.Loop() {
		for name, w := range worlds {
			begun := time.Now()
			out, err := w.run(sandbox.Command{Argv: []string{"/bin/true"}})
			if err != nil || out.ExitCode != 0 {
				b.Fatalf("%+v, %v", out, err)
			}
			took[name] = append(took[name], time.Since(begun))
		}
	}
	median := func(name string) time.Duration {
		slices.Sort(took[name])
		return took[name][len(took[name])/2]
	}
	b.ReportMetric(float64((median("with") - median("without")).Microseconds()), "µs/proxy")
	b.ReportMetric(float64(median("with"))/float64(median("without")), "with/without")
}
