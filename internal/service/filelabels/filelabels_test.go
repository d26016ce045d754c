package filelabels_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/filelabels"
)

const labels = `version: 1
files: {read: {allow: ["**"], deny: ["denied/**"]}, write: {allow: ["**"]}}
labels: {private: {from: ["files private/**"], kind: confidential}, web: {from: ["files web/**"]}}
flows: {private: {only: ["files kept/**"]}}
`

func chain(t *testing.T, workspace string, sources ...string) policy.Chain {
	t.Helper()
	var out policy.Chain
	for _, src := range sources {
		p, err := policy.Parse("test.yaml", []byte(src))
		if err != nil {
			t.Fatal(err)
		}
		r, err := p.Bind(policy.Env{Workspace: workspace, Home: "/home/ann"})
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

type place struct {
	t   *testing.T
	dir string
	st  *sqlite.Store
	c   policy.Chain
	f   *policy.Flows
	l   filelabels.Labels
}

func newPlace(t *testing.T) *place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), sqlite.Options{Home: t.TempDir(), Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = st.Close() })
	p := &place{t: t, dir: dir, st: st, c: chain(t, dir, labels), l: filelabels.Labels{Store: st}}
	if p.f, err = p.c.Flows(); err != nil {
		t.Fatal(err)
	}
	return p
}

func (p *place) write(name, content string) string {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o600)); err != nil {
		p.t.Fatal(err)
	}
	return path
}

func (p *place) give(changes ...ledger.FileLabel) {
	p.t.Helper()
	doc, err := json.Marshal(ledger.FileLabels{Changes: changes})
	if err == nil {
		_, err = p.st.Append(p.t.Context(), ledger.Entry{Event: ledger.Event{Kind: ledger.FilesLabelled, At: 1, Principal: "user:ann"}, Payload: ledger.Payload{ledger.PartDoc: doc}})
	}
	if err != nil {
		p.t.Fatal(err)
	}
}

// look finds the labels of what an action on a file names, of a call that starts processes.
func (p *place) look(name string) (tool.Action, runner.LabelsFound) {
	p.t.Helper()
	path := filepath.Join(p.dir, name)
	actions := []tool.Action{{Kind: tool.FileRead, Path: path, Real: path}}
	run := &runner.Run{Env: tool.Env{Workspace: p.dir}}
	out, err := p.l.Look(p.t.Context(), runner.LabelQuery{Run: run, Flows: p.f, Chain: p.c, Actions: actions, Process: true})
	if err != nil {
		p.t.Fatal(err)
	}
	return actions[0], out
}

// written is what a call wrote, with the labels.
func (p *place) written(given []string, paths ...string) {
	p.t.Helper()
	var all []ledger.FileLabel
	run := &runner.Run{Env: tool.Env{Workspace: p.dir}}
	err := p.l.Begin(nil).Written(p.t.Context(), run, paths, func(path string, key ledger.LabelKey) {
		all = append(all, ledger.FileLabel{File: ledger.PathKey(path), Labels: given})
		if key != "" {
			all = append(all, ledger.FileLabel{File: key, Labels: given})
		}
	})
	if err != nil {
		p.t.Fatal(err)
	}
	p.give(all...)
}

func TestLabelsByPathAndContent(t *testing.T) {
	p := newPlace(t)
	p.write("other", "the same siz")
	if a, out := p.look("out/x"); a.Labels != nil || out.Around != nil || out.Found != nil {
		t.Fatalf("at first: %+v, %+v", a, out)
	}
	p.written([]string{"web"}, p.write("out/x", "from a page!"), p.write("out/big", string(make([]byte, filelabels.MaxHashed+1))))
	p.write("copy", "from a page!")
	p.write("big", string(make([]byte, filelabels.MaxHashed+1)))
	for name, want := range map[string]string{"out/x": "[web]", "copy": "[web]", "other": "[]", "out/big": "[web]", "big": "[]", "none": "[]"} {
		if a, _ := p.look(name); fmt.Sprint(a.Labels) != want {
			t.Errorf("%s: labels %v, want %s", name, a.Labels, want)
		}
	}
	a, out := p.look("copy")
	if want := []ledger.FileLabel{{File: ledger.PathKey(filepath.Join(p.dir, "copy")), Labels: []string{"web"}}}; len(out.Found) != 1 || out.Found[0].File != want[0].File || !slices.Equal(out.Around, []string{"web"}) {
		t.Errorf("the copy: %+v, %+v; want %+v", a, out, want)
	}
	p.give(out.Found...)
	p.write("copy", "edited by a person")
	if a, _ := p.look("copy"); !slices.Equal(a.Labels, []string{"web"}) {
		t.Errorf("an edited copy has the labels %v", a.Labels)
	}
	if a, _ := p.look("out"); !slices.Equal(a.Below, []string{"web"}) || a.Labels != nil {
		t.Errorf("the folder: %+v", a)
	}
	// What is read where its path gives it a label is known wherever it is copied.
	p.write("private/plan", "the secret plan")
	_, out = p.look("private/plan")
	if len(out.Found) != 1 || out.Found[0].File.Content() == "" || !slices.Equal(out.Found[0].Labels, []string{"private"}) {
		t.Fatalf("found %+v", out.Found)
	}
	p.give(out.Found...)
	p.write("moved", "the secret plan")
	if a, _ := p.look("moved"); !slices.Equal(a.Labels, []string{"private"}) {
		t.Errorf("its copy has the labels %v", a.Labels)
	}
}

