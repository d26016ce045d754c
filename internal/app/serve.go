package app

import (
	"cmp"
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/garbage"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/credential"
	"github.com/remitrun/remit/internal/doors/httpapi"
	"github.com/remitrun/remit/internal/doors/listen"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/telemetry"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/callers"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/filelabels"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/measures"
	"github.com/remitrun/remit/internal/service/nodes"
	"github.com/remitrun/remit/internal/service/queue"
	"github.com/remitrun/remit/internal/service/runs"
)

// ServeRequest says what remit serve serves.
type ServeRequest struct {
	Listen    string   // address and port
	Hosts     []string // names by which clients may call, besides loopback's
	Cert, Key string   // files of a certificate and its key; "": no TLS
	Public    bool     // an address that others reach may be without TLS
	Policy    string   // of the admin's grant; "": the workspace's if trusted, else a built-in one
	Workspace string   // absolute, as Workspace makes it
	Workers   string   // address and port at which workers connect; "": none do
	NewToken  bool     // the admin's token is made anew, and the old one revoked
	Limits    httpapi.Limits
	// Ready is told once requests are answered.
	Ready func(Served)
}

// Served is the information for a person when the service begins.
type Served struct {
	grants.AdminGrant

	URL     string
	UI      string // of the web UI
	Workers string // where workers join; "": they cannot
	Public  bool   // computers other than this one may reach it
	TLS     bool
	Traced  string // where traces go; "": nowhere
}

// Serve answers the HTTP API until ctx ends, and then finishes the calls under way.
func (a *App) Serve(ctx context.Context, q ServeRequest) error {
	conf, err := listen.TLS(q.Cert, q.Key)
	if err != nil {
		return err
	}
	l, err := listen.Localhost(ctx, listen.Address{Listen: q.Listen, Example: "127.0.0.1:8642", Hosts: q.Hosts, Secure: conf != nil || q.Public})
	if err != nil {
		return err
	}
	defer func() { _ = l.Close() }() // Serve has, unless there was an error before
	st, err := a.open(ctx, false)
	if err == nil {
		err = a.Witnesses.CheckAll(ctx, st) // before anything is recorded
	}
	if err != nil {
		return err
	}
	admin := Served{}
	if admin.AdminGrant, err = a.Grants.Admin(ctx, grants.AdminTerms{Policy: q.Policy, Workspace: q.Workspace, NewToken: q.NewToken}); err != nil {
		return err
	}
	a.Approvals.Ending = ctx
	work, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ui := a.webUI(q, conf != nil, st)
	ui.address = l.Addr().String()
	if err := a.People.Serve(q.Workspace, ui.lasting(ui.address)); err != nil {
		return err
	}
	s, observe, end, err := a.server(work, q, conf, ui)
	if err != nil {
		return err
	}
	defer end()
	a.describe(&admin, l.Addr().String(), conf != nil, ui)
	withdraw, err := ui.devices.Announce(work, admin.UI, l.Addr().String())
	if err != nil {
		return err
	}
	defer withdraw()
	defer garbage.Less()()
	var endWorkers func()
	if admin.Workers, endWorkers, err = a.serveWorkers(work, q.Workers); err != nil {
		return err
	}
	defer endWorkers()
	defer a.Queue.Start(ctx, queue.Worker{Drain: cmp.Or(q.Limits.Drain, endWithin), Observe: observe, Advice: adviceOn})()
	defer a.inBackground(work, st, admin.Policy.Source())()
	defer stop()
	if q.Ready != nil {
		q.Ready(admin)
	}
	return a.Witnesses.While(ctx, st, func(ctx context.Context) error { return answer(ctx, s, l, st) })
}

// answer serves requests until ctx ends, or until this process cannot go on with the ledger, which
// is an error.
func answer(ctx context.Context, s *httpapi.Server, l net.Listener, st store.Backend) error {
	ctx, release := database.WhileAlive(ctx, st)
	defer release()
	if err := s.Serve(ctx, l); err != nil {
		return err
	}
	return database.WhyDead(ctx)
}

// describe fills in where a service is reached.
func (a *App) describe(s *Served, addr string, secure bool, ui *webUI) {
	s.URL, s.TLS, s.Public, s.UI = "http://"+addr, secure, !listen.Loopback(addr), ui.url(addr)
	if secure {
		s.URL = "https://" + addr
	}
	if cfg, on, err := telemetry.ConfigFrom(a.Home.Lookup); err == nil && on {
		s.Traced = cfg.Endpoint
	}
}

// inBackground begins a service's background work, until ctx ends. wait waits for the end of it.
func (a *App) inBackground(ctx context.Context, st store.Backend, served []byte) (wait func()) {
	var all sync.WaitGroup
	all.Go(func() { nodes.Run(ctx, a.Home, st, served) })
	all.Go(func() { a.Erasures.Retain(ctx) })
	all.Go(func() { a.Witnesses.Run(ctx, st) })
	all.Go(func() { a.Notifier.Run(ctx) })
	all.Go(func() { a.Notifier.WatchDisk(ctx, a.Home.Dir) })
	return all.Wait
}

