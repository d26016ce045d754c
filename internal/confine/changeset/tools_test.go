package changeset_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/files"
)

const everything = "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\", \"/**\"]}\n  write: {allow: [\"**\", \"/**\"]}\n"

// with carries an op out through the handle of the file tools.
func (o op) with(f *files.Files) error {
	ctx := context.Background()
	switch o.what {
	case "write":
		_, err := f.Write(o.a, []byte(o.b+o.mode.String()), files.WriteOptions{Mode: files.Replace})
		return err
	case "append":
		_, err := f.Write(o.a, []byte("+"+o.b), files.WriteOptions{Mode: files.Append, Parents: true})
		return err
	case "mkdir":
		_, err := f.Write(o.a+"/new", []byte("x"), files.WriteOptions{Parents: true})
		return err
	case "remove":
		return f.Remove(o.a)
	case "removeall":
		_, err := f.RemoveAll(ctx, o.a)
		return err
	default:
		return f.Rename(ctx, o.a, o.b, o.mode == 0o600, true)
	}
}

// seen prints what the handle shows of all there is.
func seen(t testing.TB, f *files.Files) string {
	out := ""
	_, err := f.Walk(context.Background(), ".", func(e files.Entry) error {
		out += fmt.Sprintf("%q %v", e.Path, e.Mode)
		if e.Mode.IsRegular() {
			b, err := f.ReadAll(e.Path)
			must(t, err)
			out += fmt.Sprintf(" %q", b)
		}
		out += "\n"
		return nil
	})
	must(t, err)
	return out
}

// The file tools do in a held run what they do in any other, and do not touch
// the workspace; applied, it is as if the run had not been held. What they do
// in a run that is not held can be taken back.
func TestFileTools(t *testing.T) {
	p := newPlace(t)
	n := 0
	rapid.Check(t, func(rt *rapid.T) {
		n++
		before := rapid.SliceOfN(genOp, 0, 10).Draw(rt, "before")
		during := rapid.SliceOfN(genOp, 1, 10).Draw(rt, "during")
		direct := filepath.Join(p.dir, fmt.Sprintf("direct%d", n))
		must(t, os.RemoveAll(p.ws), os.Mkdir(p.ws, 0o755), os.Mkdir(direct, 0o755))
		for _, o := range before {
			if o.what != "link" && o.what != "symlink" {
				_, _ = o.do(p.ws), o.do(direct)
			}
		}
		start := snapshot(t, p.ws)
		run, log := fmt.Sprintf("held%d", n), p.home.Log(fmt.Sprintf("direct%d", n))
		s, err := p.home.Begin(run, p.ws)
		must(t, err)
		hold := s.Hold(p.box.Overlay)
		if _, leave, err := hold.Enter(t.Context()); err != nil {
			t.Skip(err)
		} else {
			leave()
		}
		held := files.New(permittest.PermitWith(t, p.ws, everything, hold, nil))
		plain := files.New(permittest.PermitWith(t, direct, everything, nil, log))
		for _, o := range during {
			e1, e2 := o.with(held), o.with(plain)
			if fault.CodeOf(e1) != fault.CodeOf(e2) {
				rt.Fatalf("%+v: %v held, %v directly", o, e1, e2)
			}
		}
		if got, want := seen(t, held), seen(t, plain); got != want {
			rt.Fatalf("held, the tools see\n%s\nwant\n%s", got, want)
		}
		hold.Close()
		if got := snapshot(t, p.ws); got != start {
			rt.Fatalf("the workspace was touched:\n%s\nwas\n%s", got, start)
		}
		changes, err := s.Review(t.Context(), anything)
		must(t, err)
		if _, err := s.Apply(t.Context(), anything); err != nil {
			rt.Fatalf("apply: %v\n%s", err, list(changes))
		}
		if got, want := snapshot(t, p.ws), snapshot(t, direct); got != want {
			rt.Fatalf("applied\n%s\nwant\n%s", got, want)
		}
		must(t, log.Close())
		if _, err := p.home.Undo(fmt.Sprintf("direct%d", n)); err != nil && !errors.Is(err, fault.NotFound) {
			rt.Fatalf("undo: %v", err)
		}
		if got := snapshot(t, direct); got != start {
			rt.Fatalf("undone\n%s\nwant\n%s", got, start)
		}
	})
}

func TestHeldToolsStayInside(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "x"})
	must(t, os.Symlink("../out", p.ws+"/way"))
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	hold := s.Hold(p.box.Overlay)
	defer hold.Close()
	f := files.New(permittest.PermitWith(t, p.ws, everything, hold, nil))
	for _, to := range []string{p.dir + "/out/new", "way/new", "../out/new"} {
		_, err := f.Write(to, []byte("x"), files.WriteOptions{})
		wantCode(t, err, fault.HandleRefused)
	}
	wantCode(t, f.Rename(t.Context(), "f", p.dir+"/out/f", false, false), fault.HandleRefused)
	wantCode(t, f.Remove("way/secret"), fault.HandleRefused)
	if b, err := f.ReadAll("way/secret"); err != nil || string(b) != "CANARY" {
		t.Errorf("outside reads %q, %v", b, err) // the policy allows it
	}
	if names, err := os.ReadDir(p.dir + "/out"); err != nil || len(names) != 1 {
		t.Errorf("outside holds %v, %v", names, err)
	}
}
