package gateway

import (
	"context"
	"net/http"
	"sync"
)

// Mount gives a handler for clients over HTTP as part of another server, which must
// have checked the hosts and origins of requests, and how many there are. Every client presents a grant
// token as its bearer token, and is under that grant alone. The function that comes
// with it ends all clients' runs and must be called.
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
