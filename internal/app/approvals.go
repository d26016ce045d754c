package app

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// mayApproveAdmin reports whether a person may approve what admins approve: whom
// config.yaml names, or, where it names nobody, the owner of $REMIT_HOME.
func (a *App) mayApproveAdmin(person string) bool {
	if admins := a.Home.Settings.Admins; len(admins) > 0 {
		return slices.Contains(admins, person)
	}
	return person == home.Person() && home.OwnedByUs(a.Home.Dir)
}

// asker puts the questions of a run.
func (a *App) asker(q RunRequest) runner.Asker {
	if q.asker != nil {
		return q.asker
	}
	return &lazyDesk{app: a, q: q}
}

// lazyDesk is the desk over the ledger, which is open once a call is made.
type lazyDesk struct {
	app *App
	q   RunRequest
}

func (l *lazyDesk) Ask(ctx context.Context, q runner.Question) (runner.Answer, error) {
	_, st, err := l.app.Grants.Open(ctx)
	if err != nil {
		return runner.Answer{}, err
	}
	d := &approval.Desk{Store: st, Wait: l.q.Wait, Redact: l.app.Home.Redactor(), Past: l.app.past, Advice: l.q.Advice}
	if here := l.q.Here; here != nil {
		d.Here = func(ctx context.Context, c approval.Case) (store.Vote, error) {
			v, err := here(ctx, c)
			v.Admin = l.app.mayApproveAdmin(v.By)
			return v, err
		}
	}
	return d.Ask(ctx, q)
}

// underOwnGrant makes ask answer as the person whom the run's grant was issued to. A run
// under any other grant belongs to a delegate, who is not asked.
func underOwnGrant(ask gateway.Asker) gateway.Asker {
	return func(ctx context.Context, c approval.Case) (store.Vote, error) {
		var kept []grant.Node
		for _, n := range c.Asked.Run.Grant.Nodes() {
			if n.Kept {
				kept = append(kept, n)
			}
		}
		if len(kept) != 1 || !strings.HasPrefix(kept[0].Holder, "user:") {
			return store.Vote{}, approval.ErrNotHere
		}
		v, err := ask(ctx, c)
		v.By, v.Grant = kept[0].Holder, kept[0].ID
		return v, err
	}
}

// past gives the calls that a run has completed so far.
func (a *App) past(ctx context.Context, run *runner.Run) ([]approval.Past, error) {
	st, err := a.Store(ctx)
	if err != nil {
		return nil, err
	}
	var out []approval.Past
	for c, err := range st.Calls(ctx, run.Seq) {
		if err != nil {
			return nil, err
		}
		if c.Status != tool.Completed {
			continue
		}
		p, err := a.pastCall(ctx, st, run, c)
		if err != nil {
			return nil, err
		}
		if p.Spec != nil {
			out = append(out, p)
		}
	}
	return out, nil
}

func (a *App) pastCall(ctx context.Context, st store.Store, run *runner.Run, c ledger.Call) (approval.Past, error) {
	e, err := a.catalog.Still().Lookup(c.Tool)
	if err != nil {
		return approval.Past{}, nil //nolint:nilerr // a tool that is gone has no pattern
	}
	b, err := st.Load(ctx, c.Parts[ledger.PartArgs])
	if err != nil {
		return approval.Past{}, err
	}
	v, err := canon.Decode(b)
	if err != nil {
		return approval.Past{}, err
	}
	args, _ := v.(map[string]any)
	prepared, err := e.Tool.Prepare(run.Env, args)
	if err != nil {
		return approval.Past{}, nil //nolint:nilerr // nothing can be said of it
	}
	return approval.Past{Index: c.Index, Spec: e.Spec, Digest: c.Digest, Args: args, Actions: prepared.Actions}, nil
}

// Questions lists the questions that were put to people, newest first.
func (a *App) Questions(ctx context.Context, f store.QuestionFilter) ([]store.Question, error) {
	_, st, err := a.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	return st.Questions(ctx, f)
}

// Question finds one by its ID or the beginning of it, and what it says.
func (a *App) Question(ctx context.Context, id string) (store.Question, approval.Body, error) {
	_, st, err := a.Grants.Open(ctx)
	if err != nil {
		return store.Question{}, approval.Body{}, err
	}
	q, err := st.Question(ctx, id)
	if err != nil {
		return q, approval.Body{}, err
	}
	b, err := QuestionBody(q)
	return q, b, err
}

// QuestionBody reads what a question says; an erased one says nothing.
func QuestionBody(q store.Question) (approval.Body, error) {
	var b approval.Body
	if len(q.Body) == 0 {
		return b, nil
	}
	if err := json.Unmarshal(q.Body, &b); err != nil {
		return b, fault.Wrap(fault.StoreCorrupt, err, "the question %s cannot be read", q.ID)
	}
	return b, nil
}

// Answer says yes or no to a question, as the person who uses this process.
// Session makes a yes hold for the question's pattern for the rest of its run.
func (a *App) Answer(ctx context.Context, id string, yes, session bool, reason string) (store.Question, error) {
	q, body, err := a.Question(ctx, id)
	if err != nil {
		return q, err
	}
	v := store.Vote{By: home.Person(), Yes: yes, Where: "remit approvals", Reason: reason, Admin: a.mayApproveAdmin(home.Person()), At: time.Now()}
	if session && yes {
		if body.Pattern == nil {
			return q, fault.New(fault.Usage, "this question has no pattern: a yes can only be for the one call").WithHint("leave out --session")
		}
		if v.Session, err = json.Marshal(body.Pattern); err != nil {
			return q, fault.Wrap(fault.Internal, err, "the pattern cannot be encoded")
		}
	}
	_, st, err := a.Grants.Open(ctx)
	if err != nil {
		return q, err
	}
	return st.Vote(ctx, q.ID, v)
}
