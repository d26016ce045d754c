package app

import (
	"time"

	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/builtin/analyze"
	"github.com/remitrun/remit/internal/tools/builtin/clock"
	fstool "github.com/remitrun/remit/internal/tools/builtin/fs"
	httptool "github.com/remitrun/remit/internal/tools/builtin/http"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/builtin/random"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// builtIn is every tool that is compiled in.
func (a *App) builtIn() []runner.Tool {
	return append(builtins(a.box, a.secret), modelchat.New(a.chatOptions(a.Models())))
}

// builtins is every tool that is compiled in: a new one is a folder and a line.
func builtins(box *sandbox.Box, secret func(name string) (string, bool)) []runner.Tool {
	var out []runner.Tool
	for _, t := range fstool.Tools() {
		out = append(out, t)
	}
	for _, t := range httptool.Tools(secret) {
		out = append(out, t)
	}
	for _, t := range clock.Tools(time.Now) {
		out = append(out, t)
	}
	for _, t := range random.Tools() {
		out = append(out, t)
	}
	for _, t := range analyze.Tools() {
		out = append(out, t)
	}
	return append(out, shelltool.New(box))
}
