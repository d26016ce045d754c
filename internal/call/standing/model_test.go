package standing_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/standing"
	"github.com/remitrun/remit/internal/record/store"
)

// The ledger of the tests below keeps standings in memory, and calls gate
// before and after each thing that happens to them, so that a test decides in
// which order that is.
type gated struct {
	kept    // not used
	gate    func(ctx context.Context, at string)
	mu      sync.Mutex
	of      map[uuid.UUID]store.Standing
	version int64
}

func (l *gated) Standing(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]store.Standing, int64, error) {
	l.gate(ctx, "read")
	l.mu.Lock()
	out, v := maps.Clone(l.of), l.version
	l.mu.Unlock()
	l.gate(ctx, "have read")
	return out, v, nil
}

func (l *gated) StandingVersion(ctx context.Context) (int64, error) {
	l.gate(ctx, "read the version")
	l.mu.Lock()
	v := l.version
	l.mu.Unlock()
	l.gate(ctx, "have read the version")
	return v, nil
}

func (l *gated) SetStanding(ctx context.Context, c store.StandingChange) error {
	l.gate(ctx, "write")
	l.mu.Lock()
	if l.of[c.Grant] != store.Revoked && l.of[c.Grant] != c.To {
		l.of[c.Grant] = c.To
		l.version++
	}
	l.mu.Unlock()
	l.gate(ctx, "have written")
	return nil
}

// TestEverySequenceOfFewChanges plays all sequences of a few steps of two
// processes with one ledger, and compares what each check says with what may be
// said: what the ledger held at some moment of the last 250 ms, and in the
// process that changed it, what it holds now.
func TestEverySequenceOfFewChanges(t *testing.T) {
	const length = 4 // longer ones are drawn at random
	steps := []string{"a revokes the root", "a pauses the leaf", "a resumes the leaf", "b revokes the leaf", "b pauses the root", "b resumes the root", "a checks", "b checks", "b checks a sibling", "time passes"}
	var sequence []int
	var walk func()
	count := 0
	walk = func() {
		if len(sequence) == length {
			count++
			playSequence(t, steps, sequence)
			return
		}
		for i := range steps {
			sequence = append(sequence, i)
			walk()
			sequence = sequence[:len(sequence)-1]
		}
	}
	synctest.Test(t, func(*testing.T) { walk() })
	t.Logf("%d sequences", count)
	synctest.Test(t, func(t *testing.T) {
		for range 2000 {
			sequence := make([]int, length+1+rand.IntN(12))
			for i := range sequence {
				sequence[i] = rand.IntN(len(steps))
			}
			playSequence(t, steps, sequence)
		}
	})
}

func playSequence(t *testing.T, steps []string, sequence []int) {
	root, leaf, other := uuid.UUID{1}, uuid.UUID{2}, uuid.UUID{3}
	l := &gated{of: map[uuid.UUID]store.Standing{}, gate: func(context.Context, string) {}}
	procs := map[byte]*standing.Authority{'a': standing.New(standing.Options{Grants: l}), 'b': standing.New(standing.Options{Grants: l})}
	top := grant.New(grant.Terms{ID: root, Kept: true})
	g, sibling := top.Derive(grant.Terms{ID: leaf, Kept: true}), top.Derive(grant.Terms{ID: other, Kept: true})
	worst := func() store.Standing { return max(l.of[root], l.of[leaf]) }
	type moment struct {
		at    time.Time
		by    byte
		worst store.Standing
	}
	history := []moment{{worst: store.Active}}
	change := func(by byte, id uuid.UUID, to store.Standing) {
		_ = procs[by].SetStanding(context.Background(), store.StandingChange{Grant: id, To: to})
		history = append(history, moment{time.Now(), by, worst()})
	}
	check := func(by byte) {
		asked := time.Now()
		err := procs[by].Check(context.Background(), g)
		got := map[bool]store.Standing{true: store.Revoked, false: store.Paused}[errors.Is(err, fault.GrantRevoked)]
		if err == nil {
			got = store.Active
		}
		// What held at the newest moment that is old enough or this process's own, or
		// at any later one.
		ok := false
		for _, m := range slices.Backward(history) {
			ok = ok || m.worst == got
			if m.by == by || asked.Sub(m.at) > 250*time.Millisecond {
				break
			}
		}
		if !ok {
			names := make([]string, len(sequence))
			for i, n := range sequence {
				names[i] = steps[n]
			}
			t.Fatalf("%q: %c says %s (%v)", names, by, got, err)
		}
	}
	check('a')
	check('b')
	for _, n := range sequence {
		switch n {
		case 0:
			change('a', root, store.Revoked)
		case 1:
			change('a', leaf, store.Paused)
		case 2:
			change('a', leaf, store.Active)
		case 3:
			change('b', leaf, store.Revoked)
		case 4:
			change('b', root, store.Paused)
		case 5:
			change('b', root, store.Active)
		case 6:
			check('a')
		case 7:
			check('b')
		case 8:
			_ = procs['b'].Check(context.Background(), sibling)
		case 9:
			time.Sleep(300 * time.Millisecond)
		}
	}
	time.Sleep(300 * time.Millisecond)
	check('a')
	check('b')
}

