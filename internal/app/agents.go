package app

import (
	"context"
	"slices"

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
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/model"
)

// AgentsRequest says how agents are served.
type AgentsRequest struct {
	Policy    string         // a policy file that bounds all sessions; "": the workspace's, if trusted
	Root      *policy.Policy // holds instead of Policy if not nil
	Workspace string         // absolute, as Workspace makes it
	// Capabilities and Models replace those of the tables and settings; nil: those.
	Capabilities *capability.Registry
	Models       *model.Registry
	Observe      func(runner.Notice) // nil: nobody watches
	// Here answers the questions of sessions' calls, as RunRequest.Here does; nil: they
	// wait for an answer from elsewhere.
	Here func(ctx context.Context, c approval.Case) (store.Vote, error)

	still bool // to look at the record: no source of tools is started
}

// Agents serves agents and their sessions. The Service must be closed before the
// App is.
func (a *App) Agents(ctx context.Context, q AgentsRequest) (*agent.Service, error) {
	if _, _, err := a.Grants.Open(ctx); err != nil {
		return nil, err
	}
	return a.agents(q)
}

func (a *App) agents(q AgentsRequest) (*agent.Service, error) {
	if q.Models == nil {
		q.Models = a.Models()
	}
	if q.Capabilities == nil {
		var err error
		if q.Capabilities, err = a.Capabilities(); err != nil {
			return nil, err
		}
	}
	a.mu.Lock()
	st := a.store
	a.mu.Unlock()
	tools := runner.Catalog(a.Extensions)
	if q.still {
		tools = a.catalog.Still()
	}
	quota := quotaOf(a.Home.Settings.Sessions)
	return agent.New(agent.Options{
		Record: st, Grants: &sessionGrants{app: a, q: q}, Runs: &sessionRuns{app: a, q: q}, Capabilities: q.Capabilities, Models: q.Models,
		Chat: func(c agent.ChatRequest) permit.Tool { return a.chatTool(q.Models, c) }, Lookup: tools.Lookup, Match: a.matchTools,
		Files: filesOfSessions(st, quota), Quota: quota, Secret: a.Secrets.In,
	}), nil
}

// chatTool makes the tool model.chat of a session.
func (a *App) chatTool(models *model.Registry, c agent.ChatRequest) permit.Tool {
	return modelchat.ForSession(a.chatOptions(models), func(upTo int) (modelchat.Turn, error) {
		asked, err := c.Request(upTo)
		return modelchat.Turn{
			System: asked.Request.System, Messages: asked.Request.Messages, Tools: asked.Request.Tools,
			Earlier: asked.Request.Earlier, Aside: asked.Request.Aside,
			Digests: modelchat.Digests{Messages: asked.Messages, System: asked.System, Tools: asked.Tools},
		}, err
	})
}

// matchTools gives the IDs of the catalog's enabled tools that a pattern names,
// sorted.
func (a *App) matchTools(pattern string) []tool.ID {
	name, err := glob.CompileText(pattern)
	if err != nil {
		return nil
	}
	_ = a.Extensions.Sync() // what cannot be read is told where its tools are called
	var out []tool.ID
	for _, t := range a.catalog.List(context.Background(), catalog.Filter{Enabled: true, Use: true}).Tools {
		if name.Match(string(t.Spec.ID)) {
			out = append(out, t.Spec.ID)
		}
	}
	slices.Sort(out)
	return out
}