// server builds the server and what it serves. observe is shown the notices of runs; end ends
// all of that.
func (a *App) server(ctx context.Context, q ServeRequest, conf *tls.Config, ui *webUI) (s *httpapi.Server, observe func(runner.Notice), end func(), err error) {
	w, err := measures.Begin(a.Home.Lookup, a.Home.Version)
	if err != nil {
		return nil, nil, nil, err
	}
	defer func() {
		if err != nil {
			w.Tracer.Close()
		}
	}()
	st, err := a.Store(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	measures.Node{Version: a.Home.Version, Ledger: st, Witnesses: a.Witnesses.Ages, Undelivered: a.Notifier.Outbox.Count, Workers: func() (int, int) { return a.node.Count() }, Dir: a.Home.Dir}.Measure(w.Metrics)
	log, err := a.Home.Log()
	if err != nil {
		return nil, nil, nil, err
	}
	reg, err := a.Agents.Capabilities()
	if err != nil {
		return nil, nil, nil, err
	}
	service, err := a.Agents.Start(ctx, agents.Request{Workspace: q.Workspace, Capabilities: reg, Observe: w.Notice, Adopt: true})
	if err != nil {
		return nil, nil, nil, err
	}
	g, err := credential.Limited(callers.Open(ctx, a.Home, a.Policies, a.Grants, q.Workspace))
	if err != nil {
		return nil, nil, nil, err
	}
	cosigns, err := a.Witnesses.Service()
	if err != nil {
		return nil, nil, nil, err
	}
	g.People, a.Queue.Sessions, ui.gate = a.People, service, g
	mcp, endMCP := a.gateway(MCPRequest{Workspace: q.Workspace, gate: g}).Mount(ctx)
	limits := q.Limits.With(a.Home.Settings.Limits)
	parts := &served{app: a, workspace: q.Workspace, observe: w.Notice, capabilities: reg, OpenRuns: &runs.OpenRuns{Runs: a.Runs, Idle: cmp.Or(limits.RunIdle, httpapi.Defaults().RunIdle), Failed: func(run string, err error) { log.Logger().Error("run_ended_badly", "run", run, "error", err.Error()) }}}
	endOpen := parts.OpenRuns.Start(ctx)
	s, err = httpapi.New(httpapi.Options{
		Version: a.Home.Version, Gate: g, Lineage: g, Agents: service, Sessions: service, Conversations: service, Turns: service, Files: service, Capabilities: parts, Commands: parts, Tools: parts, Runs: parts, Queue: queue.Door{Queue: a.Queue, Workspace: q.Workspace}, Grants: parts, Approvals: parts, Interrupted: a.Approvals.Interrupted,
		Changes: changes.Reviewer{Changes: a.Changes}, Parts: parts, Nodes: database.Services(a.Store),
		Audit: a.History, Labels: filelabels.Door{Reader: a.Reader, Store: a.Store}, Policies: parts, Requests: parts, Ready: a.ready, MCP: mcp, Witness: cosigns, UI: ui.mount, Hosts: append([]string{ui.host}, q.Hosts...), TLS: conf, Log: func(e httpapi.Entry) { logRequest(log, e) },
		Hide: a.hidden(), Errors: slog.New(slog.DiscardHandler), Logins: ui.logins, Address: ui.origin(), Metrics: w.Metrics, Tracer: w.Tracer, Spans: w.Turns, Limits: limits, TakeRequests: a.Grants.TakeRequests,
		Interrupt: func(ctx context.Context) { _ = service.Close(ctx) }, // said again below
	})
	end = func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), endWithin)
		defer cancel()
		endMCP(after)
		endOpen(after)
		a.endAgents(after, service)
		w.Tracer.Close()
	}
	if err != nil {
		end()
		return nil, nil, nil, err
	}
	return s, w.Notice, end, nil
}

// hidden takes this machine's folders out of messages.
func (a *App) hidden() func(string) string {
	pairs := []string{a.Home.Dir, "$REMIT_HOME"}
	if a.Home.UserHome != "" && a.Home.UserHome != "/" {
		pairs = append(pairs, a.Home.UserHome, "~")
	}
	return strings.NewReplacer(pairs...).Replace
}

// endWithin is how long sessions may take to record their end.
const endWithin = 30 * time.Second

func (a *App) endAgents(ctx context.Context, s *agent.Service) {
	if err := s.Close(ctx); err != nil {
		if log, lerr := a.Home.Log(); lerr == nil {
			log.Logger().Error("sessions_ended_badly", "error", err.Error())
		}
	}
}

// ready reports whether the ledger can be written.
func (a *App) ready(ctx context.Context) error {
	st, err := a.open(ctx, false)
	if err := database.Usable(st, err); err != nil {
		return err
	}
	return a.recovery.Now(ctx, st)
}
