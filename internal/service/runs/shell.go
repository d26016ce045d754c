package runs

import (
	"context"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// ShellRequest asks for one script of an agent to be run, as its shell.
type ShellRequest struct {
	Script    string
	Dir       string // absolute: where the script starts
	Policy    string // a policy file; "": the workspace's, if trusted
	Workspace string // absolute
	Session   string // the agent's ID of its session; "": not known
	Stdio     *sandbox.Stdio
	// ShowKeys is called before the command starts if the policies show known formats of keys in what it writes.
	ShowKeys func()
	// Written waits for what the script wrote to Stdio, and returns the beginning of it for
	// the record.
	Written func() (stdout, stderr sandbox.Stream)
}

// Shell runs a script as a run with one call of shell.run, with the caller's own streams.
// Unlike Exec it holds no person's authority: the policy must allow every command.
func (s *Runs) Shell(ctx context.Context, q ShellRequest) (ExecResult, error) {
	s.Box.Warm()
	var res ExecResult
	box := &streamBox{Box: s.Box, q: q}
	c, err := catalog.New(shelltool.New(box, func(o sandbox.Outcome) { res.Command = o }))
	if err != nil {
		return res, err
	}
	b, ctx, begun, err := s.Start(ctx, Request{Policy: q.Policy, Workspace: q.Workspace}, runner.Info{Name: "sh", Total: 1})
	if err != nil {
		return res, err
	}
	if s.Renew != nil && q.Session != "" {
		s.Renew(q.Session, b.Run.Grant.Chain())
	}
	b.Runner.Catalog, box.most = c, sandbox.WithDefaults(b.Run.Limits()).OutputBytes
	o := b.Runner.Execute(ctx, b.Run, runner.Call{Tool: "shell.run", Args: tool.Args{"script": q.Script, "cwd": q.Dir}})
	res.Err = o.Err
	res.Result, err = b.Finish(ctx, begun, o.Status, o.Fatal)
	return res, err
}

// streamBox runs the one command of a call with given streams.
type streamBox struct {
	Box
	q    ShellRequest
	most int64 // bytes recorded of each stream
}

// Run implements Box.
func (b *streamBox) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	c.Stdio, c.Stdin, c.Session = b.q.Stdio, nil, b.q.Session
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
