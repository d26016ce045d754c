package policyreview

import (
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// World is what questions about the whole authority are about: the person, and each
// principal that the roles of the policies name, under the chain that a run of theirs has.
// file is the policy, or "" for the workspace's.
func (s *Reviewer) World(file, workspace string) (*reach.World, error) {
	ps, _, err := s.Policies.Chain(file, workspace)
	if err != nil {
		return nil, err
	}
	return s.worldOf(ps, workspace)
}

// Worlds is the worlds of two policies alone, to compare them.
func (s *Reviewer) Worlds(old, new, workspace string) (was, is *reach.World, err error) {
	var out [2]*reach.World
	for i, file := range []string{old, new} {
		p, err := policies.Read(file)
		if err != nil {
			return nil, nil, err
		}
		if out[i], err = s.worldOf([]*policy.Policy{p}, workspace); err != nil {
			return nil, nil, err
		}
	}
	return out[0], out[1], nil
}

func (s *Reviewer) worldOf(ps []*policy.Policy, workspace string) (*reach.World, error) {
	w := &reach.World{Env: s.Home.Env(workspace)}
	for _, t := range s.BuiltIn() {
		w.Tools = append(w.Tools, t.Spec())
	}
	names := holders(ps)
	if _, err := grant.Root(uuid.Nil, names[0], w.Env, ps...); err != nil {
		return nil, err
	}
	binder := grant.NewBinder(w.Env)
	for _, name := range names {
		h := reach.Holder{Name: name}
		for _, p := range ps {
			links, err := binder.Links(p, name)
			if err != nil {
				return nil, err
			}
			h.Chain = append(h.Chain, links...)
		}
		w.Holders = append(w.Holders, h)
	}
	return w, nil
}

// holders are the principals that the policies tell apart: the person, each that a role
// names, and of those that a role names together, and of all others, the one that the
// fewest roles meet. Roles only narrow, so that no other principal can do more.
func holders(ps []*policy.Policy) []string {
	names := []string{home.Person()}
	patterns := []string{"agent:*", "user:*"}
	for _, p := range ps {
		patterns = append(patterns, p.RoleNames()...)
	}
	for _, pattern := range patterns {
		best, least := "", -1
		for _, fill := range []string{"other", "someone", "x7", "q-9"} {
			name := strings.NewReplacer("**", fill, "*", fill).Replace(pattern)
			met := 0
			for _, p := range ps {
				met += len(p.Roles(name))
			}
			if least < 0 || met < least {
				best, least = name, met
			}
		}
		if !slices.Contains(names, best) {
			names = append(names, best)
		}
	}
	return names
}
