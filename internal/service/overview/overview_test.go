package overview

import (
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var (
	someFolders = []string{"", "d", "d/e", "node_modules", "node_modules/m", "venv", ".git", ".git/hooks", "env", "d/.vscode", "hooks", "objects", "refs"}
	someFiles   = []string{"a.txt", "Makefile", "package.json", "x.py", "conftest.py", "tool", "config", "pyvenv.cfg", "HEAD", "index.js", "b.pth"}
	someLinks   = []string{"a.txt", "../a.txt", "x.py", "../d", "d", "../d/e", "e", "node_modules", "/"}
)

// project is a folder that changes at random.
type project struct {
	t     *testing.T
	dir   string
	r     *rand.Rand
	moved []string // folders: what is in them stays as it is, see TestWhatChangedIsListed
	did   []string
	since time.Time
}

func (p *project) any(of []string) string { return of[p.r.IntN(len(of))] }

func (p *project) file() string { return filepath.Join(p.dir, p.any(someFolders), p.any(someFiles)) }

// free reports whether a path is in no folder that was moved.
func (p *project) free(file string) bool {
	real, err := filepath.EvalSymlinks(filepath.Dir(file))
	return err == nil && !slices.ContainsFunc(p.moved, func(m string) bool { return strings.HasPrefix(real+"/", m+"/") })
}

func (p *project) change() {
	a, b := p.file(), p.file()
	if !p.free(a) || !p.free(b) {
		return
	}
	switch kind := p.r.IntN(9); kind {
	case 0:
		_ = os.WriteFile(a, []byte(fmt.Sprint("new ", p.r.Int())), 0o600)
	case 1:
		_ = os.Rename(a, b)
	case 2:
		_ = os.Remove(a)
	case 3:
		_ = os.Symlink(p.any(someLinks), a)
	case 4:
		_ = os.Link(a, b)
	case 5:
		_ = os.Chmod(a, 0o700)
	case 6:
		if i, err := os.Lstat(a); err == nil && i.Mode().IsRegular() {
			_ = os.WriteFile(a, []byte(fmt.Sprint("old ", p.r.Int())), 0o600)
			_ = os.Chtimes(a, time.Unix(1, 0), time.Unix(1, 0))
		}
	case 7, 8:
		from, to := filepath.Join(p.dir, p.any(someFolders[1:])), filepath.Join(p.dir, p.any(someFolders), p.any([]string{"n", "env", "venv", "hooks"}))
		if i, err := os.Lstat(from); err == nil && i.ModTime().Before(p.since) && p.free(from) && p.free(to) && os.Rename(from, to) == nil {
			p.moved = append(p.moved, to)
			p.did = append(p.did, "mv "+from+" "+to)
		}
		return
	}
	p.did = append(p.did, fmt.Sprint("change ", a, " ", b))
}

// run gives the content of each file that programs run, by its path.
func (p *project) run() map[string]string {
	out, k := map[string]string{}, newKinds()
	var look func(dir, rel, in string, deep int)
	look = func(dir, rel, in string, deep int) {
		list, _ := os.ReadDir(dir) // it may lead nowhere
		names := map[string]bool{}
		for _, e := range list {
			names[e.Name()] = true
		}
		if names["pyvenv.cfg"] && in == "" {
			in = "venv"
		}
		for _, e := range list {
			file, sub, who := filepath.Join(dir, e.Name()), filepath.Join(rel, e.Name()), in
			if f := k.folder(e.Name()); f != "" && who == "" && !e.Type().IsRegular() {
				who = f
			} else if (names["HEAD"] && names["objects"] && names["refs"] || filepath.Base(rel) == ".git") && (e.Name() == "hooks" || e.Name() == "config") {
				who = git
			}
			info, err := os.Stat(file)
			switch {
			case err != nil:
			case info.IsDir():
				if real, _ := filepath.EvalSymlinks(file); deep < 4 && strings.HasPrefix(real, p.dir+"/") && !strings.HasPrefix(p.dir+"/"+sub, real+"/") {
					look(file, sub, who, deep+1)
				}
			case strings.Contains(sub+"/", ".git/") && who == "" && !strings.HasSuffix(sub, "config"):
			case who != "" || k.file(sub) != "" || info.Mode()&0o111 != 0:
				b, err := os.ReadFile(file)
				must(p.t, err)
				out[sub] = fmt.Sprintf("%t %s", info.Mode()&0o111 != 0, b)
			}
		}
	}
	look(p.dir, "", "", 0)
	return out
}

// listed reports whether a status has a file, under any of its paths.
func (p *project) listed(v Status, file string) bool {
	is, err := filepath.EvalSymlinks(filepath.Join(p.dir, file))
	must(p.t, err)
	return slices.ContainsFunc(v.Files, func(c Changed) bool {
		at, err := filepath.EvalSymlinks(filepath.Join(p.dir, c.Path))
		below := strings.TrimPrefix(c.Path, "./")
		return strings.HasSuffix(c.Path, "/") && strings.HasPrefix(file, below) || err == nil && (is == at || strings.HasSuffix(c.Path, "/") && strings.HasPrefix(is, at+"/"))
	})
}

// TestWhatChangedIsListed: projects change at random: each path that programs run and at which there is something else than
// before is listed, and nothing is where nothing changed. Not known is of a folder that was changed and moved what was in it
// before.
func TestWhatChangedIsListed(t *testing.T) {
	const projects = 240
	all := make([]*project, projects)
	for i := range all {
		dir, err := filepath.EvalSymlinks(t.TempDir())
		must(t, err)
		p := &project{t: t, dir: dir, r: rand.New(rand.NewPCG(uint64(i), 1))}
		for _, f := range someFolders {
			must(t, os.MkdirAll(filepath.Join(dir, f), 0o700))
		}
		for range p.r.IntN(25) {
			f := p.file()
			_ = os.WriteFile(f, []byte(f), 0o600)      // a link may lead nowhere
			_ = os.Symlink(p.any(someLinks), p.file()) // if there is nothing
		}
		all[i] = p
	}
	time.Sleep(tick + 300*time.Millisecond)
	since := time.Now()
	time.Sleep(tick + 300*time.Millisecond)
	changed := 0
	for i, p := range all {
		p.since = since
		before := p.run()
		for range i % 24 {
			p.change()
		}
		v, err := (&Overview{Undo: changeset.In(t.TempDir())}).Look(t.Context(), p.dir, since)
		must(t, err)
		for file, is := range p.run() {
			if is != before[file] {
				changed++
				if !p.listed(v, file) {
					t.Errorf("%d: %s was %q and is %q: not in %+v\n%s", i, file, before[file], is, v.Files, strings.Join(p.did, "\n"))
				}
			}
		}
		if i%24 == 0 && len(v.Files)+len(v.Gaps) > 0 {
			t.Errorf("nothing changed: %+v", v)
		}
	}
	if changed < projects {
		t.Errorf("only %d paths changed", changed)
	}
}

// look gives the state of a folder, with all that changed since a time.
func look(t *testing.T, dir string, since time.Time) Status {
	t.Helper()
	dir, err := filepath.EvalSymlinks(dir)
	must(t, err)
	v, err := (&Overview{Undo: changeset.In(t.TempDir())}).Look(t.Context(), dir, since)
	must(t, err)
	return v
}

// paths are those of a status, then those of its gaps.
func (v Status) paths() (out []string) {
	for _, c := range v.Files {
		out = append(out, c.Path)
	}
	for _, g := range v.Gaps {
		out = append(out, "! "+g.Path)
	}
	return out
}

func write(t *testing.T, parts ...string) {
	t.Helper()
	file := filepath.Join(parts...)
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	must(t, os.WriteFile(file, nil, 0o600))
}

// TestLinksOutOfTheProjectAreFollowed: one that leads to a folder too large to be looked at is told.
func TestLinksOutOfTheProjectAreFollowed(t *testing.T) {
	dir, out, large := t.TempDir(), t.TempDir(), t.TempDir()
	write(t, out, "Makefile")
	for i := range maxOutside + 1 {
		write(t, large, fmt.Sprint(i)+".txt")
	}
	for name, to := range map[string]string{"lib": out, "make": out + "/Makefile", "venv": out, "large": large, "run": out + "/later", "top": dir, "root": "/"} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	v := look(t, dir, time.Now().Add(-time.Minute))
	if want := []string{"large", "lib", "make", "root", "run", "top", "venv", "lib/Makefile", "venv/Makefile", "! large"}; !slices.Equal(v.paths(), want) || v.Files[2].Target != out+"/Makefile" || v.Files[6].Target != out {
		t.Errorf("%q, want %q: %+v", v.paths(), want, v)
	}
}

// TestOldLinksThroughNewFolders: a link leads to another file when a folder on its way is replaced. A package that is the project's own
// is only one of its folders.
func TestOldLinksThroughNewFolders(t *testing.T) {
	dir := t.TempDir()
	for _, f := range []string{"v1/rules.txt", "v2/rules.txt", "packages/a/src/i.js", "main/.git/HEAD", "main/.git/hooks/pre-commit", "main/.git/worktrees/w/HEAD", "c1/d/nm/i.js", "c2/d/nm/i.js", "c1/d/x.txt", "c2/d/x.txt", "skills/s/SKILL.md"} {
		write(t, dir, f)
	}
	must(t, os.Mkdir(filepath.Join(dir, ".claude"), 0o700))
	for name, to := range map[string]string{"a": "c1/d", "GNUmakefile": "a/x.txt", "justfile": "a/../d/x.txt", "venv": "a/nm", ".claude/skills": "../skills"} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	must(t, os.Mkdir(filepath.Join(dir, "node_modules"), 0o700))
	must(t, os.Symlink("../packages/a", filepath.Join(dir, "node_modules", "a")))
	must(t, os.Symlink("v1/rules.txt", filepath.Join(dir, "Makefile")))
	must(t, os.WriteFile(filepath.Join(dir, "main/.git/worktrees/w/commondir"), []byte("../..\n"), 0o600))
	write(t, dir, "ws/a.txt")
	must(t, os.WriteFile(filepath.Join(dir, "ws/.git"), []byte("gitdir: "+dir+"/main/.git/worktrees/w\n"), 0o600))
	time.Sleep(tick + 300*time.Millisecond)
	since := time.Now()
	time.Sleep(tick + 300*time.Millisecond)
	if v := look(t, dir, since); len(v.paths()) > 0 {
		t.Errorf("at rest: %q", v.paths())
	}
	must(t, os.Rename(filepath.Join(dir, "v1"), filepath.Join(dir, "v3")))
	must(t, os.Rename(filepath.Join(dir, "v2"), filepath.Join(dir, "v1")))
	must(t, os.Rename(filepath.Join(dir, "c1"), filepath.Join(dir, "c3")))
	must(t, os.Rename(filepath.Join(dir, "c2"), filepath.Join(dir, "c1")))
	write(t, dir, "skills/s/SKILL.md")
	must(t, os.WriteFile(filepath.Join(dir, "packages/a/src/i.js"), []byte("x"), 0o600))
	must(t, os.WriteFile(filepath.Join(dir, "main/.git/hooks/pre-commit"), []byte("x"), 0o600))
	if v, want := look(t, dir, since), []string{"GNUmakefile", "Makefile", "a", "justfile", "venv", "venv/i.js", ".claude/skills/s/SKILL.md", "main/.git/hooks/pre-commit"}; !slices.Equal(v.paths(), want) {
		t.Errorf("%q, want %q", v.paths(), want)
	}
	if v, want := look(t, dir+"/ws", since), []string{".git/hooks/pre-commit"}; !slices.Equal(v.paths(), want) {
		t.Errorf("in a linked worktree: %q, want %q", v.paths(), want)
	}
}

// TestWhatCannotBeLookedAtIsToldOf: the list is then not all.
func TestWhatCannotBeLookedAtIsToldOf(t *testing.T) {
	if os.Geteuid() == 0 {
		t.Skip("root reads all folders")
	}
	dir := t.TempDir()
	for name, mode := range map[string]fs.FileMode{"closed": 0o100, "names only": 0o400} {
		write(t, dir, name, "a.txt")
		must(t, os.Chmod(filepath.Join(dir, name), mode))
		t.Cleanup(func() { must(t, os.Chmod(filepath.Join(dir, name), 0o700)) }) //nolint:gosec // a folder
	}
	if v, want := look(t, dir, time.Now()), []string{"! closed", "! names only/a.txt"}; !slices.Equal(v.paths(), want) {
		t.Errorf("%q, want %q", v.paths(), want)
	}
}

// TestFIFOsAndLoops: they end no look.
func TestFIFOsAndLoops(t *testing.T) {
	dir := t.TempDir()
	must(t, unix.Mkfifo(filepath.Join(dir, ".git"), 0o600))
	must(t, unix.Mkfifo(filepath.Join(dir, "commondir"), 0o600))
	for name, to := range map[string]string{"a": "b/b/b/b", "b": "a/a/a/a", "self": "self", "deep": "deep/../deep/x"} {
		must(t, os.Symlink(to, filepath.Join(dir, name)))
	}
	if v, want := look(t, dir, time.Now().Add(-time.Minute)), []string{".git", "a", "b", "commondir", "deep", "self"}; !slices.Equal(v.paths(), want) {
		t.Errorf("%q, want %q", v.paths(), want)
	}
}

// TestKindsOfFiles: in doubt a file is in the list.
func TestKindsOfFiles(t *testing.T) {
	k := newKinds()
	for kind, files := range map[bool]string{
		true: "sub/codegen.yml roles/a/tasks/main.yml debian/a.patch package.json sub/package.json Makefile MAKEFILE sub/makefile.inc x.mk x.d conftest.py sub/setup.py vite.config.ts .eleventy.js .envrc.local sub/.x binding.gyp x.csproj.user " +
			"CMakeLists.txt requirements-dev.txt settings.json any.toml sub/any.toml sub/a.snap unknown.kind tool sub/tool Package@swift-5.9.swift CLAUDE.md build.sh sub/x.so a.jar",
		false: "main.go sub/main_test.py README LICENSE README.md LICENSE.other docs/agents.md notes.txt sub/data.json sub/locale.yml sub/page.mdx sub/a.diff logo.png style.css",
	} {
		for f := range strings.FieldsSeq(files) {
			if who := k.file(f); (who != "") != kind {
				t.Errorf("%s: %q", f, who)
			}
		}
	}
}

// TestTheLastWork: it is that of runs between which no long rest lies, also where they overlap.
func TestTheLastWork(t *testing.T) {
	now := time.Now()
	run := func(started, ended time.Duration) ledger.Run {
		r := ledger.Run{Started: now.Add(-started)}
		if ended >= 0 {
			r.Ended = now.Add(-ended)
		}
		return r
	}
	today, yesterday := run(time.Hour, 0), run(30*time.Hour, 29*time.Hour)
	for name, c := range map[string]struct {
		runs []ledger.Run // the newest first
		some bool         // earlier ones are not known
		want time.Duration
		work bool
	}{
		"no known run":                  {nil, true, day, false},
		"the first one":                 {[]ledger.Run{today}, false, time.Hour, true},
		"the first known one":           {[]ledger.Run{today}, true, day, false},
		"one after an earlier one":      {[]ledger.Run{today, yesterday}, false, day, false},
		"two today, with a rest":        {[]ledger.Run{run(time.Hour, 0), run(10*time.Hour, 9*time.Hour)}, false, 10 * time.Hour, true},
		"two days ago":                  {[]ledger.Run{run(48*time.Hour, 47*time.Hour), run(50*time.Hour, 49*time.Hour), run(60*time.Hour, 59*time.Hour)}, false, 50 * time.Hour, true},
		"a long one around a short one": {[]ledger.Run{today, run(48*time.Hour, 47*time.Hour), run(72*time.Hour, 2*time.Hour)}, false, 72 * time.Hour, true},
		"one that goes on":              {[]ledger.Run{run(100*time.Hour, -1)}, false, 100 * time.Hour, true},
	} {
		if since, work := lastWork(c.runs, !c.some, now); now.Sub(since) != c.want || work != c.work {
			t.Errorf("%s: %s ago, %t, want %s, %t", name, now.Sub(since), work, c.want, c.work)
		}
	}
}

// TestRunsOfWorktrees: work in one worktree of a repository is work in all of them.
func TestRunsOfWorktrees(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	main, linked, other := filepath.Join(dir, "main"), filepath.Join(dir, "linked"), filepath.Join(dir, "other")
	write(t, main, ".git/HEAD")
	must(t, os.Mkdir(other, 0o700))
	odd := filepath.Join(dir, "odd")
	write(t, odd, ".git")
	write(t, linked, "a.txt")
	own := filepath.Join(main, ".git/worktrees/w")
	must(t, os.MkdirAll(own, 0o700))
	for file, text := range map[string]string{linked + "/.git": "gitdir: " + own, own + "/commondir": "../..", own + "/gitdir": linked + "/.git"} {
		must(t, os.WriteFile(file, []byte(text+"\n"), 0o600))
	}
	for folder, want := range map[string][]string{main: {main, linked}, linked: {linked, main, linked}, other: {other}, odd: {odd}} {
		if got, all := shared(t.Context(), folder); !slices.Equal(got, want) || !all {
			t.Errorf("%s: %q, %t, want %q", folder, got, all, want)
		}
	}
	for i := range maxWorktrees {
		must(t, os.Mkdir(filepath.Join(main, ".git/worktrees", fmt.Sprint(i)), 0o700))
	}
	if _, all := shared(t.Context(), linked); all {
		t.Error("too many worktrees are taken for all")
	}
}

// TestAProjectWithoutWork: nothing is listed in a project that no run is known of, unless a time is given.
func TestAProjectWithoutWork(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	write(t, dir, "Makefile")
	o := &Overview{Undo: changeset.In(t.TempDir())}
	v, err := o.Look(t.Context(), dir, time.Time{})
	if must(t, err); !v.NoWork || len(v.paths()) > 0 || v.Files == nil || v.Gaps == nil || v.Looked > 0 {
		t.Errorf("%+v", v)
	}
	if v, want := look(t, dir, time.Now().Add(-time.Minute)), []string{"Makefile"}; v.NoWork || !slices.Equal(v.paths(), want) {
		t.Errorf("%q, want %q", v.paths(), want)
	}
}
