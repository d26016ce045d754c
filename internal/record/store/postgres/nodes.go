package postgres

import (
	"context"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
)

// Node is a member of the ledger.
type Node struct {
	ID    uuid.UUID     `json:"node_id"`
	Name  string        `json:"name"`       // its machine and process
	Lease time.Duration `json:"-"`          // its length
	Left  time.Duration `json:"-"`          // until its lease is over; negative: since then
	Lives bool          `json:"lease_held"` // the lease is neither over nor further away than its length
}

const (
	selectNodes = `SELECT id, name, lease, (extract(epoch FROM lease_until - clock_timestamp()) * 1000000)::bigint FROM members ORDER BY name, id`

	// removeNode tells whether the member stays. One that is gone was perhaps removed by a message
	// whose answer was lost.
	removeNode = `WITH gone AS (DELETE FROM members WHERE id = $1 AND ($2 OR lease_until <= clock_timestamp() OR lease_until > clock_timestamp() + lease * interval '1 microsecond') RETURNING id)
SELECT EXISTS (SELECT FROM members WHERE id = $1 AND id NOT IN (SELECT id FROM gone))`
)

// Nodes lists the members.
func (s *Store) Nodes(ctx context.Context) ([]Node, error) {
	out := []Node{}
	rows, err := s.read.QueryContext(ctx, selectNodes)
	if err != nil {
		return nil, s.fault(err, "the nodes cannot be read")
	}
	defer rows.Close()
	for rows.Next() {
		var n Node
		var lease, left int64
		if err := rows.Scan(&n.ID, &n.Name, &lease, &left); err != nil {
			return nil, s.fault(err, "the nodes cannot be read")
		}
		n.Lease, n.Left = time.Duration(lease)*time.Microsecond, time.Duration(left)*time.Microsecond
		n.Lives = left > 0 && left <= lease
		out = append(out, n)
	}
	return out, s.fault(rows.Err(), "the nodes cannot be read")
}

// RemoveNode removes a member that does not come back, and closes its runs. Other nodes take
// its turns over. A member whose lease is not over is removed only with force: it then does
// nothing more.
func (s *Store) RemoveNode(ctx context.Context, id uuid.UUID, force bool) (closed int, err error) {
	if id == s.me() {
		return 0, fault.New(fault.Usage, "%s is this process", id)
	}
	var stays bool
	err = s.repeat(ctx, "the node cannot be removed", func(ctx context.Context) error {
		return s.durable.QueryRowContext(ctx, removeNode, id, force).Scan(&stays)
	})
	if err == nil && stays {
		return 0, fault.New(fault.Conflict, "the lease of the node %s is not over", id).WithHint("stop that node and wait for the end of its lease, or add --force")
	}
	if err != nil {
		return 0, err
	}
	return s.Recover(ctx)
}
