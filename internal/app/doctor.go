package app

import (
	"context"
	"fmt"
	"path/filepath"
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
	return []Check{
		{Name: "state", OK: true, Detail: a.Home.Dir},
		check("ledger", lerr, fmt.Sprintf("%s, durable against loss of %s", filepath.Join(a.Home.Dir, "remit.db"), a.Home.Settings.Durability)),
		check("undo", uerr, undo),
	}
}

func check(name string, err error, detail string) Check {
	if err != nil {
		detail = err.Error()
	}
	return Check{Name: name, OK: err == nil, Detail: detail}
}
