// Package catalog lists the tools that can be called: the built-in ones and those of all
// sources. It looks tools up by ID, validates arguments, assesses risk, watches for
// changes of accepted tools, and suggests similar IDs for unknown ones. Start at [Open],
// then [Catalog.Lookup] and [Catalog.List].
//
// A source is asked only when one of its tools is looked up or all tools are listed. Its
// descriptions are checked before they are admitted: see admit.go.
package catalog

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/near"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/infer"
)

// Config holds the parts of a catalog. The zero value of a field means its default.
type Config struct {
	BuiltIn []permit.Tool
	Sources []Source
	Memory  Memory             // nil: nothing is remembered beyond this process
	Said    func(tool.ID) Said // the operator's settings for a tool; nil: none
	Timeout time.Duration      // of one discovery; default 35 s, more than a server may take to start
	Fresh   time.Duration      // how long discovered tools are used before the source is asked again; default 60 s
	Now     func() time.Time   // default time.Now
	// Poll is how often it is looked whether a source that fails should be asked again,
	// while a client misses its tools; default 2 s.
	Poll time.Duration
}

// Said is the operator's settings for a tool.
type Said struct {
	infer.Said
	// Trusted: what its source claims of the tool, as that it only reads, is
	// believed.
	Trusted bool
	// Name: the tool may have its name, whatever that looks like.
	Name bool
}

// Catalog is all tools side by side. It is safe for concurrent use.
type Catalog struct {
	cfg    Config
	now    func() time.Time
	memory Memory
	byID   map[tool.ID]*listed // built in
	ids    []string            // of those, sorted
	alike  map[string]string   // the same by the keys of their names

	mu     sync.RWMutex
	feeds  []*feed // in the order in which they were added
	closed bool

	watching map[int]func(source string)
	watchers int // so far

	named sync.Mutex
	known *names // nil: never needed
}

// New lists tools that are all built in. Two of one ID, or one without a usable
// description, is an error of whoever built them.
func New(tools ...permit.Tool) (*Catalog, error) { return Open(Config{BuiltIn: tools}) }

// Open makes a catalog. It asks no source yet. The catalog must be closed if it
// has sources.
func Open(cfg Config) (*Catalog, error) {
	c := &Catalog{cfg: cfg, now: cfg.Now, memory: cfg.Memory, byID: make(map[tool.ID]*listed, len(cfg.BuiltIn)), alike: map[string]string{}}
	if c.now == nil {
		c.now = time.Now
	}
	if c.memory == nil {
		c.memory = &forgetful{}
	}
	if c.cfg.Timeout <= 0 {
		c.cfg.Timeout = 35 * time.Second
	}
	if c.cfg.Fresh <= 0 {
		c.cfg.Fresh = time.Minute
	}
	if c.cfg.Poll <= 0 {
		c.cfg.Poll = 2 * time.Second
	}
	for _, t := range cfg.BuiltIn {
		spec := t.Spec()
		if _, err := tool.ParseID(string(spec.ID)); err != nil {
			return nil, err
		}
		if _, twice := c.byID[spec.ID]; twice {
			return nil, fault.New(fault.Usage, "two tools are called %s", spec.ID).WithHint("give the program's own tool another name")
		}
		l := &listed{source: BuiltIn, said: spec, entry: runner.Entry{Tool: t, Spec: spec}, sum: sync.OnceValue(spec.Digest)}
		l.verdict = infer.Verdict{Risk: spec.Risk, Effects: spec.Effects, Reasons: []infer.Reason{{Risk: spec.Risk, Effects: spec.Effects, Why: "it is built in"}}}
		l.entry.Validate = l.validate
		c.byID[spec.ID] = l
		c.ids = append(c.ids, string(spec.ID))
		for _, key := range inspect.Keys(string(spec.ID)) {
			c.alike[key] = string(spec.ID)
		}
	}
	slices.Sort(c.ids)
	for _, s := range cfg.Sources {
		c.Add(s)
	}
	return c, nil
}

// Add adds a source. It is not asked yet. One whose name cannot be used is
// listed as failing.
func (c *Catalog) Add(s Source) {
	f := newFeed(c, s)
	c.mu.Lock()
	defer c.mu.Unlock()
	if b, ok := s.(broken); ok {
		f.bad = b.err
	} else {
		f.bad = c.unfit(f.name)
	}
	c.feeds = append(c.feeds, f)
	if !c.closed {
		f.listen()
	}
}

// Remove takes a source out and closes it. Removing an unknown source is not an error.
func (c *Catalog) Remove(name string) error {
	c.mu.Lock()
	i := slices.IndexFunc(c.feeds, func(f *feed) bool { return f.name == name })
	if i < 0 {
		c.mu.Unlock()
		return nil
	}
	f := c.feeds[i]
	c.feeds = slices.Concat(c.feeds[:i], c.feeds[i+1:])
	c.mu.Unlock()
	return f.close()
}

