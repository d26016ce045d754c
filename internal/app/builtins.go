package app

import (
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
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
)

// builtIn is every tool that is compiled in: a new one is a folder and a line.
func (a *App) builtIn() []permit.Tool {
	return slices.Concat(fstool.Tools(), httptool.Tools(a.Secrets.Value), clock.Tools(time.Now), random.Tools(), request.Tools(), analyze.Tools(), db.Tools(a.Secrets.Value),
		browser.Tools(a.browsers), []permit.Tool{shelltool.New(a.box)}, a.own, []permit.Tool{modelchat.New(a.Models.ChatOptions(a.Models.Registry))})
}
