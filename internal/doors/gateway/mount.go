package gateway

import (
	"context"
	"net/http"
	"sync"
)

// Mount gives a handler for clients over HTTP as part of another server, which must check
// the hosts, origins and rates of requests. Every client presents a grant token as its
// bearer token, and works under that grant alone. The returned function ends the runs of
// all clients and must be called.
func (g *Gateway) Mount(ctx context.Context) (http.Handler, func(context.Context)) {
	w := newWeb(g)
	inner, stop := context.WithCancel(ctx)
	var tasks sync.WaitGroup
	tasks.Go(func() { g.watch(inner) })
	tasks.Go(func() { w.reap(inner) })
	return w, func(ctx context.Context) {
		stop()
		w.endAll(ctx)
		tasks.Wait()
	}
}
