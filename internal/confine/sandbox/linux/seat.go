//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// seat is the sandbox that one command is started in.
type seat struct {
	tier  string
	group *group // that its processes are counted in, or nil
	why   string // there is none
	start func(files [3]int) (*spawn.Child, error)
	end   func(spawn.Exit) // called once, when the command is over or did not start
	names *hostNames       // of a sandbox that stays, or nil
	alone func() bool      // whether no process of another command was in the sandbox so far
}

// most is the most memory that the command had at once, as far as its group can
// tell; 0: it cannot. A count that cannot begin anew is not that of one command.
func (s seat) most() int64 {
	if s.tier == tierAgent || s.group != nil && s.group.once && s.tier == tierSession {
		return 0
	}
	return s.group.most()
}

// anywhere runs the command where its policy has it run. A sandbox that was made
// before and is not fit any more is passed over.
func (r run) anywhere(ctx context.Context, c command) (sandbox.Outcome, error) {
	chain := r.p.Chain()
	key, same := "", r.prof.Session && r.st.ca == nil // a certificate is the command's own
	shares, direct := r.st.shares, fmt.Sprint(r.st.direct)
	switch {
	case shares:
		key, shares = sessionKey(r.m, authorityOf(chain)+fmt.Sprintf("%q", chain.Data()), r.prof)
		key += string(r.st.ca) + direct // the same for all commands of a session
	case same:
		key, same = sessionKey(r.m, sameChain(chain), r.prof)
		key += direct
	}
	for try := 1; try <= staleTries; try++ {
		if !r.p.Live() { // the preparation took a moment
			return sandbox.Outcome{}, fault.New(fault.HandleRefused, "the call that this command belongs to is over")
		}
		var err error
		switch {
		case r.prof.Isolation != policy.FullIsolation:
			r.seat, err = r.b.weak(r.sp, r.m, r.prof, r.st)
		case shares && try <= sessionTries:
			r.seat, err = r.b.agentSeat(r.sp, r.m, chain, key, c.Session, r.prof, r.st)
		case same && try <= sessionTries:
			r.seat, err = r.b.shared(r.sp, r.m, chain, key, r.prof, r.st)
		default:
			r.seat = r.b.fresh(r.sp, r.m, r.prof, r.st)
		}
		if err != nil {
			return sandbox.Outcome{}, err
		}
		r.held = limits(r.m, r.prof, r.seat.group, r.seat.why)
		c.layers.limits(r.held, r.prof)
		out, err := c.layers.bounded(ctx, func(ctx context.Context) (sandbox.Outcome, error) { return r.do(ctx, c) })
		if !errors.Is(err, errStale) {
			return out, err
		}
	}
	return sandbox.Outcome{}, fault.New(fault.ToolFailed, "every sandbox for the command ended before it began").WithHint("something on this machine kills them")
}

// fresh is a sandbox that begins and ends with the command.
func (b *Box) fresh(sp *spawn.Spawner, m machine, prof sandbox.Profile, st start) seat {
	s := seat{tier: tierFresh}
	s.group, s.why = b.group(prof)
	st.group = s.group
	prog := program(m, prof, st)
	s.start = func(files [3]int) (*spawn.Child, error) { return b.spares.start(sp, prog, files) }
	s.end = func(spawn.Exit) { s.group.release() }
	return s
}

// group takes a control group for a sandbox.
func (b *Box) group(prof sandbox.Profile) (*group, string) {
	groups, _ := b.groups() // where it failed, there are none, and it says why
	return groups.take(bounds{memory: prof.Together, pids: prof.Processes + ownPids})
}

// shared is a sandbox that was there before, or stays afterwards.
func (b *Box) shared(sp *spawn.Spawner, m machine, chain policy.Chain, key string, prof sandbox.Profile, st start) (seat, error) {
	one := b.sessions.take(sp, key)
	if one == nil {
		var err error
		if one, err = b.open(sp, m, chain, key, prof, st.direct); err != nil {
			return seat{}, err
		}
	} else if one.ready != nil {
		<-one.ready
	}
	prog := sessionCommand(m, prof, st)
	s := seat{tier: tierSession, group: one.group, why: one.why, names: one.names}
	s.start = func(files [3]int) (*spawn.Child, error) {
		if err := one.begin(); err != nil {
			return nil, err
		}
		return one.zygote.Call(prog, files)
	}
	s.end = func(exit spawn.Exit) {
		switch {
		case exit.Known && !exit.Dirty:
			one.names.reset()
			b.sessions.put(one)
		case exit.Known:
			b.sessions.again(one, func() (*session, error) { return b.open(sp, m, chain, key, prof, st.direct) })
		default:
			b.sessions.end(one)
		}
	}
	return s, nil
}

// open makes a sandbox that stays. It does not wait until it is there.
func (b *Box) open(sp *spawn.Spawner, m machine, chain policy.Chain, key string, prof sandbox.Profile, direct bool) (*session, error) {
	one := &session{key: key, chain: chain, by: sp}
	var err error
	one.standing, err = b.standing(sp, m, prof, start{stays: true, direct: direct})
	return one, err
}

// standing is a sandbox that stays after a command.
type standing struct {
	zygote *spawn.Zygote
	group  *group
	why    string     // there is no group
	names  *hostNames // nil without a name service
}

// end ends it with all its processes, and waits.
func (s standing) end() {
	s.zygote.End()
	s.group.release()
	s.names.close()
}

// standing starts the first process of a sandbox that stays.
func (b *Box) standing(sp *spawn.Spawner, m machine, prof sandbox.Profile, st start) (s standing, err error) {
	s.group, s.why = b.group(prof)
	st.group = s.group
	prog := program(m, prof, st)
	child, refill, err := b.spares.prepared(sp, prog)
	defer refill()
	if err == nil {
		if s.zygote, err = child.Stay(prog); err != nil {
			child.Drop()
		}
	}
	if err != nil {
		s.group.release()
		return standing{}, notStarted(err)
	}
	if st.direct {
		s.names = new(hostNames)
	}
	return s, nil
}

// begin begins the name service, before the first command. errStale: the sandbox could not be made; one for the command alone
// tells why.
func (s standing) begin() error {
	if s.names == nil {
		return nil
	}
	s.names.begun.Do(func() {
		if f := s.zygote.Take(); f == nil {
			s.names.err = errStale
		} else {
			s.names.err = s.names.serve(f)
		}
	})
	return s.names.err
}

// once returns a function that does something the first time only.
func once(f func()) func() {
	var o sync.Once
	return func() { o.Do(f) }
}
