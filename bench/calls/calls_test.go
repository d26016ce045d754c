package calls_test

import (
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/bench/calls"
	"github.com/remitrun/remit/bench/decide"
	"github.com/remitrun/remit/internal/base/tool"
)

func bench(b *testing.B) *calls.Bench {
	b.Helper()
	chain, err := decide.Chain()
	if err != nil {
		b.Fatal(err)
	}
	x, err := calls.New(b.TempDir(), chain)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := x.Close(); err != nil {
			b.Error(err)
		}
	})
	return x
}

// reportCPU reports the CPU time per call since the returned function was made,
// which holds better on a busy machine than the time that has passed.
func reportCPU(b *testing.B) func() {
	b.Helper()
	used := func() time.Duration {
		var u syscall.Rusage
		if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
			b.Fatal(err)
		}
		return time.Duration(u.Utime.Nano() + u.Stime.Nano())
	}
	before := used()
	return func() { b.ReportMetric(float64((used()-before).Microseconds())/float64(b.N), "cpu-µs/call") }
}

func one(b *testing.B, id tool.ID) {
	x, n := bench(b), 0
	b.ReportAllocs()
	defer reportCPU(b)()
	for b.Loop() {
		n++
		if err := x.Call(id, n); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkRead(b *testing.B)  { one(b, calls.Read) }
func BenchmarkWrite(b *testing.B) { one(b, calls.Write) }

func BenchmarkWrite64(b *testing.B) {
	x := bench(b)
	var n atomic.Int64
	defer reportCPU(b)()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if err := x.Call(calls.Write, int(n.Add(1))); err != nil {
				b.Error(err)
				return
			}
		}
	})
	b.ReportMetric(float64(n.Load())/b.Elapsed().Seconds(), "calls/s")
}
