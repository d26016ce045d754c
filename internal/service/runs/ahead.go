package runs

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
)

// Asked are the questions that an agent puts to its user before a script runs.
type Asked struct {
	Questions []uuid.UUID // the questions to approve if the user agrees, see ShellRequest
	Reasons   []string    // the reasons, for the user; empty: there is nothing to ask
}

// AskAhead files the questions about a script before [Runs.Shell] runs it in a session: about the
// script itself; about the hosts of network.ask, if a package manager in the script reads from a
// registry; and about files and connections that were refused to the same script before. It leaves
// out questions that need another approver than the agent's user.
func (s *Runs) AskAhead(ctx context.Context, q ClientRequest, args tool.Args) (out Asked, err error) {
	in := runner.Info{Name: shellRun, Total: 1}
	b, _, err := s.prepare(ctx, Request{Policy: q.Policy, Workspace: q.Workspace}, &in)
	if err != nil {
		return out, nil //nolint:nilerr // as below
	}
	chain := in.Grant.Chain()
	terms := chain.Terms()
	b.Runner.Catalog = s.Tools.Still()
	script, err := b.Runner.Ahead(ctx, in, runner.Call{Tool: shellTool, Args: args})
	if err != nil {
		return out, nil //nolint:nilerr // the shell refuses it, and says why
	}
	var list []runner.Question
	if script.Decision.Effect == policy.Ask && terms.NeedsOthers(script.Decision.Admin, false) == "" {
		list = append(list, script)
	}
	if chain.AsksWithin() {
		if terms.Session && terms.NeedsOthers(false, false) == "" && slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return command.Fetches(&a) }) {
			for _, t := range chain.AskedHosts() {
				list = append(list, connectionOf(script, chain, t))
			}
		}
		if out, err = s.refusedBefore(ctx, b.store, q, in, script.Args); err != nil {
			return out, err
		}
	}
	if len(list) == 0 {
		return out, nil
	}
	c, _, err := s.Client(ctx, q, true)
	if err != nil {
		return out, err
	}
	desk := s.Approvals.Desk(false, nil, nil)
	desk.Within = func(context.Context) *runner.Run { return c.Run }
	for _, one := range list {
		if err := out.file(ctx, desk, one); err != nil {
			return out, err
		}
	}
	return out, nil
}

// file files a question, unless the session's approvals answer it or it is among the others.
func (a *Asked) file(ctx context.Context, desk *approvals.Desk, q runner.Question) error {
	filed, ok, err := desk.File(ctx, q)
	if err == nil && ok && filed.State == store.Waiting && !slices.Contains(a.Questions, filed.ID) {
		a.Questions = append(a.Questions, filed.ID)
		a.Reasons = append(a.Reasons, reasonOf(q)+wayToAnswer(filed.ID, q.Within))
	}
	return err
}

// wayToAnswer returns the command that approves a question outside of the agent, as a hint for users
// whose agent has no terminal.
func wayToAnswer(id uuid.UUID, session bool) string {
	if session {
		return " (or: remit approvals approve --session " + id.String() + ")"
	}
	return " (or: remit approvals approve " + id.String() + ")"
}

// reasonOf gives the subject of a question, for the user of an agent.
func reasonOf(q runner.Question) string {
	if q.Within {
		if t, reads := q.Actions[0].Target.Reading(); reads {
			t.Method = ""
			return "its commands may read from " + t.String() + " in this session"
		}
		return "its commands may connect to " + q.Actions[0].Target.String() + " in this session"
	}
	var out []string
	for _, r := range q.Decision.Refusals {
		if !slices.Contains(out, r.Reason) {
			out = append(out, r.Reason)
		}
	}
	if more := len(out) - maxReasons; more > 0 {
		out = append(out[:maxReasons], fmt.Sprintf("%d more reasons", more))
	}
	return strings.Join(out, "; ")
}

// maxReasons bounds the reasons of one question that an agent's user reads.
const maxReasons = 8

// connectionOf is the question of a running script about a connection.
func connectionOf(script runner.Question, chain policy.Chain, t tool.Target) runner.Question {
	a := tool.Action{Kind: tool.Network, Target: t}
	q := script
	q.Within, q.Actions, q.Decision = true, []tool.Action{a}, chain.DecideAction(a)
	return q
}

// refusedBefore returns the open questions about files and connections that were refused to the same script.
func (s *Runs) refusedBefore(ctx context.Context, st store.Store, q ClientRequest, in runner.Info, args []byte) (out Asked, err error) {
	begun, err := s.current(ctx, st, q, in)
	if errors.Is(err, fault.RunUnknown) {
		return out, nil
	}
	if err != nil {
		return out, err
	}
	_, backend, err := s.Grants.Open(ctx)
	if err != nil {
		return out, err
	}
	same, err := json.Marshal(json.RawMessage(s.Home.Redactor().Known().JSON(args))) // as approval.Body has them
	if err != nil {
		return out, fault.Wrap(fault.Internal, err, "the arguments cannot be encoded")
	}
	list, err := backend.Questions(ctx, store.QuestionFilter{State: store.Waiting, Run: begun.Seq, Sealed: true})
	for _, filed := range list {
		if filed.StateAt(backend.Now()) != store.Waiting || !Alone(filed) {
			continue
		}
		body, err := approvals.BodyOf(filed)
		if err != nil {
			return out, err
		}
		if !bytes.Equal(body.Args, same) || !body.Within {
			continue
		}
		connects, about := body.Pattern != nil && body.Pattern.Within, body.Touches
		if connects {
			about = body.Pattern.Lines()
		}
		out.Questions = append(out.Questions, filed.ID)
		out.Reasons = append(out.Reasons, strings.Join(about, "; ")+wayToAnswer(filed.ID, connects))
	}
	return out, err
}

// ShowsKeys reports whether the policies of a client's session show its model the known formats of keys in the output of calls:
// in that of each of them, or always. A call that is not allowed shows none.
func (s *Runs) ShowsKeys(ctx context.Context, q ClientRequest, calls []runner.Call) (bool, error) {
	in := runner.Info{Name: recordedName(q), Client: q.Client, ClientAsks: q.Asks}
	b, _, err := s.prepare(ctx, Request{Policy: q.Policy, Root: q.Root, Workspace: q.Workspace}, &in)
	if err != nil {
		return false, err
	}
	b.Runner.Catalog = s.Tools.Still()
	chain := in.Grant.Chain()
	shows := len(calls) > 0
	for _, call := range calls {
		if call.Args, err = Plain(call.Args); err != nil {
			return false, err
		}
		ahead, err := b.Runner.Ahead(ctx, in, call)
		shows = shows && err == nil && chain.ShowsKeys(ahead.Actions)
	}
	return shows || chain.ShowsKeys(nil), nil
}

// Alone reports whether an agent's user can answer a question without other people.
func Alone(q store.Approval) bool {
	return q.Needs == policy.DefaultApprovers && !q.Admin && len(q.Roles) == 0
}

// current returns the running run of a client's session; fault.RunUnknown if there is none.
func (s *Runs) current(ctx context.Context, st store.Store, q ClientRequest, in runner.Info) (begun ledger.Run, err error) {
	for n := range maxSessions {
		if begun, err = st.Run(ctx, clientRun(q, in, n).String()); err != nil || begun.Status == ledger.Running {
			return begun, err
		}
	}
	return begun, fault.New(fault.RunUnknown, "the session has ended too often")
}
