package tree

import (
	"context"
	"os"

	"github.com/remitrun/remit/internal/base/walk"
)

// ScanWithin is Scan with a budget of its own, for tests.
func ScanWithin(ctx context.Context, root *os.Root, b walk.Budget) error {
	_, err := scan(ctx, root, func(string) bool { return true }, &b)
	return err
}
