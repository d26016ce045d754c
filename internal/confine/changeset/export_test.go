package changeset

import (
	"context"
	"os"
	"strings"
)

// OnPoint has f told at every step of the set's journals, for tests.
func (s *Set) OnPoint(f func(string)) { s.home.point = f }

// At gives a home whose journals tell f of every step, for tests.
func (h Home) At(f func(string)) Home {
	h.point = f
	return h
}

// Usage gives how many bytes and names a layer has, for tests.
func Usage(ctx context.Context, upper string) (bytes int64, names int, err error) {
	root, err := os.OpenRoot(upper)
	if err != nil {
		return 0, 0, err
	}
	defer func() { _ = root.Close() }() // only read
	u := usage{seen: map[[2]uint64]bool{}}
	err = u.add(ctx, root)
	return u.bytes, u.names, err
}

// ClearFolder removes what killed processes left in a folder, for tests.
func ClearFolder(abs string) error {
	root, err := rootFolder("/")
	if err != nil {
		return err
	}
	defer shut(root)
	clearFolder(root, strings.TrimPrefix(abs, "/"))
	return nil
}

// What is kept of a command.
const (
	MaxKept     = maxKept
	MaxKeptFile = maxKeptFile
)
