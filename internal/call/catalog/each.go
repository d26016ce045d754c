package catalog

import (
	"runtime"
	"sync"
	"sync/atomic"
)

// each calls f with every number below n, on all processors at once. Where f
// panics the caller does, when all that was begun has ended.
func each(n int, f func(i int)) {
	const share = 32 // fewer are not worth another goroutine
	var next atomic.Int64
	var crash atomic.Pointer[any]
	work := func() {
		defer func() {
			if p := recover(); p != nil {
				crash.Store(&p)
			}
		}()
		for i := next.Add(1) - 1; i < int64(n) && crash.Load() == nil; i = next.Add(1) - 1 {
			f(int(i))
		}
	}
	var others sync.WaitGroup
	for range min(runtime.GOMAXPROCS(0), n/share) - 1 {
		others.Go(work)
	}
	work()
	others.Wait()
	if p := crash.Load(); p != nil {
		panic(*p)
	}
}
