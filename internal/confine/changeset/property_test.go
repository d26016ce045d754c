package changeset_test

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"
)

// op is one thing that a run does to files.
type op struct {
	what, a, b string
	mode       os.FileMode
}

// do carries an op out in a folder; whether it is possible depends on what is
// there, and is the same wherever the same is there.
func (o op) do(root string) error {
	a, b := filepath.Join(root, o.a), filepath.Join(root, o.b)
	switch o.what {
	case "write":
		return os.WriteFile(a, []byte(o.b+o.mode.String()), 0o644)
	case "append":
		f, err := os.OpenFile(a, os.O_WRONLY|os.O_APPEND, 0)
		if err != nil {
			return err
		}
		_, err = f.WriteString("+" + o.b)
		_ = f.Close()
		return err
	case "mkdir":
		return os.Mkdir(a, 0o755)
	case "remove":
		return os.Remove(a)
	case "removeall":
		return os.RemoveAll(a)
	case "rename":
		if fi, err := os.Lstat(a); err != nil || fi.IsDir() { // overlayfs copies folders, by way of EXDEV
			return os.ErrInvalid
		}
		return os.Rename(a, b)
	case "link":
		return os.Link(a, b)
	case "symlink":
		return os.Symlink(o.b, a)
	case "chmod":
		if fi, err := os.Lstat(a); err != nil || fi.Mode()&os.ModeSymlink != 0 {
			return os.ErrInvalid
		}
		if fi, err := os.Lstat(a); err == nil && fi.IsDir() {
			return os.Chmod(a, o.mode|0o700) // or an ordinary user could not look inside
		}
		return os.Chmod(a, o.mode)
	}
	return nil
}

var genPath = rapid.SampledFrom([]string{"a", "b", "c", "d/a", "d/b", "d/e/a", "d/e/b", "d", "d/e", "f", "f/a", "f/g", "f/g/h"})

var genOp = rapid.Custom(func(t *rapid.T) op {
	return op{
		what: rapid.SampledFrom([]string{"write", "append", "mkdir", "remove", "removeall", "rename", "link", "symlink", "chmod"}).Draw(t, "what"),
		a:    genPath.Draw(t, "a"), b: genPath.Draw(t, "b"),
		mode: rapid.SampledFrom([]os.FileMode{0o644, 0o600, 0o755, 0o700}).Draw(t, "mode"),
	}
})

// What a held run sees, and what applying its changes makes of the workspace,
// is what the same operations make of it directly; undo takes it all back; and
// until it is applied the workspace is untouched.
func TestHeldIsDirect(t *testing.T) {
	p := newPlace(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		before := rapid.SliceOfN(genOp, 0, 12).Draw(rt, "before")
		during := rapid.SliceOfN(genOp, 1, 12).Draw(rt, "during")
		direct := filepath.Join(p.dir, fmt.Sprintf("direct%d", n))
		must(t, os.RemoveAll(p.ws), os.Mkdir(p.ws, 0o755), os.Mkdir(direct, 0o755))
		for _, o := range before {
			if o.what == "link" { // overlayfs parts the names of one file when it copies it up
				continue
			}
			if e1, e2 := o.do(p.ws), o.do(direct); (e1 == nil) != (e2 == nil) {
				rt.Fatalf("%+v: %v and %v", o, e1, e2)
			}
		}
		start := snapshot(t, p.ws)
		s := p.reviewed(t, fmt.Sprintf("run%d", n), func(root string) {
			for _, o := range during {
				e1, e2 := o.do(root), o.do(direct)
				if (e1 == nil) != (e2 == nil) {
					rt.Fatalf("%+v: %v held, %v directly", o, e1, e2)
				}
			}
			if got, want := snapshot(t, root+"/"), snapshot(t, direct); got != want {
				rt.Fatalf("a held run sees\n%s\nwant\n%s", got, want)
			}
		})
		if got := snapshot(t, p.ws); got != start {
			rt.Fatalf("the workspace was touched before anything was applied:\n%s\nwas\n%s", got, start)
		}
		changes, err := s.Changes(t.Context(), anything)
		if err != nil {
			rt.Fatal(err)
		}
		if _, err := s.Apply(t.Context(), anything); err != nil {
			rt.Fatalf("apply: %v\n%s", err, list(changes))
		}
		if got, want := snapshot(t, p.ws), snapshot(t, direct); got != want {
			rt.Fatalf("applied\n%s\nwant\n%s\nchanges\n%s", got, want, list(changes))
		}
		if len(changes) > 0 {
			if _, err := p.home.Undo(s.Run()); err != nil {
				rt.Fatalf("undo: %v", err)
			}
		}
		if got := snapshot(t, p.ws); got != start {
			rt.Fatalf("undone\n%s\nwant\n%s", got, start)
		}
	})
}
