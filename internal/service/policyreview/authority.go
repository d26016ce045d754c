package policyreview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// World is what questions about the whole authority are about: the person, and each
// principal that the roles of the policies name, under the chain that a run of theirs has.
// file is the policy. If it is "", it is the workspace's, and the grants that were issued
// here and can be used are holders too.
func (s *Reviewer) World(ctx context.Context, file, workspace string) (*reach.World, error) {
	ps, _, err := s.Policies.Chain(file, workspace)
	if err != nil {
		return nil, err
	}
	w, err := s.worldOf(ps, workspace)
	if err != nil || file != "" {
		return w, err
	}
	granted, err := s.granted(ctx, w.Env)
	w.Holders = append(w.Holders, granted...)
	return w, err
}

// maxGranted bounds the grants that are asked about.
const maxGranted = 200

// granted are the holders of the grants with policies of their own that can be used. A grant
// that was narrowed or handed on reaches nothing that the first one does not. Of grants with
// the same policies for the same holder it is the newest.
func (s *Reviewer) granted(ctx context.Context, env policy.Env) ([]reach.Holder, error) {
	st, err := s.Reader(ctx)
	if err != nil {
		return nil, err
	}
	outer, err := s.Policies.Outer()
	if err != nil {
		return nil, err
	}
	binder := grant.NewBinder(env)
	var out []reach.Holder
	known := map[string]bool{}
	for f := (store.GrantFilter{Limit: 500}); ; {
		list, err := st.Grants(ctx, f)
		if err != nil {
			return nil, err
		}
		for _, g := range list {
			if key := g.Holder + "\x00" + fmt.Sprint(g.Policies); g.Parent == uuid.Nil && g.Standing == store.Active && (g.Expires.IsZero() || time.Now().Before(g.Expires)) && !known[key] {
				known[key] = true
				h, err := grantedTo(binder, g, outer)
				if err != nil {
					return nil, err
				}
				out = append(out, h)
			}
		}
		if len(out) > maxGranted {
			return nil, fault.New(fault.Usage, "more than %d grants with policies of their own can be used, which are too many to ask about at once", maxGranted).
				WithHint("ask about one policy with -p FILE, or revoke those that nobody needs with remit grant revoke")
		}
		if len(list) < f.Limit {
			return out, nil
		}
		f.Before = list[len(list)-1].Seq
	}
}

// grantedTo is the holder of a grant, named by the holder's name and the grant's ID.
func grantedTo(b *grant.Binder, g store.GrantRecord, outer *policy.Policy) (reach.Holder, error) {
	h := reach.Holder{Name: g.Holder + "#" + g.ID.String()[:13]}
	add := func(p *policy.Policy, holders ...string) error {
		links, err := b.Links(p, holders...)
		h.Chain = append(h.Chain, links...)
		return err
	}
	for _, src := range g.Policies {
		p, err := policy.Parse(src.File, []byte(src.Source))
		if err != nil {
			return h, err
		}
		holders := src.Holders
		if holders == nil {
			holders = []string{g.Holder}
		}
		if err := add(p, holders...); err != nil {
			return h, err
		}
	}
	if outer == nil {
		return h, nil
	}
	return h, add(outer, g.Holder)
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
