// Package witness sends a ledger's checkpoints to witnesses, which remember them in another
// place, so that a ledger that was rolled back or rewritten is found out. [Service] is a
// witness for other ledgers. Start at [Witness].
package witness

import (
	"context"
	"fmt"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/record/ledger"
)

// Log is the part of a ledger that a witness needs.
type Log interface {
	Origin() string
	Checkpoint(ctx context.Context) ([]byte, error)
	Head(ctx context.Context) (ledger.Checkpoint, error)
	TreeAt(ctx context.Context, size int64) (tlog.Hash, error)
	ProveExtension(ctx context.Context, size, old int64) (tlog.TreeProof, error)
	OpenCheckpoint(signed []byte) (ledger.Checkpoint, error)
}

// Witness remembers checkpoints of a ledger in a place that the ledger's owner does not
// control, or at least in another one.
type Witness interface {
	// Check compares the witness's copy with the ledger, without a change there. A witness that
	// cannot be asked without one is not checked. A [Disagreement] is an error.
	Check(ctx context.Context, l Log) error
	// Send gives the witness the ledger's newest checkpoint, and checks first that this extends the
	// witness's copy. known is the last result of Send, nil if that is not known.
	Send(ctx context.Context, l Log, known []byte) (kept []byte, err error)
}

// Disagreement is the error of a witness that has seen a history which the ledger does not
// have.
type Disagreement struct {
	Size   int64      // of the log that the witness has seen
	Root   *tlog.Hash // of that log; nil: the witness does not say
	Ledger ledger.Checkpoint
	Signed bool // the ledger's own signature proves the witness's state; else it is the witness's word
}

func (d *Disagreement) Error() string {
	has := fmt.Sprintf("%d events", d.Size)
	if d.Root != nil {
		has += " with the root " + d.Root.String()
	}
	if d.Size > d.Ledger.Size {
		return fmt.Sprintf("it has %s, the ledger has only %d with the root %s", has, d.Ledger.Size, d.Ledger.Root)
	}
	return fmt.Sprintf("it has %s, which are not the first %d of the ledger's %d", has, d.Size, d.Ledger.Size)
}

// Compare checks that a ledger extends a checkpoint that it signed once.
func Compare(ctx context.Context, l Log, signed []byte) error {
	c, err := l.OpenCheckpoint(signed)
	if err != nil {
		return err
	}
	head, err := l.Head(ctx)
	if err != nil {
		return err
	}
	if c.Size == head.Size && c.Root == head.Root {
		return nil
	}
	if c.Size <= head.Size {
		root, err := l.TreeAt(ctx, c.Size)
		if err != nil || root == c.Root {
			return err
		}
	}
	return &Disagreement{Size: c.Size, Root: &c.Root, Ledger: head, Signed: true}
}
