package nodes

import (
	"context"

	"github.com/remitrun/remit/internal/record/store"
)

// Note writes the record of a node.
func Note(ctx context.Context, st store.Ephemera, n Node) error {
	return (&watch{store: st}).note(ctx, n)
}
