package catalog

import (
	"context"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// Still is the catalog for callers that must not start anything, such as readers of past calls: a
// tool of a source that would have to be started is its accepted version, made from its record.
// Nothing is pinned or noted.
func (c *Catalog) Still() runner.Catalog { return still{c} }

type still struct{ c *Catalog }

func (s still) Lookup(id tool.ID) (runner.Entry, error) {
	l, err := s.find(id)
	if err != nil {
		return runner.Entry{}, err
	}
	e := l.described()
	records, err := s.c.memory.Load(l.source)
	if e.Disabled = l.disabledReason(records[id]); err != nil {
		e.Disabled = unreadable(err)
	}
	return e, nil
}

func (s still) find(id tool.ID) (*listed, error) {
	f := s.c.feedOf(id)
	if f == nil {
		return s.c.find(context.Background(), id)
	}
	r, ok := f.src.(Recalling)
	if !ok {
		return s.c.find(context.Background(), id)
	}
	records, err := s.c.memory.Load(f.name)
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "%s", unreadable(err))
	}
	v := records[id].Accepted
	if v == nil {
		return nil, fault.New(fault.ToolUnknown, "the tool %q is not remembered", string(id)).ForOperator("remit tool %s asks its source", id)
	}
	return s.c.recall(f.name, r, id, v)
}

// recalled returns the tools of a source as recorded: their accepted versions and, where the list
// is only looked at, tools that were never used, as they were seen.
func (c *Catalog) recalled(f *feed, use bool) []*listed {
	r, ok := f.src.(Recalling)
	records, err := c.memory.Load(f.name)
	if !ok || f.bad != nil || err != nil {
		return nil
	}
	var out []*listed
	for id, record := range records {
		v := record.Accepted
		if v == nil && !use {
			v = record.Seen
		}
		if v == nil {
			continue
		}
		if l, err := c.recall(f.name, r, id, v); err == nil {
			out = append(out, l)
		}
	}
	return out
}

// Remembered gives the tools of all sources as they were last accepted or seen, apart
// from disabled ones. No source is asked.
func (c *Catalog) Remembered() []*tool.Spec {
	var out []*tool.Spec
	for _, f := range c.all() {
		records, err := c.memory.Load(f.name)
		if err != nil {
			continue
		}
		for _, l := range c.recalled(f, false) {
			if l.disabledReason(records[l.entry.Spec.ID]) == "" {
				out = append(out, l.entry.Spec)
			}
		}
	}
	slices.SortFunc(out, func(a, b *tool.Spec) int { return strings.Compare(string(a.ID), string(b.ID)) })
	return out
}

// recall makes a tool of a version that is remembered of it.
func (c *Catalog) recall(source string, r Recalling, id tool.ID, v *Version) (*listed, error) {
	spec := v.spec(id)
	t := r.Recall(spec, v.Hints)
	_, hints, err := ask(t)
	if err != nil {
		return nil, fault.New(fault.ToolUnknown, "the tool %q cannot be remembered: %v", string(id), err)
	}
	l := c.list(source, t, spec, hints)
	if l.entry.Digest, err = v.sum(); err != nil { // as it was: a schema's spaces may be gone
		return nil, fault.New(fault.StoreFailed, "the remembered digest of %q cannot be read: %v", string(id), err)
	}
	l.digest = v.Digest
	return l, nil
}

// spec is the specification that a version was made of.
func (v *Version) spec(id tool.ID) *tool.Spec {
	risk, _ := tool.ParseRisk(v.Risk) // an unreadable one is critical
	return &tool.Spec{
		ID: id, Title: v.Title, Description: v.Description, Version: v.Version, Source: v.Source, Risk: risk,
		Effects: tool.EffectSet(v.Effects...), Input: v.Input, Output: v.Output,
	}
}

// sum is the version's digest.
func (v *Version) sum() (d tool.Digest, err error) {
	b, err := hex.DecodeString(strings.TrimPrefix(v.Digest, "sha256:"))
	if err == nil && copy(d[:], b) != len(d) {
		err = hex.ErrLength
	}
	return d, err
}
