package app

import (
	"context"
	"fmt"
	"path/filepath"
)

// Check is one thing that `remit doctor` looks at.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Check looks at the state folder and the ledger without changing either
// beyond what opening the ledger does.
func (a *App) Check(ctx context.Context) []Check {
	out := []Check{{Name: "state", OK: true, Detail: a.Home.Dir}}
	_, err := a.Store(ctx)
	c := Check{Name: "ledger", OK: err == nil, Detail: fmt.Sprintf("%s, durable against loss of %s",
		filepath.Join(a.Home.Dir, "remit.db"), a.Home.Settings.Durability)}
	if err != nil {
		c.Detail = err.Error()
	}
	return append(out, c, a.keptCheck())
}
