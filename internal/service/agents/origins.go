package agents

import (
	"cmp"
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/authority/provenance"
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

// words are what people said in a session. What a sub-agent is told, a model said.
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

// recollect tells a recording of a session's run what was said and done before its calls.
func recollect(ctx context.Context, st store.Backend, rec *replay.Recording, in agent.RunInputs) error {
	said, err := words(ctx, st, in.Session)
	if err != nil {
		return err
	}
	if said != nil {
		said = append([]replay.Word{{Kind: provenance.Policy, Text: in.Agent.SystemPrompt}}, said...)
	}
	runs, err := st.SessionRuns(ctx, in.Session)
	if err != nil {
		return err
	}
	runs = slices.DeleteFunc(runs, func(r ledger.Run) bool { return r.ReplayOf != uuid.Nil || r.Seq >= rec.Run.Seq })
	rec.Session(said, runs)
	return nil
}
