package app

import (
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
)

// LearnFrom writes what is learned from an outcome, under a policy and with
// what a person was asked about and allowed.
func (a *App) LearnFrom(root *policy.Policy, workspace string, out sandbox.Outcome, tried ledger.Attempts, approved ...tool.Target) (LearnedExec, error) {
	wide, err := root.Widened(policy.Wide{Files: true, Hold: true, System: "standard", Ask: len(approved) > 0, Network: []string{nowhere}})
	if err != nil {
		return LearnedExec{}, err
	}
	rules, err := wide.Bind(a.Home.Env(workspace))
	if err != nil {
		return LearnedExec{}, err
	}
	l := &execLearner{app: a, root: root, approved: approved}
	return l.learned("learned", workspace, out, tried, policy.Chain{rules})
}

// ToolMemory is what a process with this home remembers of tools.
func ToolMemory(dir string) catalog.Memory {
	return &toolMemory{app: &App{Home: &home.Home{Config: home.Config{Dir: dir}}}}
}

// FilesOfSessions gives the files of sessions, as capabilities use them.
var FilesOfSessions = filesOfSessions
