package app

import (
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/codebox"
	"github.com/remitrun/remit/internal/agents/capability/currenttime"
	"github.com/remitrun/remit/internal/agents/capability/mcptools"
	"github.com/remitrun/remit/internal/agents/capability/noop"
	"github.com/remitrun/remit/internal/agents/capability/requests"
	"github.com/remitrun/remit/internal/agents/capability/research"
	"github.com/remitrun/remit/internal/agents/capability/sessionfiles"
	"github.com/remitrun/remit/internal/agents/capability/subagents"
	"github.com/remitrun/remit/internal/agents/capability/testmath"
	"github.com/remitrun/remit/internal/agents/capability/testweather"
	"github.com/remitrun/remit/internal/agents/capability/todolist"
	"github.com/remitrun/remit/internal/agents/capability/webfetch"
	"github.com/remitrun/remit/internal/agents/capability/workspace"
)

// capabilities lists the capabilities that are compiled in, in the order in which they are
// shown: a new one is a folder and a line here.
func (a *App) capabilities() []capability.Capability {
	return []capability.Capability{
		currenttime.New(time.Now),
		mcptools.New(),
		noop.New(),
		requests.New(),
		research.New(research.Options{Search: a.searchTool, Secret: a.Secrets.Value}),
		codebox.New(a.box),
		sessionfiles.New(),
		todolist.New(),
		subagents.New(),
		testmath.New(),
		testweather.New(),
		webfetch.New(webfetch.Options{Secret: a.Secrets.Value}),
		workspace.New(),
	}
}
