package agents

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// remember adds the values that the sessions below a root had before to their context.
func (w *labelWalk) remember(ctx context.Context, root uuid.UUID, to *runner.Context) error {
	slices.SortFunc(w.runs, func(a, b ledger.Run) int { return cmp.Compare(a.Seq, b.Seq) })
	traced := false
	for _, r := range w.runs {
		if r.ReplayOf != uuid.Nil {
			continue
		}
		do, err := replay.Remember(ctx, w.st, r, nil)
		if err != nil {
			return err
		}
		if do != nil {
			traced = true
			to.Remember(do)
		}
	}
	if !traced {
		return nil
	}
	said, err := words(ctx, w.st, root)
	for _, one := range said {
		to.Say(one.Kind, one.Text)
	}
	return err
}

// words are the messages of people in a session. A sub-agent's messages came from a model.
func words(ctx context.Context, st store.Backend, session uuid.UUID) ([]replay.Word, error) {
	r, err := st.Session(ctx, session.String())
	if err != nil || r.Parent != uuid.Nil {
		return nil, err
	}
	list, err := agent.SpokenIn(ctx, st, session)
	var out []replay.Word
	for _, m := range list {
		out = append(out, replay.Word{Message: m.Number, Kind: provenance.Person, Text: m.Text})
	}
	return out, err
}

// recollect gives a recording of a session's run the messages and results of its context.
func recollect(ctx context.Context, st store.Backend, rec *replay.Recording, in agent.RunInputs) error {
	said, err := spoken(ctx, st, in)
	if err != nil {
		return err
	}
	w := labelWalk{st: st, running: noneRuns, seen: map[uuid.UUID]bool{}}
	root, err := w.root(ctx, in.Session)
	if err == nil {
		err = w.tree(ctx, root)
	}
	if err != nil {
		return err
	}
	slices.SortFunc(w.runs, func(a, b ledger.Run) int { return cmp.Compare(a.Seq, b.Seq) })
	var others []replay.Other
	for _, r := range w.runs {
		if r.ReplayOf != uuid.Nil || r.Seq == rec.Run.Seq {
			continue
		}
		o := replay.Other{Run: r}
		if r.Session != in.Session {
			if o.Said, err = spokenBeside(ctx, st, r); err != nil {
				return err
			}
		}
		others = append(others, o)
	}
	rec.Session(said, others)
	return nil
}

// noneRuns are the labels of running sessions, of which a replay has none.
func noneRuns(uuid.UUID) []string { return nil }

// spoken are the words of people in a session, and the operator's prompt.
func spoken(ctx context.Context, st store.Backend, in agent.RunInputs) ([]replay.Word, error) {
	said, err := words(ctx, st, in.Session)
	if said != nil {
		said = append([]replay.Word{{Kind: provenance.Policy, Text: in.Agent.SystemPrompt}}, said...)
	}
	return said, err
}

// spokenBeside are the same of the session of another run.
func spokenBeside(ctx context.Context, st store.Backend, r ledger.Run) ([]replay.Word, error) {
	p, ok := r.Parts[ledger.PartInputs]
	if !ok {
		return nil, nil
	}
	b, err := st.Load(ctx, p)
	if err != nil {
		return nil, err
	}
	var in agent.RunInputs
	if err := json.Unmarshal(b, &in); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the inputs of run %s cannot be read", r.ID)
	}
	return spoken(ctx, st, in)
}
