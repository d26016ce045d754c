package postgres_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestNodesLearnOfARotatedKey has one node with the same keys' folder, and one with a copy.
func TestNodesLearnOfARotatedKey(t *testing.T) {
	ctx, home, other := context.Background(), t.TempDir(), t.TempDir()
	url := server.Schema(t, home)
	node := func(home string) *postgres.Store {
		t.Helper()
		s, err := postgres.Open(ctx, postgres.Options{Home: home, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		return s
	}
	first, neighbour := node(home), node(home)
	copyKeys := func() {
		t.Helper()
		for _, name := range []string{"ledger.key", "ledger.pub", "blob.key", "ledger.rotations", "state.key"} {
			b, err := os.ReadFile(filepath.Join(home, "keys", name))
			if errors.Is(err, os.ErrNotExist) {
				continue
			}
			if err == nil {
				err = errors.Join(os.MkdirAll(filepath.Join(other, "keys"), 0o700), os.WriteFile(filepath.Join(other, "keys", name), b, 0o600))
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	copyKeys()
	far := node(other)
	for _, s := range []*postgres.Store{first, neighbour, far} {
		if _, err := tryBegin(s); err != nil {
			t.Fatal(err)
		}
	}
	r, err := first.RotateKey(ctx, func(string) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tryBegin(neighbour); err != nil {
		t.Fatal(err)
	}
	if _, err := neighbour.Checkpoint(ctx); err != nil || neighbour.PublicKey() != r.New {
		t.Errorf("the neighbour signs with %s: %v", neighbour.PublicKey(), err)
	}
	if _, err := far.Checkpoint(ctx); !errors.Is(err, fault.StoreCorrupt) {
		t.Errorf("a node without the key signs: %v", err)
	}
	copyKeys()
	if _, err := tryBegin(far); err != nil {
		t.Error(err)
	}
	if _, err := far.Checkpoint(ctx); err != nil || far.PublicKey() != r.New {
		t.Errorf("with the new key: %v", err)
	}
	rep, err := far.Verify(ctx, store.VerifyOptions{})
	if err != nil || !rep.OK {
		t.Errorf("%+v, %v", rep.Problems, err)
	}
}
