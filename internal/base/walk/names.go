package walk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// Budget limits the names that a walk keeps in memory. The zero Budget is used up.
type Budget struct {
	Names int
	Bytes int // of the names and their paths
}

// Most is the budget of a walk that keeps all names: a million, with 128 MiB.
func Most() *Budget { return &Budget{Names: 1_000_000, Bytes: 128 << 20} }

// Take uses up a part. If less is left, the error is ErrMany.
func (b *Budget) Take(names, bytes int) error {
	b.Names, b.Bytes = b.Names-names, b.Bytes-bytes
	if b.Names < 0 || b.Bytes < 0 {
		return ErrMany
	}
	return nil
}

// Reader reads until a context ends, so that a large file does not outlast it.
func Reader(ctx context.Context, r io.Reader) io.Reader { return untilDone{ctx, r} }

type untilDone struct {
	ctx context.Context
	r   io.Reader
}

func (u untilDone) Read(b []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.r.Read(b)
}

// Names lists an open folder, sorted. It takes the names from the budget.
func Names(ctx context.Context, dir *os.File, b *Budget) ([]string, error) {
	var out []string
	err := Each(ctx, dir, func(name string) error {
		out = append(out, name)
		return b.Take(1, len(name))
	})
	slices.Sort(out)
	return out, err
}

// Entries lists an open folder, sorted by name. It takes the names from the budget.
func Entries(ctx context.Context, dir *os.File, b *Budget) ([]fs.DirEntry, error) {
	var out []fs.DirEntry
	err := each(ctx, dir.ReadDir, func(e fs.DirEntry) error {
		out = append(out, e)
		return b.Take(1, len(e.Name()))
	})
	slices.SortFunc(out, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return out, err
}

// Each calls do for every name in an open folder, in any order, until it fails.
func Each(ctx context.Context, dir *os.File, do func(name string) error) error {
	return each(ctx, dir.Readdirnames, do)
}

func each[T any](ctx context.Context, read func(n int) ([]T, error), do func(T) error) error {
	for {
		some, end := read(batch)
		for _, one := range some {
			if err := do(one); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		switch {
		case errors.Is(end, io.EOF):
			return nil
		case end != nil:
			return end
		}
	}
}
