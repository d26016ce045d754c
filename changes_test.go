package remit_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit"
)

// What an agent writes is held until somebody has looked at it.
func Example_changeset() {
	ctx := context.Background()
	dir, err := os.MkdirTemp("", "remit-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	work := filepath.Join(dir, "work")
	if err := os.Mkdir(work, 0o700); err != nil {
		log.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(work, "notes.txt"), []byte("buy milk\n"), 0o600); err != nil {
		log.Fatal(err)
	}
	rt, err := remit.Open(ctx, remit.Options{
		Home: filepath.Join(dir, "home"), Workspace: work, Changeset: true,
		PolicySource: []byte("version: 1\nname: writer\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"**\"]}\n"),
	})
	if err != nil {
		log.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	s, err := rt.Begin(ctx, "shopping")
	if err != nil {
		fmt.Println(err)
		return
	}
	if _, err := s.Call(ctx, "fs.write", map[string]any{"path": "notes.txt", "content": "buy oat milk\n"}); err != nil {
		log.Fatal(err)
	}
	if _, err := s.End(ctx); err != nil {
		log.Fatal(err)
	}

	held, err := rt.Changes(ctx, s.Run())
	if err != nil {
		log.Fatal(err)
	}
	for _, c := range held.Changes {
		fmt.Println(c.Kind, c.Path)
	}
	show := func() {
		b, err := os.ReadFile(filepath.Join(work, "notes.txt"))
		if err != nil {
			log.Fatal(err)
		}
		fmt.Print(string(b))
	}
	show()
	if _, err := rt.Apply(ctx, s.Run()); err != nil {
		log.Fatal(err)
	}
	show()
	if _, err := rt.Undo(ctx, s.Run()); err != nil {
		log.Fatal(err)
	}
	show()
	// Output:
	// modified notes.txt
	// buy milk
	// buy oat milk
	// buy milk
}

// heldRun makes a runtime whose runs are held, and one run that wrote a file.
func heldRun(t *testing.T) (rt *remit.Runtime, s *remit.Session, work string) {
	t.Helper()
	work = t.TempDir()
	rt, err := remit.Open(t.Context(), remit.Options{Home: t.TempDir(), Workspace: work, Changeset: true,
		PolicySource: []byte("version: 1\nname: w\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"**\"]}\n")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = rt.Close() })
	if s, err = rt.Begin(t.Context(), "held"); err != nil {
		t.Skipf("changes cannot be held here: %v", err)
	}
	if _, err := s.Call(t.Context(), "fs.write", map[string]any{"path": "a.txt", "content": "a"}); err != nil {
		t.Fatal(err)
	}
	return rt, s, work
}

func TestChangesOfARunThatGoesOn(t *testing.T) {
	rt, s, work := heldRun(t)
	for name, do := range map[string]func() error{
		"apply":   func() error { _, err := rt.Apply(t.Context(), s.Run()); return err },
		"undo":    func() error { _, err := rt.Undo(t.Context(), s.Run()); return err },
		"discard": func() error { return rt.Discard(t.Context(), s.Run()) },
	} {
		if err := do(); !errors.Is(err, remit.Conflict) {
			t.Errorf("%s of a run that goes on: %v", name, err)
		}
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := rt.Discard(t.Context(), s.Run()); err != nil {
		t.Fatal(err)
	}
	if held, err := rt.Changes(t.Context(), s.Run()); err != nil || held.State != "rejected" {
		t.Errorf("discarded, it is %q, %v", held.State, err)
	}
	if _, err := os.Lstat(filepath.Join(work, "a.txt")); err == nil {
		t.Error("what was discarded is in the workspace")
	}
}

// Undo is for what is in the workspace: a part that was applied, once.
func TestUndoOfAPart(t *testing.T) {
	rt, s, work := heldRun(t)
	if _, err := s.Call(t.Context(), "fs.write", map[string]any{"path": "b.txt", "content": "b"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Undo(t.Context(), s.Run()); !errors.Is(err, remit.NotFound) {
		t.Errorf("undo before apply: %v", err)
	}
	if done, err := rt.Apply(t.Context(), s.Run(), "b.txt"); err != nil || len(done) != 1 {
		t.Fatalf("applied %v, %v", done, err)
	}
	back, err := rt.Undo(t.Context(), s.Run())
	if err != nil || len(back.Restored) != 1 || back.Restored[0].Path != "b.txt" {
		t.Errorf("undone %+v, %v", back, err)
	}
	if _, err := rt.Undo(t.Context(), s.Run()); !errors.Is(err, remit.NotFound) {
		t.Errorf("undone twice: %v", err)
	}
	if left, err := os.ReadDir(work); err != nil || len(left) != 0 {
		t.Errorf("the workspace holds %v, %v", left, err)
	}
	if done, err := rt.Apply(t.Context(), s.Run()); err != nil || len(done) != 2 {
		t.Errorf("after the undo of a part, %v were applied, %v", done, err)
	}
}

// A run that is not held can be undone once it is over.
func TestUndoOfFileTools(t *testing.T) {
	work := t.TempDir()
	rt, err := remit.Open(t.Context(), remit.Options{Home: t.TempDir(), Workspace: work,
		PolicySource: []byte("version: 1\nname: w\nfiles:\n  write: {allow: [\"**\"]}\n")})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rt.Close() }()
	s, err := rt.Begin(t.Context(), "direct")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Call(t.Context(), "fs.write", map[string]any{"path": "a.txt", "content": "a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Undo(t.Context(), s.Run()); !errors.Is(err, remit.Conflict) {
		t.Errorf("undo of a run that goes on: %v", err)
	}
	if _, err := s.End(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := rt.Changes(t.Context(), s.Run()); !errors.Is(err, remit.NotFound) {
		t.Errorf("changes of a run that is not held: %v", err)
	}
	if back, err := rt.Undo(t.Context(), s.Run()); err != nil || len(back.Restored) != 1 {
		t.Errorf("undone %+v, %v", back, err)
	}
	if _, err := rt.Undo(t.Context(), s.Run()); !errors.Is(err, remit.Conflict) {
		t.Errorf("undone twice: %v", err)
	}
	if _, err := os.Lstat(filepath.Join(work, "a.txt")); err == nil {
		t.Error("it is still there")
	}
}
