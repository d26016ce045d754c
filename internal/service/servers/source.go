package servers

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/eventlog"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// Sources are the MCP servers that were added. None is started before
// something needs its tools.
func (m *Servers) Sources() []catalog.Source {
	list, err := m.List()
	if err != nil {
		return []catalog.Source{catalog.Broken("mcp:servers", err)}
	}
	out := make([]catalog.Source, 0, len(list))
	for _, s := range list {
		server := m.mcpServer(s)
		m.Offers.add(s.Name, server)
		out = append(out, catalog.From(server))
	}
	return out
}

// mcpServer makes a source of one server.
func (m *Servers) mcpServer(s Server) *mcpsource.Server {
	c := mcpsource.Config{
		Name: s.Name, Source: "mcp", Version: m.Home.Version, Logs: m.mcpLog(s.Name), Cannot: m.cannot(s), Within: s.Within, Folder: m.Folder(s),
		Asks: s.asks(), Protocol: s.Protocol, Pin: s.Package.pin(),
		Updated:   func(uri string) { m.Offers.announceUpdate(s.Name, uri) },
		Reoffered: func() { m.Offers.announceUpdate(s.Name, "") },
		Start:     func(ctx context.Context) (*mcpsource.Link, error) { return m.startMCP(ctx, s) },
	}
	if s.URL != "" {
		c.Source, c.Logs, c.Cannot, c.Stream = "mcp-remote", "", 0, m.streamOf(s)
		c.Start = func(ctx context.Context) (*mcpsource.Link, error) { return m.reachLoggedIn(ctx, s) }
	}
	return mcpsource.New(c)
}

// streamOf is how long one answer of a server elsewhere may last.
func (m *Servers) streamOf(s Server) time.Duration {
	if p, err := s.policy(); err == nil {
		if r, err := p.Bind(m.Home.Env(m.Folder(s))); err == nil {
			if t := (policy.Chain{r}).Limits().RequestTimeout; t > 0 {
				return t
			}
		}
	}
	return network.DefaultTimeout
}

// cannot are the side effects that a server's policy makes impossible.
func (m *Servers) cannot(s Server) tool.Effects {
	p, err := s.policy()
	if err != nil {
		return 0
	}
	r, err := p.Bind(m.Home.Env(m.Folder(s)))
	if err != nil || (policy.Chain{r}).Connects() {
		return 0
	}
	return tool.EffectSet(tool.NetworkHTTP, tool.NetworkSocket, tool.NetworkDNS)
}

func (m *Servers) mcpLog(name string) string {
	return filepath.Join(m.Home.Dir, "logs", "mcp-"+name+".log")
}

// Log is the file that keeps what a server writes to its standard error.
func (m *Servers) Log(name string) string { return m.mcpLog(name) }

// maxMCPLog bounds what one start of a server adds to its log, in bytes.
const maxMCPLog = 8 << 20

// mcpRun is a server that runs: one call of a run of its own, under the server's
// policy, which ends with the server.
type mcpRun struct {
	ended  chan struct{}
	err    error // how it ended; set before ended is closed
	ask    func()
	cancel context.CancelFunc
}

// runMCP begins such a run of this name, whose one call t is. Ask asks t to end; after is
// called when it has.
func (m *Servers) runMCP(ctx context.Context, s Server, name, folder string, t permit.Tool, args tool.Args, ask, after func()) (*mcpRun, error) {
	root, err := s.policy()
	if err != nil {
		return nil, err
	}
	c, err := catalog.New(t)
	if err != nil {
		return nil, err
	}
	b, runCtx, begun, err := m.Runs.Start(context.WithoutCancel(ctx), runs.Request{
		Root: root, Workspace: folder, Asker: runs.Typed{By: s.By, Where: "remit mcp add"},
	}, runner.Info{Name: name, Total: 1})
	if err != nil {
		return nil, err
	}
	b.Runner.Catalog = c
	runCtx, cancel := context.WithCancel(runCtx)
	r := &mcpRun{ended: make(chan struct{}), ask: ask, cancel: cancel}
	go func() {
		defer close(r.ended)
		defer cancel()
		o := b.Runner.Execute(runCtx, b.Run, runner.Call{Tool: t.Spec().ID, Args: args, Long: true})
		after()
		_, r.err = b.Finish(runCtx, begun, o.Status, o.Fatal)
		if o.Err != nil {
			r.err = o.Err
		}
	}()
	return r, nil
}

