package changes_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// While another process decides about a changeset, the ledger does not say that
// it was discarded.
func TestDiscardBesideAnotherDecision(t *testing.T) {
	homeDir, work := t.TempDir(), t.TempDir()
	a, err := app.New(home.Config{Dir: homeDir, User: "ann"}, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: w\nfiles:\n  write: {allow: [\"**\"]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if work, err = home.Workspace(work); err != nil {
		t.Fatal(err)
	}
	s, err := a.Runs.Begin(t.Context(), runs.Request{Name: "held", Root: p, Workspace: work, Changeset: true})
	if err != nil {
		t.Skipf("changes cannot be held here: %v", err)
	}
	_, err = s.Call(t.Context(), runner.Call{Tool: "fs.write", Args: tool.Args{"path": "f", "content": "x"}})
	if eerr := s.End(t.Context()); err != nil || eerr != nil {
		t.Fatal(err, eerr)
	}
	id := s.Result().ID.String()
	lock, err := os.OpenFile(filepath.Join(homeDir, "changes", id, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Changes.Discard(t.Context(), "", id); !errors.Is(err, fault.Conflict) {
		t.Errorf("beside another decision: %v", err)
	}
	if n := discards(t, a); n != 0 {
		t.Errorf("the ledger tells of %d discards where none took place", n)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Changes.Discard(t.Context(), "", id); err != nil {
		t.Fatal(err)
	}
	if n := discards(t, a); n != 1 {
		t.Errorf("the ledger tells of %d discards, want 1", n)
	}
}

// discards counts how often the ledger says that changes were discarded.
func discards(t *testing.T, a *app.App) (n int) {
	t.Helper()
	st, err := a.Store(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for e, err := range st.Events(t.Context(), 0) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Event.Kind == ledger.Changeset && e.Event.Change == ledger.ChangesDiscarded {
			n++
		}
	}
	return n
}
