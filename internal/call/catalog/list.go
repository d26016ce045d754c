package catalog

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Filter says which tools to list. The zero Filter lists all.
type Filter struct {
	Source  string       // a source's name ("mcp:github") or kind ("mcp", "builtin"); "": any
	MaxRisk *tool.Risk   // not above this; nil: any
	Without tool.Effects // with none of these side effects
	Enabled bool         // only callable ones
	Search  string       // words that the ID, title or description all has, in any case
	// Use: the list is handed to a client or a model, which goes by it. A tool that was never used
	// before is pinned in its present version, as a call would do.
	Use bool
	// Wait bounds how long sources that have to be started or reached are waited for; 0: as long as
	// one discovery may take. The tools of sources that did not answer are listed as they are
	// remembered; with Use, only the tools that were used before.
	Wait time.Duration
}

// Tool is a tool as it is listed.
type Tool struct {
	Spec     *tool.Spec // as it is used: cleaned, with the risk and the side effects that hold
	Digest   tool.Digest
	Source   string // its source's name, or BuiltIn
	Disabled string // why it is disabled; "" if it can be called
	Changed  bool   // it is not the one that was accepted
	Verdict  infer.Verdict
	Findings []inspect.Finding
	First    time.Time // when it was seen first; zero of built-in tools, and if not recorded
	Last     time.Time // when it was seen last, to the hour
	Accepted time.Time // when it was accepted; zero if it was never used
	Recalled bool      // its source did not answer: the tool is as it is remembered
}

// Failing is a source that fails.
type Failing struct {
	Source string
	Err    error
	Since  time.Time // zero: it can never work as it is configured
	Last   []string  // the IDs of its tools when they were seen last
	Late   bool      // it did not fail, but has not answered within the filter's Wait
}

// Listing is the result of List.
type Listing struct {
	Tools   []Tool
	Failing []Failing
	Refused []Refused
	More    int // refusals beyond those
}

// List asks all sources that the filter leaves, at once, and lists their tools by
// ID. A source that fails is told of, with the tools that it had if it ever
// answered, and takes nothing from the others.
func (c *Catalog) List(ctx context.Context, f Filter) Listing {
	feeds := slices.DeleteFunc(c.all(), func(x *feed) bool { return !f.includesSource(x.name) })
	snaps := make([]*snapshot, len(feeds))
	var all sync.WaitGroup
	for i, x := range feeds {
		all.Go(func() {
			ctx, stop := f.bound(ctx, x)
			defer stop()
			s, err := x.glance(ctx)
			if err != nil { // the former records
				s, _, _ = x.state()
			}
			if snaps[i] = s; s != nil {
				each(len(s.sorted), func(i int) { s.sorted[i].inspect() }) // while others are still waited for
			}
		})
	}
	all.Wait()
	var out Listing
	names := c.names()
	if f.includesSource(BuiltIn) {
		tools := make([]*listed, len(c.ids))
		for i, id := range c.ids {
			tools[i] = c.byID[tool.ID(id)]
		}
		c.put(&out, f, names, BuiltIn, tools)
	}
	for i, x := range feeds {
		c.listFeed(ctx, &out, f, names, x, snaps[i])
	}
	slices.SortStableFunc(out.Tools, func(a, b Tool) int { return strings.Compare(string(a.Spec.ID), string(b.Spec.ID)) })
	return out
}

// includesSource reports whether the filter leaves a source.
func (f Filter) includesSource(source string) bool {
	return f.Source == "" || f.Source == source || strings.HasPrefix(source, f.Source+":") ||
		f.Source == "extension" && strings.HasPrefix(source, "ext:")
}

// bound returns the context in which a source is asked for a list.
func (f Filter) bound(ctx context.Context, x *feed) (context.Context, context.CancelFunc) {
	if _, slow := x.src.(Recalling); slow && f.Wait > 0 {
		return context.WithTimeout(ctx, f.Wait)
	}
	return ctx, func() {}
}

func (c *Catalog) listFeed(ctx context.Context, out *Listing, f Filter, names *names, x *feed, s *snapshot) {
	_, since, err := x.state()
	late := err == nil && s == nil // it was not waited for
	if late {
		if err = ctx.Err(); err == nil {
			err = fault.New(fault.ToolTimeout, "it has not answered within %s", f.Wait)
		}
	}
	if err != nil {
		out.Failing = append(out.Failing, Failing{x.name, err, since, x.knownIDs(), late})
		if f.Use && !late {
			x.pursue()
		}
	}
	if s == nil {
		if f.Wait > 0 {
			first := len(out.Tools)
			c.put(out, f, names, x.name, c.recalled(x, f.Use))
			for i := range out.Tools[first:] {
				out.Tools[first+i].Recalled = true
			}
		}
		return
	}
	out.Refused, out.More = append(out.Refused, s.refused...), out.More+s.more
	c.put(out, f, names, x.name, s.sorted)
}

// put adds those tools of one source to a list that pass the filter.
func (c *Catalog) put(out *Listing, f Filter, names *names, source string, tools []*listed) {
	fit := slices.DeleteFunc(slices.Clone(tools), func(l *listed) bool { return !f.fits(l) })
	records, why := c.sight(source, fit, f.Use)
	for _, l := range fit {
		r := records[l.entry.Spec.ID]
		off := l.disabledReason(r)
		if off == "" {
			off = why
		}
		if !f.Enabled || off == "" {
			out.Tools = append(out.Tools, l.tool(r, off, names))
		}
	}
}

// fits reports whether a tool passes the filter, whether it is enabled apart.
func (f Filter) fits(l *listed) bool {
	s := l.entry.Spec
	if f.MaxRisk != nil && s.Risk > *f.MaxRisk || s.Effects&f.Without != 0 {
		return false
	}
	if f.Search == "" {
		return true
	}
	text := strings.ToLower(string(s.ID) + "\n" + s.Title + "\n" + s.Description)
	for _, word := range strings.Fields(strings.ToLower(f.Search)) {
		if !strings.Contains(text, word) {
			return false
		}
	}
	return true
}

func (l *listed) tool(r Record, off string, names *names) Tool {
	t := Tool{
		Spec: l.entry.Spec, Digest: l.described().Digest, Source: l.source, Disabled: off, Verdict: l.verdict, First: r.First, Last: r.Last,
		Changed: r.Accepted != nil && r.Accepted.Digest != l.digest,
	}
	if r.Accepted != nil {
		t.Accepted = r.Accepted.At
	}
	if l.source != BuiltIn {
		t.Findings = slices.Concat(l.inspect(), names.references(l))
	}
	return t
}

// Describe returns all that is known of one tool. A person who reads it goes by it:
// it counts as a use.
func (c *Catalog) Describe(ctx context.Context, id tool.ID) (Tool, error) {
	l, err := c.find(ctx, id)
	if err != nil {
		return Tool{}, err
	}
	r, off := c.standing(l, true)
	return l.tool(r, off, c.names()), nil
}
