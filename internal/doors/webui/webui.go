// Package webui serves the web UI: pages for people, at /ui. It has no power of its own: every page
// and every answer is made of requests to the HTTP API, in this process, under the grant of the
// signed-in browser. Anything that grant does not allow, no page shows or does, and everything that
// a page does can also be done through the API. Start at [New].
//
// A page has four parts:
//
//   - a method of [Server] that takes an [exchange], asks the API, and returns a [page];
//   - a view, the struct in page.Body that its template shows;
//   - a template in templates/, which defines "body" and maybe parts that others use;
//   - a line in [Server.routes], and a case of TestPages with its golden HTML file.
//
// page.Topics names the changes that concern the page, as "approvals" or "run:ID". The
// script asks for the page again when one happens, and changes only what differs. Forms post
// to the same path without a script, and their handler is an [action], which returns the
// path to go on with, or a page that says why not.
//
// Templates are html/template; texts of agents go through show or lines, which make control
// and bidirectional characters visible. There is no inline script or style: the policy of
// [headers] refuses it.
package webui

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"net/url"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/memo"
	"github.com/remitrun/remit/internal/doors/admission"
	"github.com/remitrun/remit/internal/service/devices"
	"github.com/remitrun/remit/internal/service/logins"
	"github.com/remitrun/remit/internal/service/people"
)

//go:embed templates static
var files embed.FS

// Devices knows the browsers that are signed in.
type Devices interface {
	// SignIn uses a one-time code, and makes a device with a cookie.
	SignIn(ctx context.Context, code, label string) (cookie string, d devices.Device, err error)
	// Enter finds the device of a cookie; an unknown or expired one is fault.GrantInvalid.
	Enter(ctx context.Context, cookie string) (devices.Device, error)
	List(ctx context.Context) ([]devices.Device, error)
	SignOut(ctx context.Context, id string) error
	// Confirm uses a one-time code, or the link with it, up for a device.
	Confirm(ctx context.Context, id, code string) error
	// Prove answers a challenge of remit ui that reached the service at an address.
	Prove(challenge, address string) string
	// Admit makes a device for a person who signed in elsewhere.
	Admit(ctx context.Context, token string, confirmed time.Time, label string) (cookie string, d devices.Device, err error)
}

// Gate knows the grants of browsers.
type Gate interface {
	// Usable gives an error if the grant of a token cannot be used now.
	Usable(ctx context.Context, token string) error
}

// People signs people in at their identity providers.
type People interface {
	Issuers() []string
	Start(ctx context.Context, issuer string, again bool) (address, cookie string, err error)
	Expects(cookie string, query url.Values) error // a check without the issuer
	Finish(ctx context.Context, cookie string, query url.Values) (people.Entered, error)
}

// Logins has the programs that wait for a person to sign them in.
type Logins interface {
	Find(ctx context.Context, code string) (logins.Waiting, error)
	Decide(ctx context.Context, code string, grant func(logins.Waiting) (logins.Given, error)) error
}

// Options are the parts of the web UI. All fields are required but those with a default.
type Options struct {
	API     http.Handler
	Devices Devices
	Gate    Gate
	People  People           // nil: people sign in by remit ui alone
	Logins  Logins           // nil: no program can be signed in
	Host    string           // the host name that it is served under, without a port
	Hosts   []string         // further host names, of a service that others reach
	TLS     bool             // the browser's connection is encrypted
	Now     func() time.Time // nil: time.Now
}

// Server serves the web UI. It is safe for concurrent use.
type Server struct {
	o     Options
	mux   *http.ServeMux
	pages map[string]*template.Template
	tries *admission.Rates // of programs' codes, by browser
	turns *admission.Turns // at identity providers, by address

	topics *memo.Memo[[]string] // of events that browsers were told
}

// New makes a server.
func New(o Options) (*Server, error) {
	if o.API == nil || o.Devices == nil || o.Gate == nil || o.Host == "" {
		return nil, fault.New(fault.Internal, "a web UI needs an API, devices, a gate and a host")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	pages, err := parsePages(files)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the templates of the web UI cannot be read")
	}
	s := &Server{o: o, mux: http.NewServeMux(), pages: pages, tries: admission.NewRates(1, 30), turns: admission.NewTurns(maxFinish), topics: memo.New[[]string](maxRead)}
	s.routes()
	return s, nil
}

