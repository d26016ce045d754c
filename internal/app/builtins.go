package app

import (
	"cmp"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
	"github.com/remitrun/remit/internal/tools/builtin/browser"
	"github.com/remitrun/remit/internal/tools/builtin/clock"
	"github.com/remitrun/remit/internal/tools/builtin/db"
	fstool "github.com/remitrun/remit/internal/tools/builtin/fs"
	httptool "github.com/remitrun/remit/internal/tools/builtin/http"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/builtin/random"
	"github.com/remitrun/remit/internal/tools/builtin/request"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
	"github.com/remitrun/remit/internal/tools/builtin/websearch"
)

// search is the tool that asks the search service of the settings, if they name one.
func (a *App) search() []permit.Tool {
	s := a.Home.Settings.Search
	if s.Kind == "" {
		return nil
	}
	o := websearch.Options{Kind: s.Kind, URL: cmp.Or(s.URL, websearch.Usual(s.Kind)), Secret: a.Secrets.Value}
	if name, ok := settings.StoredSecret(s.Key); ok {
		o.Key = policy.Secret{Store: name}.Key()
	}
	return []permit.Tool{websearch.New(o)}
}

// searchTool is what agents search the web with; "": nothing.
func (a *App) searchTool() tool.ID {
	if a.Home.Settings.Search.Kind != "" {
		return websearch.ID
	}
	return a.Home.Settings.Search.Tool
}

// builtIn is every tool that is compiled in: a new one is a folder and a line.
func (a *App) builtIn() []permit.Tool {
	return slices.Concat(fstool.Tools(), httptool.Tools(a.Secrets.Value), clock.Tools(time.Now), random.Tools(), request.Tools(), analyze.Tools(), db.Tools(a.Secrets.Value),
		browser.Tools(a.browsers), a.search(), []permit.Tool{shelltool.New(a.box)}, a.own.Tools, []permit.Tool{modelchat.New(a.Models.ChatOptions(a.Models.Registry))})
}