func (r *mcpRun) why() error { return r.err }

// mcpFolder makes a server's own folder where it is missing.
func (m *Servers) mcpFolder(s Server) (string, error) {
	folder := m.Folder(s)
	if s.Folder == "" {
		if err := os.MkdirAll(folder, 0o700); err != nil {
			return "", fault.Wrap(fault.ToolFailed, err, "the folder of the MCP server %q cannot be made: %v", s.Name, wholefile.Cause(err))
		}
	}
	return home.Workspace(folder)
}

// startMCP starts a server in the sandbox. Many calls of many holders use it, so it runs under the
// operator's policy for it, and no holder's grant; each call is decided by the caller's.
func (m *Servers) startMCP(ctx context.Context, s Server) (*mcpsource.Link, error) {
	folder, err := m.mcpFolder(s)
	if err != nil {
		return nil, err
	}
	argv := s.Command
	if s.Package != nil {
		if err := m.verify(s.Package); err != nil {
			return nil, err
		}
		argv = s.Package.command()
	}
	args, err := runs.ExecArgs(argv)
	if err != nil {
		return nil, err
	}
	p, err := newPipes()
	if err != nil {
		return nil, err
	}
	t := &serverRun{box: m.Box, argv: argv, env: s.Env, stdio: &p.theirs, folder: folder}
	log, logged := m.copyLog(s.Name, p.err)
	r, err := m.runMCP(ctx, s, "mcp server "+s.Name, folder, t, args, func() { _ = p.in.Close() }, func() { // closed already where the connection was
		for _, f := range []*os.File{p.theirs.In, p.theirs.Out, p.theirs.Err} {
			_ = f.Close() // closed already where it ran
		}
		<-logged
	})
	if err != nil {
		return nil, errors.Join(err, p.close())
	}
	return &mcpsource.Link{Transport: mcpsource.Stdio(p.out, p.in, log), Ended: r.ended, Why: r.why, Stop: r.stop, Kill: r.kill}, nil
}

// reach gets ready to reach a server elsewhere, through the network handle of a call
// that lasts as long as the server is needed. The link has no transport yet.
func (m *Servers) reach(ctx context.Context, s Server, run string) (*mcpsource.Link, *network.Transport, error) {
	folder, err := m.mcpFolder(s)
	if err != nil {
		return nil, nil, err
	}
	t := &connection{url: s.URL, permits: make(chan permit.Permit, 1), over: make(chan struct{})}
	var once sync.Once
	r, err := m.runMCP(ctx, s, run, folder, t, tool.Args{"url": s.URL}, func() { once.Do(func() { close(t.over) }) }, func() {})
	if err != nil {
		return nil, nil, err
	}
	select {
	case p := <-t.permits:
		return &mcpsource.Link{Remote: true, Ended: r.ended, Why: r.why, Stop: r.stop}, network.NewTransport(p), nil
	case <-r.ended:
		return nil, nil, fault.Wrap(fault.ToolFailed, r.err, "the MCP server %q cannot be reached: %s", s.Name, fault.Message(r.err))
	}
}

// stop asks the server to end by closing its input, as the protocol has it, and
// ends it where it does not.
func (r *mcpRun) stop() {
	r.ask()
	select {
	case <-r.ended:
	case <-time.After(2 * time.Second):
	}
	r.cancel()
	<-r.ended
}

// kill ends the server without asking it first.
func (r *mcpRun) kill() {
	r.cancel()
	r.ask()
	<-r.ended
}

// copyLog keeps the server's standard error, and the text that is written to log.
func (m *Servers) copyLog(name string, from *os.File) (log io.Writer, done <-chan struct{}) {
	var to io.WriteCloser
	to, err := eventlog.Raw(m.mcpLog(name), maxMCPLog)
	if err != nil {
		to = nopCloser{io.Discard} // the server's own text: nothing depends on it
	}
	l, copied := &serverLog{to: m.Secrets.Mask.Lines(to)}, make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = io.Copy(l, from)
		_ = from.Close()
		l.close()
		_ = to.Close()
	}()
	return l, copied
}

// serverLog is the log of a server that runs. Text that is written to it later is dropped.
type serverLog struct {
	mu     sync.Mutex
	to     io.WriteCloser
	closed bool
}

// Write implements io.Writer.
func (l *serverLog) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return len(b), nil
	}
	return l.to.Write(b)
}

