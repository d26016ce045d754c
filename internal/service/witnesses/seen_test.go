package witnesses_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// grow opens a ledger, adds events and a checkpoint, and closes it.
func grow(t *testing.T, dir string, events int) {
	t.Helper()
	a := apptest.New(t, dir)
	st, err := a.Store(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	for range events {
		if err := home.Operated(context.Background(), st, "test", ledger.OperatorAction{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := st.Checkpoint(context.Background()); err != nil {
		t.Fatal(err)
	}
	closeApp(t, a)
}

func closeApp(t *testing.T, a *app.App) {
	t.Helper()
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
}

// database reads the file of a ledger, or writes an older one back.
func database(t *testing.T, dir string, older []byte) []byte {
	t.Helper()
	file := filepath.Join(dir, "remit.db")
	if older != nil {
		for _, end := range []string{"-wal", "-shm"} {
			if err := os.RemoveAll(file + end); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.WriteFile(file, older, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestAnOlderCopyIsNoticedHere puts an older copy of the ledger back, without a witness: one that is
// shorter, and ones that were continued to fewer, as many and more events than before.
func TestAnOlderCopyIsNoticedHere(t *testing.T) {
	dir, ctx := filepath.Join(t.TempDir(), "home"), context.Background()
	grow(t, dir, 3)
	older := database(t, dir, nil)
	grow(t, dir, 9)
	seen, err := os.ReadFile(filepath.Join(dir, witnesses.SeenFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{0, 2, 9, 20} {
		database(t, dir, older)
		if err := os.Remove(filepath.Join(dir, witnesses.SeenFile)); err != nil {
			t.Fatal(err)
		}
		if more > 0 {
			grow(t, dir, more)
		}
		if err := os.WriteFile(filepath.Join(dir, witnesses.SeenFile), seen, 0o600); err != nil {
			t.Fatal(err)
		}
		a := apptest.New(t, dir)
		if _, err := a.Store(ctx); !errors.Is(err, fault.RolledBack) {
			t.Errorf("an older copy with %d other events is opened: %v", more, err)
		}
		if st, err := a.Reader(ctx); err != nil {
			t.Errorf("it cannot be read: %v", err)
		} else if _, err := st.Head(ctx); err != nil {
			t.Error(err)
		}
		closeApp(t, a)
		if now, err := os.ReadFile(filepath.Join(dir, witnesses.SeenFile)); err != nil || string(now) != string(seen) {
			t.Fatalf("a refused ledger changes the note (%v)", err)
		}
	}
	a := apptest.New(t, dir)
	if d, err := a.Witnesses.Accept(ctx, witnesses.Here); err != nil || d == nil {
		t.Fatalf("it cannot be accepted: %v, %v", d, err)
	}
	closeApp(t, a)
	grow(t, dir, 1)
	database(t, dir, older)
	a = apptest.New(t, dir)
	if _, err := a.Store(ctx); !errors.Is(err, fault.RolledBack) {
		t.Errorf("after the acceptance nothing is noticed any more: %v", err)
	}
	closeApp(t, a)
}

// TestANoteOfAnotherLedgerDoesNotCount replaces the note by one of another ledger, and by other texts.
func TestANoteOfAnotherLedgerDoesNotCount(t *testing.T) {
	other, dir := filepath.Join(t.TempDir(), "other"), filepath.Join(t.TempDir(), "home")
	grow(t, other, 20)
	grow(t, dir, 2)
	foreign, err := os.ReadFile(filepath.Join(other, witnesses.SeenFile))
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range [][]byte{foreign, nil, []byte("cut off")} {
		if err := os.WriteFile(filepath.Join(dir, witnesses.SeenFile), b, 0o600); err != nil {
			t.Fatal(err)
		}
		grow(t, dir, 1)
		if now, err := os.ReadFile(filepath.Join(dir, witnesses.SeenFile)); err != nil || len(now) == 0 || string(now) == string(b) {
			t.Errorf("the note %.40q stays (%v)", b, err)
		}
	}
}

// older is a ledger whose database was replaced by an older copy while it is open.
type older struct {
	store.Backend

	head atomic.Pointer[ledger.Checkpoint] // nil: the ledger's own
}

func (o *older) Head(ctx context.Context) (ledger.Checkpoint, error) {
	if h := o.head.Load(); h != nil {
		return *h, nil
	}
	return o.Backend.Head(ctx)
}

// TestAServiceEndsWhenItsLedgerGoesBack, and notes newer checkpoints before that.
func TestAServiceEndsWhenItsLedgerGoesBack(t *testing.T) {
	defer witnesses.SeeOften()()
	ctx := context.Background()
	a, st := node(t, 3)
	was, err := st.Head(ctx)
	if err != nil {
		t.Fatal(err)
	}
	o := &older{Backend: st}
	err = a.Witnesses.While(ctx, o, func(ctx context.Context) error {
		if err := home.Operated(ctx, st, "test", ledger.OperatorAction{}, 0); err != nil {
			return err
		}
		if _, err := st.Checkpoint(ctx); err != nil {
			return err
		}
		for {
			if _, err := os.Stat(filepath.Join(a.Home.Dir, witnesses.SeenFile)); err == nil {
				break
			}
			time.Sleep(time.Millisecond)
		}
		o.head.Store(&was)
		<-ctx.Done()
		return context.Cause(ctx)
	})
	if !errors.Is(err, fault.RolledBack) {
		t.Errorf("the service ends with %v", err)
	}
}

// reckoned counts how often a part of the log is hashed, and how often a signature is verified.
type reckoned struct {
	store.Backend

	times int
}

func (r *reckoned) TreeAt(ctx context.Context, size int64) (tlog.Hash, error) {
	r.times++
	return r.Backend.TreeAt(ctx, size)
}

func (r *reckoned) OpenCheckpoint(signed []byte) (ledger.Checkpoint, error) {
	r.times++
	return r.Backend.OpenCheckpoint(signed)
}

// TestAShortProcessHashesNothing that opens the ledger and closes it, as the hook of another agent
// does, wherever the ledger's end is. Each such process would pay for it.
func TestAShortProcessHashesNothing(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "home")
	grow(t, dir, 9)
	a := apptest.New(t, dir)
	st, err := a.Store(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Witnesses.See(ctx, st); err != nil {
		t.Fatal(err)
	}
	for events := range 3 {
		r := &reckoned{Backend: st}
		if err := errors.Join(a.Witnesses.CheckHere(ctx, r), a.Witnesses.See(ctx, r)); err != nil || r.times > 0 {
			t.Errorf("%d events after the noted checkpoint: hashed or verified %d times, %v", events, r.times, err)
		}
		if err := home.Operated(ctx, st, "test", ledger.OperatorAction{}, 0); err != nil {
			t.Fatal(err)
		}
	}
	closeApp(t, a)
}
