package agents

import (
	"context"
	"encoding/json"
	"sync"
	"weak"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// contexts are the labels of running sessions. A session and its sub-agents share one context,
// as they tell each other what they read.
type contexts struct {
	mu     sync.Mutex
	byRoot map[uuid.UUID]weak.Pointer[runner.Context]
}

// of returns the context of the sessions below a root.
func (c *contexts) of(root uuid.UUID) (of *runner.Context, made bool) {
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

// Labels implements agent.RunStarter. The context has all labels that the record has for the session.
func (h *host) Labels(ctx context.Context, session uuid.UUID) (*runner.Context, error) {
	_, st, err := h.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	w := labelWalk{st: st, seen: map[uuid.UUID]bool{}}
	root, err := w.root(ctx, session)
	if err != nil {
		return nil, err
	}
	if err := w.tree(ctx, root); err != nil {
		return nil, err
	}
	out, made := h.contexts.of(root)
	out.Add(w.labels)
	if made {
		err = w.remember(ctx, root, out)
	}
	return out, err
}

// labelWalk collects the labels of sessions.
type labelWalk struct {
	st     store.Backend
	seen   map[uuid.UUID]bool
	labels []string
	runs   []ledger.Run
}

// root is the first session above a session.
func (w *labelWalk) root(ctx context.Context, id uuid.UUID) (uuid.UUID, error) {
	for range maxLabelDepth {
		r, err := w.st.Session(ctx, id.String())
		if err != nil || r.Parent == uuid.Nil {
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

// tree adds the labels of a session, of those that it spawned, and of those that they are
// forks of.
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
	var doc struct {
		ForkOf uuid.UUID `json:"fork_of"`
		Labels []string  `json:"labels"`
	}
	if err := json.Unmarshal(r.Doc, &doc); err != nil {
		return fault.Wrap(fault.StoreCorrupt, err, "the session %s cannot be read", id)
	}
	w.labels = append(w.labels, doc.Labels...)
	if doc.ForkOf != uuid.Nil {
		from, err := w.root(ctx, doc.ForkOf)
		if err == nil {
			err = w.tree(ctx, from)
		}
		if err != nil {
			return err
		}
	}
	for before := uuid.Nil; ; {
		list, err := w.st.Sessions(ctx, store.SessionFilter{Parent: id, PageFilter: store.PageFilter{Before: before, Limit: labelPage}})
		if err != nil {
			return err
		}
		for _, child := range list {
			if err := w.tree(ctx, child.ID); err != nil {
				return err
			}
			before = child.ID
		}
		if len(list) < labelPage {
			return nil
		}
	}
}

// session adds the labels of a session's own runs. A run begins with the labels of those
// before it, unless its policies had no labels.
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
