package runner

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Tier is how far a tool's source is trusted. Built-in tools have no tier.
type Tier string

// The tiers, the most trusted first.
const (
	BuiltIn   Tier = ""
	Extension Tier = "extension"  // installed in a folder of this machine
	LocalMCP  Tier = "mcp_local"  // a server that this machine runs
	RemoteMCP Tier = "mcp_remote" // a server elsewhere
	Cloud     Tier = "cloud"      // services elsewhere, and unknown sources
)

// Tiers are the tiers that have limits.
var Tiers = []Tier{Extension, LocalMCP, RemoteMCP, Cloud}

// TierOf returns the tier of a tool's source (tool.Spec.Source). Unknown sources are
// trusted least.
func TierOf(source string) Tier {
	switch source {
	case "builtin":
		return BuiltIn
	case "extension", "wasm":
		return Extension
	case "mcp":
		return LocalMCP
	case "mcp-remote":
		return RemoteMCP
	}
	return Cloud
}

// elsewhere reports whether all nodes use the same providers of the tier. Each node has its own
// process of an extension or a local server.
func (t Tier) elsewhere() bool { return t == RemoteMCP || t == Cloud }

// TierLimits bounds the calls of the tools of each server, extension or other provider of a
// tier, over all runs of the process. Zero fields do not limit.
type TierLimits struct {
	PerMinute int           // calls that each holder of grants starts in any minute; further ones are refused
	AtOnce    int           // calls at the same time; further ones wait
	RunTime   time.Duration // of one call
	Wait      time.Duration // for a call's turn; then it is refused
}

// Sources enforces the limits of tiers. It is safe for concurrent use; a nil
// Sources limits nothing.
//
// A call beyond AtOnce waits, because a plan's outcome must not depend on timing; who waits
// takes turns with other holders of grants. A call beyond PerMinute is refused: that limit
// stops runaway loops, which waiting would hide.
type Sources struct {
	limits map[Tier]TierLimits
	now    func() time.Time

	mu    sync.Mutex
	slots map[provider]*slots
	begun map[user][]time.Time // of the last minute, oldest first
	parts map[user]*part       // of the calls that all nodes may begin

	places map[provider]*places // among those of all nodes
}

// provider is what calls of tools occupy: one server, one extension.
type provider struct {
	tier Tier
	name string
}

// providerOf gives the provider of a tool by its ID, as mcp:github of mcp:github:get_issue.
// Tools whose IDs name none share one.
func providerOf(t Tier, id tool.ID) provider {
	kind, rest, _ := strings.Cut(string(id), ":")
	name, _, ok := strings.Cut(rest, ":")
	if !ok {
		return provider{tier: t}
	}
	return provider{t, kind + ":" + name}
}

func (p provider) String() string {
	if p.name == "" {
		return "these tools"
	}
	return p.name
}

// user is a holder of grants who uses a provider.
type user struct {
	provider
	holder string
}

// NewSources makes the limits of tiers. A nil now is time.Now.
func NewSources(limits map[Tier]TierLimits, now func() time.Time) *Sources {
	if now == nil {
		now = time.Now
	}
	return &Sources{limits: limits, now: now, slots: map[provider]*slots{}, begun: map[user][]time.Time{}, parts: map[user]*part{}, places: map[provider]*places{}}
}

func (s *Sources) limitsOf(t Tier) TierLimits {
	if s == nil || t == BuiltIn {
		return TierLimits{}
	}
	return s.limits[t]
}

// maxUsers is how many users are kept in memory before users of former minutes are forgotten.
const maxUsers = 1024

