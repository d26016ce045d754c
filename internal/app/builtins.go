package app

import (
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
	"github.com/remitrun/remit/internal/tools/builtin/clock"
	"github.com/remitrun/remit/internal/tools/builtin/db"
	fstool "github.com/remitrun/remit/internal/tools/builtin/fs"
	httptool "github.com/remitrun/remit/internal/tools/builtin/http"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/builtin/random"
	"github.com/remitrun/remit/internal/tools/builtin/request"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// builtIn is every tool that is compiled in.
func (a *App) builtIn() []permit.Tool {
	return append(builtins(a.box, a.Secrets.Value), append(slices.Clip(a.own), modelchat.New(a.Models.ChatOptions(a.Models.Registry)))...)
}

// builtins is every tool that is compiled in: a new one is a folder and a line.
func builtins(box shelltool.Box, secret func(name string) (string, bool)) []permit.Tool {
	return slices.Concat(fstool.Tools(), httptool.Tools(secret), clock.Tools(time.Now), random.Tools(), request.Tools(), analyze.Tools(), db.Tools(secret), []permit.Tool{shelltool.New(box)})
}
