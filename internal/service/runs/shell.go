package runs

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// ShellRequest asks for one script of an agent to be run, as its shell.
type ShellRequest struct {
	Script    string
	Dir       string // absolute: where the script starts
	Policy    string // a policy file; "": the workspace's, if trusted
	Workspace string // absolute
	Session   string // the agent's ID of its session; "": not known
	Agent     string // its name, as of its hook; "": not known
	// Scratch is a folder of the session outside of the workspace, for which the rules for files in the workspace hold, too;
	// absolute, without links. "": there is none.
	Scratch string
	// Approved are questions of [Runs.AskAhead] that the agent's user has answered with yes.
	Approved []string
	Advice   func(filed store.Approval) string // how an open question can be answered
	Stdio    *sandbox.Stdio
	// ShowKeys is called before the command starts if the policies show known formats of keys in what it writes.
	ShowKeys func()
	// Written waits for what the script wrote to Stdio, and returns the beginning of it for
	// the record.
	Written func() (stdout, stderr sandbox.Stream)
}

// The run of a script, and its only call.
const (
	shellRun  = "sh"
	shellTool = "shell.run"
)

// Shell runs a script as a run with one call of shell.run, with the caller's own streams.
// Unlike Exec it holds no person's authority: the policy must allow every command.
func (s *Runs) Shell(ctx context.Context, q ShellRequest) (ExecResult, error) {
	s.Box.Warm()
	var res ExecResult
	box := &streamBox{Box: s.Box, q: q}
	if s.Renew != nil && q.Session != "" {
		s.Renew(q.Session)
		box.session = sandbox.Session{ID: q.Session, Policies: s.policiesOf(q)}
	}
	c, err := catalog.New(scratchTool{shelltool.New(box, func(o sandbox.Outcome) { res.Command = o }), q.Scratch})
	if err != nil {
		return res, err
	}
	var asked openQuestions
	desk, err := s.shellDesk(ctx, q, &asked)
	if err != nil {
		return res, err
	}
	b, ctx, begun, err := s.Start(ctx, Request{Policy: q.Policy, Workspace: q.Workspace, Asker: desk}, runner.Info{Name: shellRun, Total: 1})
	if err != nil {
		return res, err
	}
	b.Runner.Catalog, box.most = c, sandbox.WithDefaults(b.Run.Limits()).OutputBytes
	o := b.Runner.Execute(ctx, b.Run, runner.Call{Tool: shellTool, Args: tool.Args{"script": q.Script, "cwd": q.Dir}})
	res.Err = o.Err
	res.Result, err = b.Finish(ctx, begun, o.Status, o.Fatal)
	if res.Command.Duration > 0 {
		res.Open = asked.all()
	}
	return res, err
}

// scratchTool is the tool for scripts with a folder of its own.
type scratchTool struct {
	permit.Tool
	dir string
}

// Own implements runner.Owning.
func (t scratchTool) Own() string { return t.dir }

// openQuestions collects questions without an answer. It is safe for concurrent use.
type openQuestions struct {
	mu   sync.Mutex
	list []store.Approval // each once
}

func (o *openQuestions) add(q store.Approval) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !slices.ContainsFunc(o.list, func(old store.Approval) bool { return old.ID == q.ID }) {
		o.list = append(o.list, q)
	}
}

func (o *openQuestions) all() []store.Approval {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.list)
}

// sessionRun is the run of an agent's session. It is nil if there can be none.
func (s *Runs) sessionRun(ctx context.Context, q ClientRequest) *runner.Run {
	c, _, err := s.Client(ctx, q, true)
	if err != nil {
		return nil // the questions then belong to the script's own run
	}
	return c.Run
}

// shellDesk puts the questions of a script, except the ones that the agent's user has answered.
func (s *Runs) shellDesk(ctx context.Context, q ShellRequest, open *openQuestions) (*approvals.Desk, error) {
	if q.Agent == "" || q.Session == "" {
		return s.Approvals.Desk(false, nil, q.Advice), nil
	}
	yes := store.Vote{By: home.Person(), Where: q.Agent, Yes: true}
	desk := s.Approvals.Desk(false, func(_ context.Context, c approval.Case) (store.Vote, error) {
		if !Alone(c.Question) || !slices.Contains(q.Approved, c.Question.ID.String()) {
			return store.Vote{}, approval.ErrNotHere
		}
		return yes, nil
	}, func(filed store.Approval) string {
		open.add(filed)
		return q.Advice(filed)
	})
	of := ClientRequest{Client: q.Agent, Session: q.Session, Policy: q.Policy, Workspace: q.Workspace}
	desk.Within = func(ctx context.Context) *runner.Run { return s.sessionRun(ctx, of) }
	return desk, s.approveHosts(ctx, of, q.Approved)
}

// approveHosts records the yes of an agent's user to questions about connections, for the session.
func (s *Runs) approveHosts(ctx context.Context, q ClientRequest, questions []string) error {
	if len(questions) == 0 {
		return nil
	}
	run := s.sessionRun(ctx, q)
	for _, id := range questions {
		filed, body, err := s.Approvals.Find(ctx, id)
		if err != nil {
			return err
		}
		if filed.State != store.Waiting || !Alone(filed) || body.Pattern == nil || !body.Pattern.Within {
			continue
		}
		if run == nil || filed.Run != run.Seq {
			return fault.New(fault.Usage, "the question %s is not of this session", filed.ID)
		}
		yes := approvals.Answer{By: home.Person(), Where: q.Client, Yes: true, Session: true}
		if _, err := s.Approvals.Answer(ctx, id, yes); err != nil && !errors.Is(err, fault.ApprovalGone) {
			return err
		}
	}
	return nil
}

// policiesOf chooses the policies of a script again, as they are then. It outlives the App.
func (s *Runs) policiesOf(q ShellRequest) func() (policy.Chain, error) {
	p := policies.Policies{Home: &home.Home{Config: s.Home.Config}}
	return func() (policy.Chain, error) {
		list, _, err := p.Chain(q.Policy, q.Workspace)
		if err != nil {
			return nil, err
		}
		g, _, err := p.Grant(list, q.Workspace)
		return g.Chain(), err
	}
}

// streamBox runs the one command of a call with given streams.
type streamBox struct {
	Box
	q       ShellRequest
	session sandbox.Session
	most    int64 // bytes recorded of each stream
}

// Run implements Box.
func (b *streamBox) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	c.Stdio, c.Stdin, c.Session, c.Scratch = b.q.Stdio, nil, b.session, b.q.Scratch
	if b.q.ShowKeys != nil && p.Chain().ShowsKeys(c.Starts) {
		b.q.ShowKeys()
	}
	out, err := b.Box.Run(ctx, p, c)
	if out.Duration > 0 {
		out.Stdout, out.Stderr = b.q.Written()
		for _, s := range []*sandbox.Stream{&out.Stdout, &out.Stderr} {
			s.Data = s.Data[:min(int64(len(s.Data)), b.most)]
			s.Truncated = int64(len(s.Data)) < s.Total
		}
	}
	return out, err
}
