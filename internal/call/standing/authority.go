// Package standing tells whether grants that are kept in the ledger may be used now, and
// makes grants from tokens.
//
// A grant may be used while it and all of its ancestors may be: revoking or pausing one
// grant covers all of its descendants and changes one row of the ledger. Statuses are
// cached with the ledger's version: a change by this process ([Authority.SetStanding])
// holds for every later check, one by another process within 250 ms. An unknown status
// refuses the grant.
//
// Together with package budget, which accounts for the spending of grants, this is a
// runner.Authority. Start at [New].
package standing

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	// fresh is the maximum age of knowledge about the ledger when it is used.
	fresh = 250 * time.Millisecond
	// pollEvery is how often the ledger is read while calls are watched, so that checks find fresh
	// knowledge.
	pollEvery = 100 * time.Millisecond
	// patience is how long calls that act go on while the ledger cannot be read.
	patience = time.Second
	maxBuilt = 32 << 20 // bytes of grants that were made of tokens
)

// Options are the parts of an [Authority].
type Options struct {
	Grants  store.Grants     // required
	Budgets store.Budgets    // counts children; nil: grants that limit them cannot be handed on
	Now     func() time.Time // by which grants begin and expire; nil: time.Now
}

// Authority is safe for concurrent use. It must be closed.
type Authority struct {
	grants  store.Grants
	budgets store.Budgets
	now     func() time.Time
	born    time.Time // the origin of the monotonic clock

	known atomic.Pointer[knowledge] // nil: nothing is known
	built *memo.Memo[built]         // what tokens say, by their digests and environments

	lock     lock // held while the ledger's standings are read, and over what follows
	watches  map[*watch]struct{}
	polling  bool // a goroutine looks after the watches
	closed   bool
	lastLook int64 // when the ledger was last read, by the monotonic clock
	stop     chan struct{}
	poller   sync.WaitGroup
}

// New makes an authority over a store.
func New(o Options) *Authority {
	a := &Authority{grants: o.Grants, budgets: o.Budgets, now: o.Now, born: time.Now(), built: memo.New[built](maxBuilt), watches: map[*watch]struct{}{}, stop: make(chan struct{}), lock: make(lock, 1)}
	if a.now == nil {
		a.now = time.Now
	}
	return a
}

// knowledge is the ledger's state of some grants in one version of its standings.
type knowledge struct {
	version int64
	asOf    atomic.Int64 // when it was last found to hold, by the monotonic clock

	mu sync.RWMutex
	of map[uuid.UUID]store.Standing // of every grant that was asked for; mostly Active
}

func (a *Authority) clock() int64 { return int64(time.Since(a.born)) }

func (k *knowledge) isFresh(now int64) bool {
	return k != nil && now-k.asOf.Load() <= int64(fresh)
}

// verdict returns the worst known standing of the nodes. ok is false where something is not known.
func (k *knowledge) verdict(nodes []grant.Node) (worst store.Standing, at int, ok bool) {
	k.mu.RLock()
	defer k.mu.RUnlock()
	root := true
	for i := range nodes {
		if !nodes[i].Kept {
			continue
		}
		st, known := k.of[nodes[i].ID]
		if !known {
			return 0, 0, false
		}
		if st == store.Restored && !root { // its root decides
			st = store.Active
		}
		root = false
		if st > worst && worst != store.Revoked {
			worst, at = st, i
		}
	}
	return worst, at, true
}

// Check returns nil while every node of the grant may be used: it is in its time
// (fault.GrantExpired, GrantEarly) and neither revoked nor paused
// (fault.GrantRevoked, GrantPaused). Where the ledger cannot be read, that is the
// error.
func (a *Authority) Check(ctx context.Context, g grant.Grant) error {
	if err := g.At(a.now()); err != nil {
		return err
	}
	nodes := g.Nodes()
	if !g.Kept() {
		return nil
	}
	if k := a.known.Load(); k.isFresh(a.clock()) {
		if worst, at, ok := k.verdict(nodes); ok {
			return refusal(nodes, worst, at)
		}
	}
	if err := a.lock.take(ctx); err != nil {
		return unknown(err)
	}
	defer a.lock.release()
	return a.look(ctx, nodes)
}

