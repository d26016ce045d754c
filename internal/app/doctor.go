package app

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
)

// Check is one result of `remit doctor`.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Check inspects the state folder and the ledger. It changes neither, but opens the ledger.
func (a *App) Check(ctx context.Context) []Check {
	_, lerr := a.Store(ctx)
	undo, uerr := a.Changes.Summary()
	return append([]Check{
		{Name: "state", OK: true, Detail: a.Home.Dir},
		check("ledger", lerr, fmt.Sprintf("%s, durable against loss of %s", filepath.Join(a.Home.Dir, "remit.db"), a.Home.Settings.Durability)),
		check("undo", uerr, undo),
	}, a.checkHooks()...)
}

// checkHooks tells how the hooks in other agents stand.
func (a *App) checkHooks() []Check {
	list, err := a.Clients.Status("")
	if err != nil {
		return []Check{check("hooks", err, "")}
	}
	var out []Check
	for _, st := range list {
		c := Check{Name: "hook of " + st.Agent, OK: st.Held(), Detail: st.File}
		switch {
		case len(st.Problems) > 0:
			c.Detail += ": " + strings.Join(st.Problems, "; ")
		case !c.OK:
			c.Detail += ": not proved; run remit agents install " + st.Agent + " again"
		case st.Command == "":
			c.Detail += ", denies the agent's own tools"
		default:
			c.Detail += ", proved " + st.Proof.At.Format("2006-01-02 15:04") + " UTC"
		}
		if c.OK && len(st.Limits) > 0 {
			c.Detail += " (remit agents status says what it cannot guarantee)"
		}
		out = append(out, c)
	}
	return out
}

func check(name string, err error, detail string) Check {
	if err != nil {
		detail = err.Error()
	}
	return Check{Name: name, OK: err == nil, Detail: detail}
}
