package database

import (
	"context"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/service/home"
)

// Nodes lists the nodes of a home's ledger.
func Nodes(ctx context.Context, h *home.Home) ([]postgres.Node, error) {
	var out []postgres.Node
	err := withNodes(ctx, h, true, func(s *postgres.Store) (err error) {
		out, err = s.Nodes(ctx)
		return err
	})
	return out, err
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
