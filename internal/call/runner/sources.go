package runner

import (
	"context"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
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

// TierLimits bounds the calls of all tools of a tier, over all runs of the
// process. Zero fields do not limit.
type TierLimits struct {
	PerMinute int           // calls started in any minute; further ones are refused
	AtOnce    int           // calls at the same time; further ones wait
	RunTime   time.Duration // of one call
}

// Sources enforces the limits of tiers. It is safe for concurrent use; a nil
// Sources limits nothing.
//
// A call beyond AtOnce waits, because a plan's outcome must not depend on timing. A call
// beyond PerMinute is refused: that limit stops runaway loops, which waiting would hide.
type Sources struct {
	limits map[Tier]TierLimits
	now    func() time.Time
	slots  map[Tier]chan struct{}

	mu    sync.Mutex
	begun map[Tier][]time.Time // of the last minute, oldest first
}

// NewSources makes the limits of tiers. A nil now is time.Now.
func NewSources(limits map[Tier]TierLimits, now func() time.Time) *Sources {
	if now == nil {
		now = time.Now
	}
	s := &Sources{limits: limits, now: now, slots: map[Tier]chan struct{}{}, begun: map[Tier][]time.Time{}}
	for t, l := range limits {
		if l.AtOnce > 0 {
			s.slots[t] = make(chan struct{}, l.AtOnce)
		}
	}
	return s
}

func (s *Sources) of(t Tier) TierLimits {
	if s == nil || t == BuiltIn {
		return TierLimits{}
	}
	return s.limits[t]
}

// reserve counts a call of a tier, or refuses it with fault.LimitReached.
func (s *Sources) reserve(t Tier) (Reservation, error) {
	most := s.of(t).PerMinute
	if most <= 0 {
		return nil, nil //nolint:nilnil // nothing is limited
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	list := s.begun[t]
	for len(list) > 0 && now.Sub(list[0]) >= time.Minute {
		list = list[1:]
	}
	if s.begun[t] = list; len(list) >= most {
		wait := (time.Minute - now.Sub(list[0])).Round(time.Second)
		return nil, fault.New(fault.LimitReached, "sources.%s.per_minute: the limit of %d calls a minute is reached", t, most).
			WithHint("try again in %s", max(wait, time.Second))
	}
	s.begun[t] = append(list, now)
	return &sourceReservation{s, t, now}, nil
}

// enter waits for a free slot in the tier. The caller must call leave.
func (s *Sources) enter(ctx context.Context, t Tier) (leave func(), err error) {
	if s == nil || s.slots[t] == nil || t == BuiltIn {
		return func() {}, nil
	}
	select {
	case s.slots[t] <- struct{}{}:
		return func() { <-s.slots[t] }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// sourceReservation is a call's place in its tier's minute. It is released if the call
// does not run.
type sourceReservation struct {
	s    *Sources
	tier Tier
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
	list := p.s.begun[p.tier]
	for i := range list {
		if list[i].Equal(p.at) {
			p.s.begun[p.tier] = append(list[:i:i], list[i+1:]...)
			return
		}
	}
}