func (l *serverLog) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	_ = l.to.Close() // nothing depends on it
}

type nopCloser struct{ io.Writer }

func (nopCloser) Close() error { return nil }

// pipes are the streams of a server, both ends of each.
type pipes struct {
	theirs   sandbox.Stdio
	in       *os.File // what we write to the server
	out, err *os.File
}

func newPipes() (*pipes, error) {
	p := &pipes{}
	for _, pair := range []struct {
		theirs, ours **os.File
		reads        bool // the server reads from it
	}{{&p.theirs.In, &p.in, true}, {&p.theirs.Out, &p.out, false}, {&p.theirs.Err, &p.err, false}} {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(fault.Wrap(fault.ToolFailed, err, "no pipe can be made"), p.close())
		}
		if *pair.theirs, *pair.ours = w, r; pair.reads {
			*pair.theirs, *pair.ours = r, w
		}
	}
	return p, nil
}

func (p *pipes) close() error {
	for _, f := range []*os.File{p.theirs.In, p.theirs.Out, p.theirs.Err, p.in, p.out, p.err} {
		if f != nil {
			_ = f.Close() // nothing was sent
		}
	}
	return nil
}

// connection is the call that a connection to a server elsewhere is.
type connection struct {
	url     string
	permits chan permit.Permit // given once the call is allowed
	over    chan struct{}
}

func (t *connection) Spec() *tool.Spec {
	return &tool.Spec{
		ID: mcpReachID, Title: "Reach an MCP server", Version: "1", Source: "builtin", Risk: tool.Medium,
		Description: "Reaches an MCP server that the operator added, for as long as it is needed.",
		Input:       []byte(`{"type": "object", "additionalProperties": false, "required": ["url"], "properties": {"url": {"type": "string"}}}`),
		Output:      []byte(`{"type": "object"}`),
		Effects:     tool.EffectSet(tool.NetworkHTTP),
	}
}

func (t *connection) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	to, err := target.Parse("POST", t.url)
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{Actions: []tool.Action{{Kind: tool.Network, Target: to}}, Run: t.run}, nil
}

func (t *connection) run(ctx context.Context, p permit.Permit) (tool.Result, error) {
	t.permits <- p
	select {
	case <-t.over:
		return tool.Result{}, nil
	case <-ctx.Done():
		return tool.Result{}, context.Cause(ctx)
	}
}

// mcpServerID is what the record calls the tool that a running server is. It is in
// no catalog but that of the server's own run.
const mcpServerID = tool.ID("mcp.server")

// mcpReachID is the same for a server that is reached.
const mcpReachID = tool.ID("mcp.reach")

// HelperTools are the tools whose call is the whole of a run that no person or
// agent began: one for each start of an MCP server, or of getting its package.
func HelperTools() []tool.ID { return []tool.ID{mcpServerID, mcpReachID, mcpPackageID} }

type serverRun struct {
	box    Box
	argv   []string
	env    map[string]string
	stdio  *sandbox.Stdio
	folder string
}

func (t *serverRun) Spec() *tool.Spec {
	return &tool.Spec{
		ID: mcpServerID, Title: "Run an MCP server", Version: "1", Source: "builtin", Risk: tool.High,
		Description: "Runs an MCP server that the operator added, in the sandbox, for as long as it is needed.",
		Input: []byte(`{"type": "object", "additionalProperties": false, "required": ["argv"],
			"properties": {"argv": {"type": "array", "minItems": 1, "items": {"type": "string"}}}}`),
		Output: []byte(`{"type": "object"}`),
		Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.FSDelete, tool.FSChmod,
			tool.NetworkHTTP, tool.NetworkSocket),
	}
}

func (t *serverRun) Prepare(tool.Env, tool.Args) (permit.Prepared, error) {
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Command, Argv: t.argv, Dir: t.folder, Typed: true}},
		Run:     t.run,
	}, nil
}

func (t *serverRun) run(ctx context.Context, p permit.Permit) (tool.Result, error) {
	out, err := t.box.Run(ctx, p, sandbox.Command{
		Argv: t.argv, Dir: t.folder, Env: t.env, Typed: true, Long: true, Stdio: t.stdio,
	})
	if err != nil && out.Duration == 0 {
		return tool.Result{}, err // it did not run
	}
	if err == nil {
		err = shelltool.Failure(out)
	}
	return tool.Result{Output: shelltool.Ended(out)}, err
}