func TestLabelsAround(t *testing.T) {
	p := newPlace(t)
	around := func() []string { _, out := p.look("none"); return out.Around }
	p.give(ledger.FileLabel{File: ledger.PathKey(filepath.Join(p.dir, "gone")), Labels: []string{"web"}},
		ledger.FileLabel{File: ledger.PathKey(p.write("denied/x", "x")), Labels: []string{"web"}},
		ledger.FileLabel{File: ledger.PathKey("/etc/passwd"), Labels: []string{"web"}})
	if got := around(); got != nil {
		t.Errorf("of files that are gone, denied or elsewhere: %v", got)
	}
	folder := ledger.FolderKey("1.1", p.dir)
	p.give(ledger.FileLabel{File: folder, Labels: []string{"web"}})
	if got := around(); !slices.Equal(got, []string{"web"}) {
		t.Errorf("while a call writes: %v", got)
	}
	if a, _ := p.look("none"); !slices.Equal(a.Labels, []string{"web"}) {
		t.Errorf("a file there has %v", a.Labels)
	}
	p.give(ledger.FileLabel{File: folder, Clear: true})
	if got := around(); got != nil {
		t.Errorf("afterwards: %v", got)
	}
}

func TestFilesToWithhold(t *testing.T) {
	p := newPlace(t)
	var all []ledger.FileLabel
	for _, name := range []string{"a", "private/b", "denied/c"} {
		all = append(all, ledger.FileLabel{File: ledger.PathKey(p.write(name, name)), Labels: []string{"private"}})
	}
	p.give(append(all, ledger.FileLabel{File: ledger.PathKey(filepath.Join(p.dir, "gone")), Labels: []string{"private"}})...)
	having := func() policy.LabelledFiles {
		got, err := p.l.Having(t.Context(), p.f, p.c, "private")
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := having(); got.Unknown || !slices.Equal(got.Paths, []string{filepath.Join(p.dir, "a")}) {
		t.Errorf("files %+v", got)
	}
	all = nil
	for i := range 201 {
		all = append(all, ledger.FileLabel{File: ledger.PathKey(p.write(fmt.Sprint("many/", i), "x")), Labels: []string{"private"}})
	}
	p.give(all...)
	if got := having(); !got.Unknown {
		t.Errorf("of too many files: %d, not unknown", len(got.Paths))
	}
}

func TestWritableFolders(t *testing.T) {
	files := func(write string) string {
		return "version: 1\nfiles: {read: {allow: ['**']}, write: {" + write + "}}\n"
	}
	for name, tt := range map[string]struct {
		sources []string
		want    []string
	}{
		"all of the workspace":  {[]string{files("allow: ['**']")}, []string{"/ws"}},
		"folders and a file":    {[]string{files("allow: ['out/**', 'out/deep/**', 'a.txt', '~/x/*.md']")}, []string{"/home/ann/x", "/ws/a.txt", "/ws/out"}},
		"of two policies":       {[]string{files("allow: ['**']"), files("allow: ['out/**', '~/x/**']")}, []string{"/ws/out"}},
		"of two without common": {[]string{files("allow: ['a/**']"), files("allow: ['b/**']")}, nil},
		"nothing":               {[]string{files("allow: []")}, nil},
	} {
		if got := (filelabels.Labels{}).Begin(chain(t, "/ws", tt.sources...)).Folders(); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}

func TestClear(t *testing.T) {
	p, ctx := newPlace(t), context.Background()
	x, y := p.write("out/x", "from a page"), p.write("out/y", "another")
	p.written([]string{"web"}, x, y)
	p.give(ledger.FileLabel{File: ledger.FolderKey("1.1", filepath.Join(p.dir, "out")), Labels: []string{"web"}})
	if n, err := filelabels.Clear(ctx, p.st, x, "user:ann"); n != 1 || err != nil {
		t.Fatalf("cleared %d, %v", n, err)
	}
	p.write("copy", "from a page")
	if a, _ := p.look("copy"); a.Labels != nil {
		t.Errorf("a copy of what was cleared has %v", a.Labels)
	}
	if n, err := filelabels.Clear(ctx, p.st, filepath.Join(p.dir, "out"), "user:ann"); n != 2 || err != nil {
		t.Errorf("of the folder, cleared %d, %v", n, err)
	}
	if list, _, err := filelabels.List(ctx, p.st, filelabels.Query{}); len(list) > 0 || err != nil {
		t.Errorf("left are %+v, %v", list, err)
	}
	if _, err := filelabels.Clear(ctx, p.st, filepath.Join(p.dir, "none"), "user:ann"); !errors.Is(err, fault.NotFound) {
		t.Errorf("of nothing: %v", err)
	}
}
