//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// surveys remembers the last surveys, so that the next command under the same
// policies lists only those folders again that have changed. Nothing is watched: a
// change is seen in the folder's change time, see [stamp]. A large survey is also kept
// for other processes, see [keepFrom].
type surveys struct {
	settle   time.Duration
	keepFrom int

	mu   sync.Mutex
	last []*surveyed
}

// maxSurveys bounds how many are remembered.
const maxSurveys = 8

// surveyed is what is known under one chain of policies. Commands look one after
// the other, and so list a folder only once.
type surveyed struct {
	mu     sync.Mutex
	chain  policy.Chain // the chain itself, not its like
	system []sandbox.Mount
	names  *sandbox.Names
	findings
}

// findings are what was there when a command was prepared.
type findings struct {
	trees, own []*folder
	listed     int // folders that were listed for it; the others had not changed
}

// at gives what was found of a folder; nil: nothing.
func (f findings) at(p string) *folder {
	for _, root := range slices.Concat(f.trees, f.own) {
		if !sandbox.Within(p, root.name) {
			continue
		}
		at := root
		for name := range strings.SplitSeq(strings.Trim(strings.TrimPrefix(p, root.name), "/"), "/") {
			if name != "" {
				at = at.child(name)
			}
		}
		return at
	}
	return nil
}

// of gives what is known under a chain.
func (s *surveys) of(chain policy.Chain, system []sandbox.Mount) *surveyed {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.last, func(one *surveyed) bool { return slices.Equal(one.chain, chain) && slices.Equal(one.system, system) })
	if i >= 0 {
		one := s.last[i]
		s.last = append(slices.Delete(s.last, i, i+1), one)
		return one
	}
	one := &surveyed{chain: chain, system: system, names: sandbox.NewNames(chain)}
	if len(s.last) == maxSurveys {
		s.last = slices.Delete(s.last, 0, 1)
	}
	s.last = append(s.last, one)
	return one
}

// survey looks at the files that a command's policies speak of.
func (b *Box) survey(ctx context.Context, in *sandbox.Inputs, l *layers) (findings, error) {
	system := unwritable(in.Image, in.Chain, in.System)
	var known *surveyed
	remembered := l == nil && in.Isolation == policy.FullIsolation
	if !remembered {
		known = &surveyed{names: sandbox.NewNames(in.Chain)}
		known.names.Together = in.Isolation != policy.FullIsolation
	} else {
		known = b.surveys.of(in.Chain, system)
	}
	known.mu.Lock()
	defer known.mu.Unlock()
	if remembered && known.trees == nil {
		known.trees = b.readKept(in, system)
	}
	s := survey{names: known.names, layers: l, since: time.Now().Add(-b.surveys.settle), system: map[string]bool{}, count: sandbox.Count{Most: sandbox.MaxSurvey}, keep: []string{in.Held, in.State, in.Chain.Own()}}
	for _, m := range system {
		s.system[m.Path] = true
		s.keep = append(s.keep, m.Path)
	}
	s.keep = slices.DeleteFunc(s.keep, func(p string) bool { return p == "" })
	var err error
	if known.trees, err = s.look(ctx, roots(in.Chain, in.Dir), known.trees); err != nil {
		return findings{}, err
	}
	if in.Chain.Own() != "" {
		s.system, s.keep = nil, nil
		if known.own, err = s.look(ctx, []string{in.Chain.Own()}, known.own); err != nil {
			return findings{}, err
		}
	}
	if known.listed = s.listed; remembered && s.listed >= b.surveys.keepFrom {
		b.writeKept(in, system, known.trees)
	}
	return known.findings, nil
}

// nodes fills in what was found, with where links lead that the policies close in
// part.
func (f findings) nodes(in *sandbox.Inputs, l *layers) {
	for _, t := range f.trees {
		in.Trees = append(in.Trees, t.node(t.name))
	}
	for _, t := range f.own {
		if t.name == in.Chain.Own() && t.kind == sandbox.FolderNode {
			in.Own = t.node(t.name)
			resolveLinks(in.Chain, in.Own.Children, l)
		}
	}
	resolveLinks(in.Chain, in.Trees, l)
}

// resolveLinks finds where each link leads whose name the policies close in part.
func resolveLinks(chain policy.Chain, nodes []*sandbox.Node, l *layers) {
	for _, n := range nodes {
		if n.Kind == sandbox.LinkNode && slices.ContainsFunc([]tool.ActionKind{tool.FileRead, tool.FileWrite}, func(kind tool.ActionKind) bool {
			return chain.DecideAction(tool.Action{Kind: kind, Path: n.Path, Real: n.Path}).Effect != policy.Allow
		}) {
			n.Target = l.target(n.Path)
		}
		resolveLinks(chain, n.Children, l)
	}
}

// roots are where the policy could allow anything. The machine's /tmp is shown by
// a root in it only, so where the policy speaks of all files, the part that the
// working folder is in is one.
func roots(chain policy.Chain, dir string) []string {
	out := append(sandbox.RootsOf(chain, tool.FileRead), sandbox.RootsOf(chain, tool.FileWrite)...)
	if in, ok := strings.CutPrefix(dir, "/tmp/"); ok && slices.Contains(out, "/") {
		first, _, _ := strings.Cut(in, "/")
		out = append(out, "/tmp/"+first)
	}
	return out
}
