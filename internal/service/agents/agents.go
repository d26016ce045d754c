// Package agents serves agents and their sessions: it makes the grants of sessions, starts
// their runs, asks their questions, keeps their files, and knows the capabilities that agents
// can have. The turns themselves are carried out by agents/agent. Start at [Agents.Start].
package agents

import (
	"context"
	"slices"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/approvals"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/models"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/model"
)

// Agents serves agents. Its fields are set before it is used.
type Agents struct {
	Home      *home.Home
	Policies  *policies.Policies
	Secrets   *secrets.Secrets
	Grants    *grants.Grants
	Approvals *approvals.Approvals
	Runs      *runs.Runs
	Models    *models.Models
	BuiltIn   []capability.Capability // the capabilities that are compiled in
	Tools     *catalog.Catalog
	Synced    SyncedCatalog // where calls find their tools
	// Reader opens the ledger for reading, also one that cannot be written.
	Reader func(context.Context) (store.Backend, error)
}

// SyncedCatalog is a catalog that follows changes which other processes make to the
// installed extensions.
type SyncedCatalog interface {
	runner.Catalog
	Sync() error
}

// Request says how agents are served.
type Request struct {
	Policy    string         // file of the policy that bounds all sessions; "": the workspace's, if trusted
	Root      *policy.Policy // replaces Policy if not nil
	Workspace string         // absolute, as Workspace makes it
	// Capabilities and Models replace those of this installation; nil: do not.
	Capabilities *capability.Registry
	Models       *model.Registry
	Observe      func(runner.Notice) // nil: do not
	Hooks        []runner.Hook       // called around calls
	// Here asks the person at this terminal the questions of sessions' calls; nil: they wait
	// for an answer from elsewhere.
	Here  func(ctx context.Context, c approval.Case) (store.Vote, error)
	Adopt bool // continue turns of other nodes that died
}

// host gives a service of agents the functions and settings for its sessions.
type host struct {
	*Agents

	q        Request
	contexts contexts
}

var (
	_ agent.GrantSource = (*host)(nil)
	_ agent.RunStarter  = (*host)(nil)
)

// Start starts the service of agents. It must be closed before the ledger is.
func (s *Agents) Start(ctx context.Context, q Request) (*agent.Service, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return nil, err
	}
	return s.service(st, q, s.Synced)
}

// service makes a service of agents on an open ledger.
func (s *Agents) service(st store.Backend, q Request, tools runner.Catalog) (*agent.Service, error) {
	if q.Models == nil {
		q.Models = s.Models.Registry
	}
	if q.Capabilities == nil {
		var err error
		if q.Capabilities, err = s.Capabilities(); err != nil {
			return nil, err
		}
	}
	h, sessions := &host{Agents: s, q: q}, s.Home.Settings.Sessions
	turns, _ := st.(store.Turns) // nil: a file of this machine
	quota := store.Quota{Bytes: sessions.FileBytes, Files: sessions.FileCount}
	return agent.New(agent.Options{
		Record: st, Grants: h, Runs: h, Capabilities: q.Capabilities, Models: q.Models,
		Chat: func(c agent.ChatRequest) permit.Tool { return s.chatTool(q.Models, c) }, Lookup: tools.Lookup, Match: s.matchTools,
		Files: FilesOf(st, quota), Quota: quota, Secret: s.Secrets.In,
		Turns: turns, Adopt: q.Adopt, Report: s.notContinued, Kept: st, Ending: s.Approvals.Ending,
	}), nil
}

// notContinued tells the operator of a turn whose node died, and that waits for a person.
func (s *Agents) notContinued(session uuid.UUID, err error) {
	if log, lerr := s.Home.Log(); lerr == nil {
		log.Logger().Error("turn_not_continued", "session", session.String(), "error", err.Error())
	}
}

// chatTool makes the tool model.chat for a session.
func (s *Agents) chatTool(models *model.Registry, c agent.ChatRequest) permit.Tool {
	return modelchat.ForSession(s.Models.ChatOptions(models), func(upTo int) (modelchat.Turn, error) {
		asked, err := c.Request(upTo)
		return modelchat.Turn{
			System: asked.Request.System, Messages: asked.Request.Messages, Tools: asked.Request.Tools,
			Earlier: asked.Request.Earlier, Aside: asked.Request.Aside,
			Digests: modelchat.Digests{Messages: asked.Messages, System: asked.System, Tools: asked.Tools},
		}, err
	})
}

// matchTools gives the IDs of the catalog's enabled tools that match a pattern, sorted.
func (s *Agents) matchTools(pattern string) []tool.ID {
	name, err := glob.CompileText(pattern)
	if err != nil {
		return nil
	}
	_ = s.Synced.Sync() // errors are reported when the tools are called
	var out []tool.ID
	for _, t := range s.Tools.List(context.Background(), catalog.Filter{Enabled: true, Use: true}).Tools {
		if name.Match(string(t.Spec.ID)) {
			out = append(out, t.Spec.ID)
		}
	}
	slices.Sort(out)
	return out
}
