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

// World is the world for questions about the whole authority: the person, and each principal that
// the roles of the policies name, under the chain of that principal's runs. file is the policy. If
// it is "", it is the workspace's, and the grants that were issued here and can be used are holders
// too. The hint is set if no policy applies.
func (s *Reviewer) World(ctx context.Context, file, workspace string) (*reach.World, policies.Hint, error) {
	ps, hint, err := s.Policies.Chain(file, workspace)
	if err != nil {
		return nil, "", err
	}
	w, err := s.worldOf(ps, workspace)
	if err != nil || file != "" {
		return w, hint, err
	}
	granted, err := s.granted(ctx, w.Env)
	w.Holders = append(w.Holders, granted...)
	return w, hint, err
}

// WorldOf is the world of one policy and the person's own bound.
func (s *Reviewer) WorldOf(p *policy.Policy, workspace string) (*reach.World, error) {
	ps, err := s.Policies.Bounded(p)
	if err != nil {
		return nil, err
	}
	return s.worldOf(ps, workspace)
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
				WithHint("ask about one policy with -p FILE, or revoke unneeded grants with remit grant revoke")
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

// Authority is the result of an analysis of everything that the policies allow together.
type Authority struct {
	Holders  []string        `json:"holders" nullable:"false" doc:"The holders in question"`
	Overview *reach.Overview `json:"overview,omitempty" doc:"Without a question: the answers to the most common ones"`
	Ways     *reach.Ways     `json:"ways,omitempty" doc:"The answer to the question, with all ways"`
}

// Question is a question to answer for a caller. Without From and To it is for an overview.
type Question struct {
	Everybody bool         // of all holders; else of the caller alone
	Holder    string       // the caller
	Chain     policy.Chain // what bounds the caller
	From, To  string
}

// Authority answers a question about what holds in a workspace. It does not name files of
// this machine. It answers one question at a time: each may take all of a core.
func (s *Reviewer) Authority(ctx context.Context, q Question, workspace string) (Authority, error) {
	s.asking.Lock()
	defer s.asking.Unlock()
	w := s.worldIn(workspace)
	w.Holders = []reach.Holder{{Name: q.Holder, Chain: q.Chain}}
	if q.Everybody {
		var err error
		if w, _, err = s.World(ctx, "", workspace); err != nil {
			return Authority{}, err
		}
	}
	out := Authority{Holders: []string{}}
	for _, h := range w.Holders {
		out.Holders = append(out.Holders, h.Name)
	}
	if q.From == "" && q.To == "" {
		o, err := w.Overview()
		out.Overview = &o
		return out, err
	}
	found, err := w.Ways(q.From, q.To)
	for i := range found.Steps {
		found.Steps[i].File = ""
	}
	for i := range found.Cut {
		found.Cut[i].File = ""
	}
	for i := range found.Map.Edges {
		found.Map.Edges[i].Step.File = ""
	}
	out.Ways = &found
	return out, err
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
	w := s.worldIn(workspace)
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

// worldIn is a world without holders.
func (s *Reviewer) worldIn(workspace string) *reach.World {
	w := &reach.World{Env: s.Home.Env(workspace)}
	for _, t := range s.BuiltIn() {
		w.Tools = append(w.Tools, t.Spec())
	}
	return w
}

// holders are the principals that the policies tell apart: the person, each principal that a role
// names, and one for all others and for each pattern of a role: the one with the fewest roles.
// Roles only narrow, so that no other principal can do more.
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