func TestWhatASlowReadFoundIsAsOldAsItsBegin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &gated{of: map[uuid.UUID]store.Standing{}, gate: func(_ context.Context, at string) {
			if at == "have read" {
				time.Sleep(200 * time.Millisecond)
			}
		}}
		a, b := standing.New(standing.Options{Grants: l}), standing.New(standing.Options{Grants: l})
		g := line(1)
		go func() {
			time.Sleep(10 * time.Millisecond)
			_ = a.SetStanding(context.Background(), change(g.ID(), store.Revoked))
		}()
		if err := b.Check(context.Background(), g); err != nil {
			t.Fatalf("it was read before the revocation: %v", err)
		}
		time.Sleep(70 * time.Millisecond)
		if err := b.Check(context.Background(), g); !errors.Is(err, fault.GrantRevoked) {
			t.Errorf("260 ms after the revocation: %v", err)
		}
	})
}

// actor is one goroutine of an interleaving: at each gate it waits for its turn.
type actor struct {
	name  string
	at    string // the gate that it waits at; "" if it does not wait
	turn  chan struct{}
	ended bool
}

type actorKey struct{}

// interleaving plays one order of what several actors do, and remembers who could
// have had each turn.
type interleaving struct {
	mu     sync.Mutex
	actors []*actor
	log    []string
}

func (p *interleaving) gate(ctx context.Context, at string) {
	a, _ := ctx.Value(actorKey{}).(*actor)
	if a == nil {
		return
	}
	p.mu.Lock()
	a.at = at
	p.mu.Unlock()
	<-a.turn
}

func (p *interleaving) start(name string, do func(ctx context.Context)) {
	a := &actor{name: name, turn: make(chan struct{})}
	p.actors = append(p.actors, a)
	go func() {
		ctx := context.WithValue(context.Background(), actorKey{}, a)
		p.gate(ctx, "begin")
		do(ctx)
		p.mu.Lock()
		a.ended = true
		p.mu.Unlock()
	}()
}

// run gives turns as choices say, the first that is possible beyond them, until
// all have ended, and gives how many were possible at each turn.
func (p *interleaving) run(t *testing.T, choices []int) (possible []int) {
	for turn := 0; ; turn++ {
		synctest.Wait()
		var can []*actor
		ended := 0
		p.mu.Lock()
		for _, a := range p.actors {
			if a.at != "" {
				can = append(can, a)
			}
			if a.ended {
				ended++
			}
		}
		p.mu.Unlock()
		if ended == len(p.actors) {
			return possible
		}
		if len(can) == 0 {
			t.Fatalf("nobody can go on: %q", p.log)
		}
		choice := 0
		if turn < len(choices) {
			choice = choices[turn]
		}
		possible = append(possible, len(can))
		a := can[choice]
		p.log = append(p.log, a.name+": "+a.at)
		p.mu.Lock()
		a.at = ""
		p.mu.Unlock()
		a.turn <- struct{}{}
	}
}

// everyInterleaving plays all of them.
func everyInterleaving(t *testing.T, play func(t *testing.T, choices []int) (possible []int)) int {
	var choices []int
	for count := 1; ; count++ {
		var possible []int
		synctest.Test(t, func(t *testing.T) { possible = play(t, choices) })
		for len(choices) < len(possible) {
			choices = append(choices, 0)
		}
		for len(choices) > 0 && choices[len(choices)-1]+1 >= possible[len(choices)-1] {
			choices = choices[:len(choices)-1]
		}
		if len(choices) == 0 {
			return count
		}
		choices[len(choices)-1]++
	}
}

func TestNoInterleavingLetsACallStartAfterItsRevocation(t *testing.T) {
	tests := map[string]struct {
		warm   bool // what the ledger says is known when it begins
		checks int
		other  bool // the revocation comes with another change at the same time
	}{
		"nothing known":          {false, 2, false},
		"known":                  {true, 2, false},
		"with another change":    {true, 1, true},
		"another, nothing known": {false, 1, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			n := everyInterleaving(t, func(t *testing.T, choices []int) []int {
				p := &interleaving{}
				l := &gated{of: map[uuid.UUID]store.Standing{}, gate: p.gate}
				a := standing.New(standing.Options{Grants: l})
				defer a.Close()
				g := line(2)
				if tt.warm {
					_ = a.Check(context.Background(), g)
				}
				var acknowledged, calls sync.Map
				p.start("revoke", func(ctx context.Context) {
					_ = a.SetStanding(ctx, store.StandingChange{Grant: g.Nodes()[0].ID, To: store.Revoked})
					acknowledged.Store("done", true)
				})
				if tt.other {
					p.start("pause", func(ctx context.Context) {
						_ = a.SetStanding(ctx, store.StandingChange{Grant: uuid.UUID{7}, To: store.Paused})
					})
				}
				for i := range tt.checks {
					p.start(fmt.Sprint("call ", i), func(ctx context.Context) {
						_, late := acknowledged.Load("done")
						if err := a.Check(ctx, g); err == nil && late {
							t.Errorf("a call started after the revocation: %q", p.log)
						} else if err != nil {
							return
						}
						under, stop := a.Watch(ctx, g)
						calls.Store(under, true)
						defer stop()
						p.gate(ctx, "run")
						_, late = acknowledged.Load("done")
						if late && under.Err() == nil {
							t.Errorf("a call goes on after the revocation: %q", p.log)
						}
					})
				}
				return p.run(t, choices)
			})
			t.Logf("%d interleavings", n)
		})
	}
}