// routes is the list of all that is served.
func (s *Server) routes() {
	s.page("GET /ui/{$}", "inbox.html", s.inbox)
	s.page("GET /ui/approvals", "approvals.html", s.approvals)
	s.form("/ui/approvals/{id}", "approval.html", s.approval, s.answer)
	s.page("GET /ui/sessions", "sessions.html", s.sessions)
	s.form("/ui/sessions/new", "session-new.html", s.newSession, s.startSession)
	s.form("/ui/sessions/{id}", "session.html", s.session, s.inSession)
	s.page("GET /ui/sessions/{id}/files", "files.html", s.sessionFiles)
	s.signedIn("GET /ui/sessions/{id}/files/{path...}", s.sessionFile)
	s.signedIn("GET /ui/commands", s.completions)
	s.page("GET /ui/agents", "agents.html", s.agents)
	s.form("/ui/agents/new", "agent-new.html", s.newAgent, s.createAgent)
	s.form("/ui/agents/{id}", "agent.html", s.agent, s.changeAgent)
	s.form("/ui/agents/{id}/capabilities/{ref}", "config.html", s.config, s.setConfig)
	s.page("GET /ui/capabilities", "capabilities.html", s.capabilities)
	s.page("GET /ui/capabilities/{id}", "capability.html", s.capability)
	s.page("GET /ui/runs", "runs.html", s.runs)
	s.form("/ui/runs/new", "run-new.html", s.newRun, s.startRun)
	s.form("/ui/runs/{id}", "run.html", s.run, s.inRun)
	s.page("GET /ui/runs/{id}/calls/{index}", "call.html", s.call)
	s.signedIn("GET /ui/runs/{id}/calls/{index}/pictures/{number}", s.picture)
	s.signedIn("GET /ui/runs/{id}/report", s.report)
	s.form("/ui/queue", "queue.html", s.queue, s.inQueue)
	s.page("GET /ui/schedules", "schedules.html", s.schedules)
	s.form("/ui/schedules/new", "schedule-new.html", s.newSchedule, s.addSchedule)
	s.form("/ui/schedules/{id}", "schedule.html", s.schedule, s.inSchedule)
	s.page("GET /ui/changes", "changesets.html", s.changesets)
	s.form("/ui/changes/{id}", "changes.html", s.changes, s.setChanges)
	s.page("GET /ui/grants", "grants.html", s.grants)
	s.form("/ui/grants/new", "grant-new.html", s.newGrant, s.narrowGrant)
	s.form("/ui/grants/{id}", "grant.html", s.grant, s.setGrant)
	if s.o.Logins != nil {
		s.form("/ui/login", "login.html", s.login, s.decideLogin)
	}
	s.page("GET /ui/tools", "tools.html", s.tools)
	s.form("/ui/tools/{id}", "tool.html", s.tool, s.setTool)
	s.form("/ui/policies", "policies.html", s.policies, s.askPolicy)
	s.page("GET /ui/flows", "flows.html", s.flows)
	s.form("/ui/labels", "labels.html", s.labels, s.clearLabels)
	s.form("/ui/audit", "audit.html", s.audit, s.verify)
	s.page("GET /ui/audit/{seq}", "event.html", s.event)
	s.page("GET /ui/audit/refusals", "refusals.html", s.refusals)
	s.signedIn("GET /ui/audit/export", s.export)
	s.page("GET /ui/settings", "settings.html", s.settings)
	s.action("POST /ui/settings/theme", "settings.html", s.setTheme)
	s.action("POST /ui/settings/keys", "settings.html", s.setKeys)
	s.action("POST /ui/sign-out", "settings.html", s.signOut)
	s.signedIn("GET /ui/events", s.events)

	s.mux.HandleFunc("GET /ui"+devices.ProofPath, s.prove)
	s.mux.HandleFunc("GET /ui/sign-in", s.signInPage)
	s.mux.HandleFunc("POST /ui/sign-in", s.signIn)
	s.mux.HandleFunc("GET /ui/sign-in/{issuer}", s.signInAt)
	s.mux.HandleFunc("GET /ui"+people.CallbackPath, s.signedInAt)
	s.mux.HandleFunc("GET /ui/icon.svg", s.icon)
	s.mux.HandleFunc("GET /ui/static/{name}", s.static)
	s.mux.HandleFunc("GET /ui", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/ui/", http.StatusSeeOther) })
	s.mux.HandleFunc("/", s.unknown)
}