// reserve counts a call, or refuses it with fault.LimitReached. A recorder that several nodes
// share counts for all of them.
func (s *Sources) reserve(ctx context.Context, u user, record Recorder) (Reservation, error) {
	most := s.limitsOf(u.tier).PerMinute
	if most <= 0 {
		return nil, nil //nolint:nilnil // nothing is limited
	}
	if rated, ok := record.(Rated); ok {
		return s.reserveShared(ctx, u, most, rated)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	old := func(at time.Time) bool { return now.Sub(at) >= time.Minute }
	if len(s.begun) >= maxUsers {
		maps.DeleteFunc(s.begun, func(_ user, list []time.Time) bool { return len(list) == 0 || old(list[len(list)-1]) })
	}
	list := s.begun[u]
	for len(list) > 0 && old(list[0]) {
		list = list[1:]
	}
	if s.begun[u] = list; len(list) >= most {
		return nil, overRate(u, most, time.Minute-now.Sub(list[0]))
	}
	s.begun[u] = append(list, now)
	return &sourceReservation{s, u, now}, nil
}

func overRate(u user, most int, wait time.Duration) error {
	return fault.New(fault.LimitReached, "sources.%s.per_minute: the limit of %d calls of %s a minute is reached", u.tier, most, u.provider).
		WithHint("try again in %s", max(wait.Round(time.Second), time.Second))
}

// slots are the calls that one provider may have at once. A waiting call is in a queue of its
// holder; the queues take turns.
type slots struct {
	free    int
	waiting map[string][]chan struct{} // by holder; a channel is closed when its call has a slot
	turns   []string                   // the holders who wait, the next one first
}

// errNoRoom means that a call has waited for its tier's Wait.
var errNoRoom = errors.New("no room")

// enter waits for a free slot of the user's provider, but not longer than the tier's Wait
// (fault.LimitReached). Of a provider elsewhere, a recorder that several nodes share counts the
// calls of all of them. The caller must call leave.
func (s *Sources) enter(ctx context.Context, u user, record Recorder) (leave func(), err error) {
	limit := s.limitsOf(u.tier)
	if limit.AtOnce <= 0 {
		return func() {}, nil
	}
	turn := s.queue(u, limit.AtOnce)
	placed, shared := record.(Placed)
	shared = shared && u.tier.elsewhere()
	if turn == nil && !shared {
		return func() { s.leave(u.provider) }, nil
	}
	var late <-chan time.Time
	if limit.Wait > 0 {
		timer := time.NewTimer(limit.Wait)
		defer timer.Stop()
		late = timer.C
	}
	leave, err = s.enterHere(ctx, u, turn, late)
	if err == nil && shared {
		here := leave
		var there func()
		if there, err = s.enterShared(ctx, u.provider, limit.AtOnce, late, placed); err != nil {
			here()
		}
		leave = func() { there(); here() }
	}
	if errors.Is(err, errNoRoom) {
		err = fault.New(fault.LimitReached, "sources.%s.at_once: the %d calls of %s that may be under way at once have left no room for %s", u.tier, limit.AtOnce, u.provider, limit.Wait).
			WithHint("try again later; these calls may hang")
	}
	if err != nil {
		return nil, err
	}
	return leave, nil
}

// enterHere waits for a call's turn in this process.
func (s *Sources) enterHere(ctx context.Context, u user, turn <-chan struct{}, late <-chan time.Time) (leave func(), err error) {
	leave = func() { s.leave(u.provider) }
	if turn == nil {
		return leave, nil
	}
	select {
	case <-turn:
		return leave, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-late:
		err = errNoRoom
	}
	if !s.giveUp(u, turn) {
		leave() // it had got its slot meanwhile
	}
	return nil, err
}

// queue takes a slot, or gives a channel to wait on.
func (s *Sources) queue(u user, atOnce int) <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.slots[u.provider]
	if p == nil {
		p = &slots{free: atOnce, waiting: map[string][]chan struct{}{}}
		s.slots[u.provider] = p
	}
	if p.free > 0 {
		p.free--
		return nil
	}
	if len(p.waiting[u.holder]) == 0 {
		p.turns = append(p.turns, u.holder)
	}
	turn := make(chan struct{})
	p.waiting[u.holder] = append(p.waiting[u.holder], turn)
	return turn
}

// leave gives a slot to the next who waits.
func (s *Sources) leave(of provider) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.slots[of]
	if len(p.turns) == 0 {
		if p.free++; p.free == s.limits[of.tier].AtOnce {
			delete(s.slots, of)
		}
		return
	}
	holder := p.turns[0]
	p.turns = p.turns[1:]
	list := p.waiting[holder]
	close(list[0])
	if p.waiting[holder] = list[1:]; len(list) > 1 {
		p.turns = append(p.turns, holder)
	} else {
		delete(p.waiting, holder)
	}
}

// giveUp takes a call out of its queue; false: it has got a slot.
func (s *Sources) giveUp(u user, turn <-chan struct{}) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.slots[u.provider]
	if p == nil {
		return false
	}
	list := p.waiting[u.holder]
	i := slices.IndexFunc(list, func(c chan struct{}) bool { return (<-chan struct{})(c) == turn })
	if i < 0 {
		return false
	}
	if list = slices.Delete(list, i, i+1); len(list) > 0 {
		p.waiting[u.holder] = list
		return true
	}
	delete(p.waiting, u.holder)
	p.turns = slices.DeleteFunc(p.turns, func(h string) bool { return h == u.holder })
	return true
}

// sourceReservation is a call's place in its user's minute. It is released if the call
// does not run.
type sourceReservation struct {
	s    *Sources
	user user
	at   time.Time
}

// Given implements Reservation.
func (*sourceReservation) Given() grant.Amounts { return grant.Amounts{} }

// Over implements Reservation.
func (*sourceReservation) Over() <-chan struct{} { return nil }

// Settle implements Reservation.
func (p *sourceReservation) Settle(used grant.Amounts) {
	if used.Calls > 0 {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	list := p.s.begun[p.user]
	if i := slices.IndexFunc(list, p.at.Equal); i >= 0 {
		p.s.begun[p.user] = slices.Concat(list[:i], list[i+1:])
	}
}
