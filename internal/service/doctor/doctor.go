// Package doctor inspects $REMIT_HOME for remit doctor: the ledger, copies for undoing, the
// hooks in other agents, the witnesses, and the nodes. Start at [Doctor.Check].
package doctor

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/changes"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// Doctor inspects one $REMIT_HOME.
type Doctor struct {
	Home      *home.Home
	Changes   *changes.Changes
	Clients   *clients.Clients
	Witnesses *witnesses.Witnesses
}

// Check is one result.
type Check struct {
	Name   string `json:"name"`
	OK     bool   `json:"ok"`
	Detail string `json:"detail"`
}

// Check inspects the state folder and the ledger. It changes neither, but opens the ledger.
func (d *Doctor) Check(ctx context.Context) []Check {
	st, lerr := d.Home.Ledger(ctx)
	undo, uerr := d.Changes.Summary()
	list := append([]Check{
		{Name: "state", OK: true, Detail: d.Home.Dir},
		check("ledger", lerr, fmt.Sprintf("%s, durable against loss of %s", filepath.Join(d.Home.Dir, "remit.db"), d.Home.Settings.Durability)),
		check("undo", uerr, undo),
	}, d.hooks()...)
	if lerr != nil {
		return list
	}
	if apart := st.Ahead().Round(time.Second); apart.Abs() >= store.Apart {
		list = append(list, Check{Name: "clock", Detail: fmt.Sprintf("%s away from that of the database; set both, for example with NTP", apart)})
	}
	all, err := d.Witnesses.Status(ctx, st)
	if err != nil {
		list = append(list, check("witnesses", err, ""))
	}
	for _, w := range all {
		list = append(list, Check{Name: "witness " + w.Name, OK: !w.Behind, Detail: w.Detail()})
	}
	return append(list, d.nodes(ctx, st)...)
}

// nodes lists the serving nodes and the expired ones.
func (d *Doctor) nodes(ctx context.Context, st store.Backend) (out []Check) {
	all, err := database.NodesOf(ctx, st)
	if err != nil {
		return []Check{check("nodes", err, "")}
	}
	for _, n := range all {
		c := Check{Name: "node " + n.Name, OK: true, Detail: n.Version}
		switch {
		case !n.Lives:
			c.OK, c.Detail = false, "its lease is over; remit db nodes remove removes a node that does not come back"
		case !n.Serves:
			continue
		case len(n.Differs) > 0:
			c.OK, c.Detail = false, n.Version+", differs from the first node in: "+strings.Join(n.Differs, ", ")
		}
		out = append(out, c)
	}
	return out
}

// hooks checks the hooks in other agents.
func (d *Doctor) hooks() []Check {
	list, err := d.Clients.Status("")
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
