package standing

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// watch is a call under way that ends when its grant is revoked.
type watch struct {
	nodes  []grant.Node
	acts   bool // it ends, too, when nothing is known of the ledger
	cancel context.CancelCauseFunc
}

// Watch returns a context that ends, with the reason as its cause, when the
// grant's time is over, and, unless the policies say on_revoke: finish, within a
// second of the revocation of any node of its descent. A pause keeps new calls
// from starting and ends none, and nor does a ledger that cannot be read: see Sight. The function that comes with the context must be
// called, and releases everything.
func (a *Authority) Watch(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := func() { cancel(context.Canceled) }
	if end := g.Expires(); !end.IsZero() {
		now := a.now()
		over := g.At(end)
		if over == nil { // one that never begins
			over = fault.New(fault.GrantExpired, "the grant expired")
		}
		var release context.CancelFunc
		ctx, release = context.WithTimeoutCause(ctx, end.Sub(now), over)
		stop = func() { release(); cancel(context.Canceled) }
	}
	if !g.Kept() || g.Chain().Terms().FinishRevoked {
		return ctx, stop
	}
	return ctx, a.watch(ctx, &watch{nodes: g.Nodes(), cancel: cancel}, stop)
}

// watch begins to watch, and returns what ends that.
func (a *Authority) watch(ctx context.Context, w *watch, stop func()) context.CancelFunc {
	a.add(ctx, w)
	return func() {
		a.lock.must()
		delete(a.watches, w)
		a.lock.release()
		stop()
	}
}

// Sight implements runner.Patient: the context ends when the ledger cannot be read for a second.
func (a *Authority) Sight(ctx context.Context, g grant.Grant) (context.Context, context.CancelFunc) {
	if !g.Kept() || g.Chain().Terms().FinishRevoked {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	return ctx, a.watch(ctx, &watch{nodes: g.Nodes(), acts: true, cancel: cancel}, func() { cancel(context.Canceled) })
}

// Await implements runner.Patient: a ledger that is slow or away for a moment delays a call, and
// refuses none.
func (a *Authority) Await(ctx context.Context, g grant.Grant) error {
	waiting, stop := context.WithCancel(ctx)
	defer stop()
	return store.Patiently(waiting, store.LongPatience, store.PatientEvery, func() error {
		err := a.Check(ctx, g)
		if a.isClosed() {
			stop()
		}
		return err
	})
}

func (a *Authority) isClosed() bool {
	a.lock.must()
	defer a.lock.release()
	return a.closed
}

// add begins to watch. A grant that was revoked since it was checked ends at
// once.
func (a *Authority) add(ctx context.Context, w *watch) {
	if err := a.lock.take(ctx); err != nil {
		w.cancel(err)
		return
	}
	defer a.lock.release()
	err := a.look(ctx, w.nodes)
	if waits := fault.Passing(err) && !w.acts && !a.closed; err != nil && fault.CodeOf(err) != fault.GrantPaused && !waits {
		w.cancel(err)
		return
	}
	a.watches[w] = struct{}{}
	if !a.polling {
		a.polling = true
		a.poller.Go(a.poll)
	}
}

// poll looks at the ledger until nothing is watched any more.
func (a *Authority) poll() {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		select {
		case <-a.stop:
			return
		case <-tick.C:
		}
		if !a.pollOnce() {
			return
		}
	}
}

// pollOnce reports false when there is nothing to watch.
func (a *Authority) pollOnce() bool {
	ctx, cancel := context.WithTimeout(context.Background(), patience/2)
	defer cancel()
	began := a.clock()
	version, err := a.grants.StandingVersion(ctx)
	a.lock.must()
	defer a.lock.release()
	if len(a.watches) == 0 || a.closed {
		a.polling = false
		return false
	}
	k := a.known.Load()
	if err == nil && k != nil && k.version == version {
		k.asOf.Store(max(began, k.asOf.Load()))
		a.lastLook = max(began, a.lastLook)
		return true
	}
	a.recheck(ctx)
	return true
}

// recheck checks all watched grants and ends the calls of revoked ones; where nothing could be read
// for a while, all calls. The caller holds the lock.
func (a *Authority) recheck(ctx context.Context) {
	if len(a.watches) == 0 {
		return
	}
	var all []grant.Node
	for w := range a.watches {
		all = append(all, w.nodes...)
	}
	k, err := a.read(ctx, all)
	for w := range a.watches {
		switch {
		case err != nil:
			if a.blind() && (w.acts || !fault.Passing(err)) {
				w.cancel(err)
			}
		default:
			if worst, at, ok := k.verdict(w.nodes); ok && worst == store.Revoked {
				w.cancel(refusal(w.nodes, worst, at))
			}
		}
	}
}

// blind reports whether nothing has been known of the ledger for too long.
func (a *Authority) blind() bool { return a.clock()-a.lastLook > int64(patience) }

// Close ends all watched calls and refuses every grant from then on.
func (a *Authority) Close() error {
	a.lock.must()
	if a.closed {
		a.lock.release()
		return nil
	}
	a.closed = true
	a.known.Store(nil)
	for w := range a.watches {
		w.cancel(errClosed())
	}
	close(a.stop)
	a.lock.release()
	a.poller.Wait()
	return nil
}