// Watch calls f each time when a source's tools turn out to be others than they
// were, until stop is called. The name is its source's. F must be quick.
func (c *Catalog) Watch(f func(source string)) (stop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.watching == nil {
		c.watching = map[int]func(string){}
	}
	n := c.watchers
	c.watchers++
	c.watching[n] = f
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watching, n)
	}
}

func (c *Catalog) announceChange(source string) {
	c.mu.RLock()
	fs := slices.Collect(maps.Values(c.watching))
	c.mu.RUnlock()
	for _, f := range fs {
		f(source)
	}
}

// Close ends all sources. Cached tools can still be looked up while they are fresh.
func (c *Catalog) Close() error {
	c.mu.Lock()
	feeds := c.feeds
	already := c.closed
	c.closed = true
	c.mu.Unlock()
	if already {
		return nil
	}
	errs := make([]error, len(feeds))
	var all sync.WaitGroup
	for i, f := range feeds {
		all.Go(func() { errs[i] = f.close() })
	}
	all.Wait()
	return errors.Join(errs...)
}

// Lookup finds a tool by its exact ID, as the newest that its source tells. It
// counts as a use: a tool of a source that is used for the first time is pinned
// as it is. A tool that is disabled, or is not the one that was accepted any
// more, says so in Entry.Disabled.
func (c *Catalog) Lookup(id tool.ID) (runner.Entry, error) {
	l, err := c.find(context.Background(), id)
	if err != nil {
		return runner.Entry{}, err
	}
	e := l.described()
	_, e.Disabled = c.standing(l, true)
	return e, nil
}

// find finds a tool, asking its source if that is due.
func (c *Catalog) find(ctx context.Context, id tool.ID) (*listed, error) {
	if l, ok := c.byID[id]; ok {
		return l, nil
	}
	f := c.feedOf(id)
	if f == nil {
		return nil, c.unknown(id)
	}
	s, err := f.current(ctx)
	if err != nil {
		return nil, err
	}
	if l, ok := s.tools[id]; ok {
		return l, nil
	}
	for _, r := range s.refused {
		if r.ID == string(id) {
			return nil, fault.New(fault.ToolUnknown, "the tool %q is refused: %s", r.ID, r.Why)
		}
	}
	return nil, c.unknown(id)
}

func (c *Catalog) unknown(id tool.ID) error {
	err := fault.New(fault.ToolUnknown, "no tool is called %q", string(id))
	if s := c.Suggest(string(id)); s != "" {
		return err.WithHint("did you mean %q?", s)
	}
	return err.ForOperator("remit tools lists them")
}

// feedOf is the source that an ID belongs to, or nil.
func (c *Catalog) feedOf(id tool.ID) *feed {
	c.mu.RLock()
	defer c.mu.RUnlock()
	var best *feed
	for _, f := range c.feeds {
		if f.bad == nil && strings.HasPrefix(string(id), f.name) && len(id) > len(f.name) && id[len(f.name)] == ':' &&
			(best == nil || len(f.name) > len(best.name)) {
			best = f
		}
	}
	return best
}

// Known are the IDs of all tools that are known without asking any source: built-in, discovered and
// remembered ones. They are sorted.
func (c *Catalog) Known() []string {
	out := slices.Clone(c.ids)
	for _, f := range c.all() {
		out = append(out, f.knownIDs()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func (c *Catalog) all() []*feed {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Clone(c.feeds)
}

// Suggest returns the ID most similar to id, or "" if none is similar.
func (c *Catalog) Suggest(id string) string { return near.Word(id, c.Known()) }

// Spec finds a tool's description by its exact ID. It does not count as a use of the tool.
func (c *Catalog) Spec(id tool.ID) (*tool.Spec, bool) {
	l, err := c.find(context.Background(), id)
	if err != nil {
		return nil, false
	}
	return l.entry.Spec, true
}

// Specs lists all tools by ID, asking all sources. Failed sources are left out; List reports them.
func (c *Catalog) Specs() []*tool.Spec {
	list := c.List(context.Background(), Filter{})
	out := make([]*tool.Spec, len(list.Tools))
	for i, t := range list.Tools {
		out[i] = t.Spec
	}
	return out
}

// Validate checks arguments for a tool. It does not count as a use of the tool.
func (c *Catalog) Validate(id tool.ID, args tool.Args) error {
	l, err := c.find(context.Background(), id)
	if err != nil {
		return err
	}
	return l.entry.Validate(args)
}
