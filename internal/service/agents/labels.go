package agents

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"weak"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// contexts are the labels of running sessions. A session and its sub-agents share one context,
// as they tell each other what they read. A quarantined sub-agent begins another one.
type contexts struct {
	mu     sync.Mutex
	byRoot map[uuid.UUID]weak.Pointer[runner.Context]
}

// contextOf returns the context of the sessions below a root.
func (c *contexts) contextOf(root uuid.UUID) (of *runner.Context, made bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byRoot[root].Value(); known != nil {
		return known, false
	}
	for id, p := range c.byRoot {
		if p.Value() == nil {
			delete(c.byRoot, id)
		}
	}
	if c.byRoot == nil {
		c.byRoot = map[uuid.UUID]weak.Pointer[runner.Context]{}
	}
	of = &runner.Context{}
	c.byRoot[root] = weak.Make(of)
	return of, true
}

// knownLabels returns the labels of the running sessions below a root.
func (c *contexts) knownLabels(root uuid.UUID) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.byRoot[root].Value(); known != nil {
		return known.Labels()
	}
	return nil
}

// Labels implements agent.RunStarter. The context has all labels that the record has for the session.
func (h *host) Labels(ctx context.Context, session uuid.UUID, chain policy.Chain) (*runner.Context, error) {
	_, st, err := h.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	flows, err := chain.Flows()
	if err != nil {
		return nil, err
	}
	w := labelWalk{st: st, flows: flows, running: h.contexts.knownLabels, seen: map[uuid.UUID]bool{}}
	root, err := w.root(ctx, session)
	if err != nil {
		return nil, err
	}
	if err := w.tree(ctx, root); err != nil {
		return nil, err
	}
	if err := w.addAbove(ctx, root); err != nil {
		return nil, err
	}
	out, made := h.contexts.contextOf(root)
	out.Add(w.labels)
	if made {
		err = w.remember(ctx, root, out)
	}
	return out, err
}

// labelWalk collects the labels of sessions.
type labelWalk struct {
	st      store.Backend
	flows   *policy.Flows                 // that say which labels an answer loses; nil: none
	running func(root uuid.UUID) []string // the labels of running sessions
	seen    map[uuid.UUID]bool
	labels  []string
	runs    []ledger.Run
}

// labelDoc is what labels need of a session's document.
type labelDoc struct {
	ForkOf uuid.UUID `json:"fork_of"`
	Labels []string  `json:"labels"`
	Child  struct {
		Quarantine bool `json:"quarantine"`
	} `json:"child"`
}

// readLabelDoc reads what labels need of a session. That of an erased session is not known.
func (w *labelWalk) readLabelDoc(r store.SessionRecord) (d labelDoc, err error) {
	if r.Erased() {
		if w.flows == nil { // nothing depends on labels
			return d, nil
		}
		return d, fault.New(fault.SessionUnknown, "the session %s was erased, so the labels of its data are not known", r.ID).
			WithHint("start a new session")
	}
	if err := json.Unmarshal(r.Doc, &d); err != nil {
		return d, fault.Wrap(fault.StoreCorrupt, err, "the session %s cannot be read", r.ID)
	}
	return d, nil
}

// root is the first session above a session that shares its context.
func (w *labelWalk) root(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
	for range maxLabelDepth {
		r, err := w.st.Session(ctx, id.String())
		if err != nil || r.Parent == uuid.Nil {
			return id, err
		}
		if d, err := w.readLabelDoc(r); err != nil || d.Child.Quarantine {
			return id, err
		}
		id = r.Parent
	}
	return id, fault.New(fault.StoreCorrupt, "the session %s has more than %d sessions above it", id, maxLabelDepth)
}

const (
	maxLabelDepth = 1000
	labelPage     = 200
)

// tree adds the labels of a session, of the sessions that it spawned, also deleted ones, and of the
// sessions that they are forks of.
func (w *labelWalk) tree(ctx context.Context, id uuid.UUID) error {
	if w.seen[id] {
		return nil
	}
	w.seen[id] = true
	r, err := w.st.Session(ctx, id.String())
	if err != nil {
		return err
	}
	if err := w.session(ctx, id); err != nil {
		return err
	}
	doc, err := w.readLabelDoc(r)
	if err != nil {
		return err
	}
	w.labels = append(w.labels, doc.Labels...)
	if doc.ForkOf != uuid.Nil {
		from, err := w.root(ctx, doc.ForkOf)
		if err == nil {
			err = w.tree(ctx, from)
		}
		if err == nil {
			err = w.addAbove(ctx, from)
		}
		if err != nil {
			return err
		}
	}
	for before := uuid.Nil; ; {
		list, err := w.st.Sessions(ctx, store.SessionFilter{Parent: id, Deleted: true, PageFilter: store.PageFilter{Before: before, Limit: labelPage}})
		if err != nil {
			return err
		}
		for _, child := range list {
			if err := w.child(ctx, child); err != nil {
				return err
			}
			before = child.ID
		}
		if len(list) < labelPage {
			return nil
		}
	}
}

// child adds the labels of a sub-agent. Of a quarantined one, which has a context of its own, it
// adds those that its answers keep.
func (w *labelWalk) child(ctx context.Context, r store.SessionRecord) error {
	d, err := w.readLabelDoc(r)
	if err != nil {
		return err
	}
	if !d.Child.Quarantine {
		return w.tree(ctx, r.ID)
	}
	if w.seen[r.ID] {
		return nil
	}
	own := labelWalk{st: w.st, flows: w.flows, running: w.running, seen: w.seen}
	if err := own.tree(ctx, r.ID); err != nil {
		return err
	}
	for _, l := range append(own.labels, w.running(r.ID)...) {
		if w.flows == nil || !w.flows.Lowers(l) {
			w.labels = append(w.labels, l)
		}
	}
	return nil
}

// addAbove adds the labels of the context in which a quarantined sub-agent was spawned: its task and
// later messages to it may have the data.
func (w *labelWalk) addAbove(ctx context.Context, root uuid.UUID) error {
	r, err := w.st.Session(ctx, root.String())
	if err != nil || r.Parent == uuid.Nil {
		return err
	}
	from, err := w.root(ctx, r.Parent)
	if err != nil {
		return err
	}
	higher := labelWalk{st: w.st, flows: w.flows, running: w.running, seen: map[uuid.UUID]bool{}}
	if err := higher.tree(ctx, from); err != nil {
		return err
	}
	if err := higher.addAbove(ctx, from); err != nil {
		return err
	}
	w.labels = slices.Concat(w.labels, higher.labels, w.running(from))
	return nil
}

// session adds the labels of a session's own runs. A run begins with the labels of earlier ones,
// unless its policies had no labels.
func (w *labelWalk) session(ctx context.Context, id uuid.UUID) error {
	list, err := w.st.SessionRuns(ctx, id)
	if err != nil {
		return err
	}
	w.runs = append(w.runs, list...)
	for i, r := range list {
		if i+1 < len(list) && len(list[i+1].Labels) > 0 {
			continue
		}
		labels, err := store.RunLabels(ctx, w.st, r)
		if err != nil {
			return err
		}
		w.labels = append(w.labels, labels...)
	}
	return nil
}
