package app

import (
	"context"
	"net"
	"os"
	"path/filepath"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/workers"
)

// serveWorkers takes the connections of workers at an address, for commands of where: remote,
// until stop is called. "" as the address: none are taken.
func (a *App) serveWorkers(ctx context.Context, addr string) (url string, stop func(), err error) {
	if addr == "" {
		return "", func() {}, nil
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return "", nil, fault.Wrap(fault.Usage, err, "cannot listen for workers on %q: %v", addr, err).WithHint("expected an address such as 127.0.0.1:8643")
	}
	node, err := a.Workers.Node(l.Addr().String(), workers.Parts{Overlay: a.box.Overlay, Egress: egressOf(a.Secrets.Value, a.Home.Lookup)})
	if err != nil {
		_ = l.Close()
		return "", nil, err
	}
	a.box.Remote = node.Hub
	ctx, cancel := context.WithCancel(ctx)
	var serving sync.WaitGroup
	serving.Go(func() { node.Serve(ctx, l) })
	return "https://" + l.Addr().String(), func() { cancel(); serving.Wait() }, nil
}

// WorkerRequest says what a worker joins.
type WorkerRequest struct {
	URL   string
	Token string
	Told  func(event, detail string)
}

// Work is a worker: it joins a node and carries out commands until ctx ends. It uses no ledger.
func (a *App) Work(ctx context.Context, q WorkerRequest) error {
	dir := filepath.Join(a.Home.Dir, "worker")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fault.Wrap(fault.Usage, err, "the worker's folder %q cannot be made", dir)
	}
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return err
	}
	return workers.Run(ctx, workers.RunRequest{URL: q.URL, Token: q.Token, Dir: dir, Home: a.Home, Told: q.Told})
}