// lock is a mutex that is waited for no longer than a context lasts.
type lock chan struct{}

func (l lock) take(ctx context.Context) error {
	select {
	case l <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l lock) must()    { l <- struct{}{} }
func (l lock) release() { <-l }

// look asks the ledger, unless somebody has while this one waited for the lock.
// The caller holds the lock.
func (a *Authority) look(ctx context.Context, nodes []grant.Node) error {
	if a.closed {
		return errClosed()
	}
	k := a.known.Load()
	if k.isFresh(a.clock()) {
		if worst, at, ok := k.verdict(nodes); ok {
			return refusal(nodes, worst, at)
		}
	}
	k, err := a.read(ctx, nodes)
	if err != nil {
		return err
	}
	worst, at, ok := k.verdict(nodes)
	if !ok {
		return fault.New(fault.Internal, "the standing of a grant was read and is not known")
	}
	return refusal(nodes, worst, at)
}

// maxKnown bounds how many grants are kept in mind.
const maxKnown = 1 << 16

// read asks the ledger for the standing of nodes. The caller holds the lock.
func (a *Authority) read(ctx context.Context, nodes []grant.Node) (*knowledge, error) {
	if a.grants == nil {
		return nil, unknown(fault.New(fault.StoreFailed, "no ledger is open"))
	}
	ids := make([]uuid.UUID, 0, len(nodes))
	for i := range nodes {
		if nodes[i].Kept {
			ids = append(ids, nodes[i].ID)
		}
	}
	began := a.clock()
	bad, version, err := a.grants.Standing(ctx, ids)
	if err != nil {
		return nil, unknown(err)
	}
	k := a.known.Load()
	if k == nil || k.version != version || len(k.of) > maxKnown {
		k = &knowledge{version: version, of: make(map[uuid.UUID]store.Standing, len(ids))}
	}
	k.mu.Lock()
	for _, id := range ids {
		k.of[id] = bad[id]
	}
	k.mu.Unlock()
	k.asOf.Store(began)
	a.known.Store(k)
	a.lastLook = began
	return k, nil
}

// SetStanding revokes, pauses or resumes a grant. When it returns, every check
// that begins from then on knows, and calls that must end are being ended.
func (a *Authority) SetStanding(ctx context.Context, c store.StandingChange) error {
	err := a.grants.SetStanding(ctx, c)
	a.lock.must()
	defer a.lock.release()
	a.known.Store(nil) // also after an error: it may have been written
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), patience)
	defer cancel()
	a.recheck(ctx)
	return err
}

// refusal says why the worst standing of the nodes, which node number at has,
// keeps a grant from being used.
func refusal(nodes []grant.Node, worst store.Standing, at int) error {
	if worst == store.Active {
		return nil
	}
	what := "the grant"
	if at < len(nodes)-1 {
		what = "a grant that this one descends from,"
	}
	n := &nodes[at]
	if worst == store.Paused {
		return fault.New(fault.GrantPaused, "%s %s of %q is paused", what, n.ID, n.Holder).
			WithHint("a person has to resume it")
	}
	if worst == store.Restored {
		return fault.New(fault.GrantPaused, "%s %s of %q is from before the ledger was restored from a backup, and may have been revoked since", what, n.ID, n.Holder).
			ForOperator("accept it with remit grant resume %s, or all grants from before with remit grant resume --restored", n.ID)
	}
	return fault.New(fault.GrantRevoked, "%s %s of %q was revoked", what, n.ID, n.Holder).
		WithHint("ask who issued it for a new one")
}

// unknown is the error of a grant whose status is unknown.
func unknown(err error) error {
	return fault.Wrap(code(err), err, "whether the grant may still be used cannot be told, so it is not: %s", fault.Message(err))
}

func code(err error) fault.Code {
	if c := fault.CodeOf(err); c != 0 && c != fault.Internal {
		return c
	}
	return fault.StoreFailed
}

func errClosed() error {
	return fault.New(fault.StoreFailed, "the ledger is closed, so whether the grant may still be used cannot be told")
}
