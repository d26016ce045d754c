package app

import (
	"context"

	"github.com/remitrun/remit/internal/service/workers"
)

// serveWorkers takes workers at an address, for commands of where: remote, until stop is called.
func (a *App) serveWorkers(ctx context.Context, addr string) (url string, stop func(), err error) {
	n, stop, err := a.Workers.Listen(ctx, addr, workers.Parts{Overlay: a.box.Overlay, Egress: egressOf(a.Secrets.Value, a.Home.Lookup, nil)})
	if err != nil || n == nil {
		return "", func() {}, err
	}
	a.box.Remote, a.node = n.Hub, n
	return n.URL, stop, nil
}
