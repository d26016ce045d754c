package database

import (
	"context"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/nodes"
)

// Node is a node of the ledger. A service has noted more about itself than a command.
type Node struct {
	postgres.Node

	Serves  bool     `json:"serves"`            // it is a service; else a command
	Version string   `json:"version,omitempty"` // of Remit
	Differs []string `json:"differs,omitempty"` // the settings that differ from the first service's, as "config.yaml"
}

// Nodes lists the nodes of a home's ledger.
func Nodes(ctx context.Context, h *home.Home) ([]Node, error) {
	var out []Node
	err := withNodes(ctx, h, true, func(s *postgres.Store) (err error) {
		out, err = NodesOf(ctx, s)
		return err
	})
	return out, err
}

// NodesOf lists the nodes of an open ledger. One in a file has none.
func NodesOf(ctx context.Context, st store.Backend) ([]Node, error) {
	s, ok := st.(*postgres.Store)
	if !ok {
		return []Node{}, nil
	}
	members, err := s.Nodes(ctx)
	if err != nil {
		return nil, err
	}
	notes, err := nodes.List(ctx, s)
	out := make([]Node, len(members))
	for i, m := range members {
		out[i].Node = m
		for _, n := range notes {
			if n.Name == m.Name {
				out[i].Serves, out[i].Version, out[i].Differs = true, n.Version, notes[0].Differences(n)
			}
		}
	}
	return out, err
}

// Services lists the nodes of the ledger that serve. ahead is by how many seconds this machine's clock
// is ahead of the ledger's; 0: by fewer than matter.
func Services(open func(context.Context) (store.Backend, error)) func(context.Context) (list []nodes.Service, ahead int, err error) {
	return func(ctx context.Context) (list []nodes.Service, ahead int, err error) {
		list = []nodes.Service{}
		st, err := open(ctx)
		if err != nil {
			return list, 0, err
		}
		if by := st.Ahead(); by.Abs() >= store.Apart {
			ahead = int(by.Seconds())
		}
		all, err := NodesOf(ctx, st)
		for _, n := range all {
			if n.Serves {
				list = append(list, nodes.Service{ID: n.ID.String(), Name: n.Name, Version: n.Version, Held: n.Lives, Differs: append([]string{}, n.Differs...)})
			}
		}
		return list, ahead, err
	}
}

// Removed is a node that was removed.
type Removed struct {
	postgres.Node
	Closed int `json:"closed_runs"` // its open runs, now interrupted
}

// RemoveNode removes a node by its ID or the beginning of it, see [postgres.Store.RemoveNode].
func RemoveNode(ctx context.Context, h *home.Home, id string, force bool) (Removed, error) {
	var out Removed
	err := withNodes(ctx, h, false, func(s *postgres.Store) error {
		if len(id) < 4 {
			return fault.New(fault.Usage, "%q is not a node ID; write at least its first 4 characters", id).ForOperator("remit db nodes lists them")
		}
		all, err := s.Nodes(ctx)
		if err != nil {
			return err
		}
		found := 0
		for _, n := range all {
			if strings.HasPrefix(n.ID.String(), id) {
				out.Node = n
				found++
			}
		}
		switch found {
		case 0:
			return fault.New(fault.NotFound, "no node of the ledger has an ID that begins with %q", id).ForOperator("remit db nodes lists them")
		case 1:
		default:
			return fault.New(fault.Usage, "%d nodes have an ID that begins with %q; write more of it", found, id).ForOperator("remit db nodes lists them")
		}
		if out.Closed, err = s.RemoveNode(ctx, out.ID, force); err != nil {
			return err
		}
		return home.Operated(ctx, s, "node.remove", ledger.OperatorAction{Target: out.ID.String()}, 0)
	})
	return out, err
}

// withNodes opens the ledger's database for a moment.
func withNodes(ctx context.Context, h *home.Home, readOnly bool, do func(*postgres.Store) error) error {
	o, err := Options(h)
	if err != nil {
		return err
	}
	o.ReadOnly = readOnly
	s, err := postgres.Open(ctx, o)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}
