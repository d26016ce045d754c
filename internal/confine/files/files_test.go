package files_test

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

const everything = "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"**\"]}\n"

const canary = "CANARY-7f3a"

// place is a workspace beside a folder with a secret.
type place struct {
	ws, out string
	p       permit.Permit
	f       *files.Files
}

func newPlace(t testing.TB, policy string) place {
	t.Helper()
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	l := place{ws: filepath.Join(base, "ws"), out: filepath.Join(base, "out")}
	must(t, os.MkdirAll(l.ws, 0o755), os.MkdirAll(l.out, 0o755), os.WriteFile(filepath.Join(l.out, "f"), []byte(canary), 0o644))
	l.p = permittest.PermitFor(t, l.ws, policy)
	l.f = files.New(l.p)
	return l
}

func (l place) put(t testing.TB, name, content string) string {
	t.Helper()
	p := filepath.Join(l.ws, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(content), 0o644))
	return p
}

func (l place) link(t testing.TB, name, to string) {
	t.Helper()
	p := filepath.Join(l.ws, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755), os.Symlink(to, p))
}

// outsideIs checks that nothing changed beside the workspace.
func (l place) outsideIs(t testing.TB) {
	t.Helper()
	names, err := os.ReadDir(l.out)
	must(t, err)
	b, err := os.ReadFile(filepath.Join(l.out, "f"))
	if err != nil || string(b) != canary || len(names) != 1 {
		t.Errorf("outside holds %v, and the secret reads %q (%v)", names, b, err)
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func wantCode(t testing.TB, err error, want fault.Code) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Errorf("got %v, want %v", err, want)
	}
	if err != nil && strings.Contains(fault.Message(err), canary) {
		t.Errorf("the message leaks: %v", err)
	}
}

func TestClean(t *testing.T) {
	long := strings.Repeat("a/", 3000)
	tests := map[string]struct {
		asked, want string // "" is refused
	}{
		"plain":                         {"a/b", "/w/s/a/b"},
		"the workspace":                 {".", "/w/s"},
		"absolute":                      {"/etc/passwd", "/etc/passwd"},
		"dots and slashes":              {"./a//b/./c/", "/w/s/a/b/c"},
		"dotdot within":                 {"a/../b", "/w/s/b"},
		"dotdot out is left to policy":  {"../x", "/w/x"},
		"dotdot far out":                {"../../../../x", "/x"},
		"out and back":                  {"../s/x", ""},
		"out and back later":            {"a/../../s/x", ""},
		"a tilde is a name":             {"~/x", "/w/s/~/x"},
		"a percent is a name":           {"%2e%2e/x", "/w/s/%2e%2e/x"},
		"a backslash is part of a name": {`..\x`, `/w/s/..\x`},
		"three dots are a name":         {"...", "/w/s/..."},
		"full-width dots are a name":    {"．．/x", "/w/s/．．/x"},
		"empty":                         {"", ""},
		"NUL":                           {"a\x00b", ""},
		"not UTF-8":                     {"a\xffb", ""},
		"longest name":                  {strings.Repeat("n", 255), "/w/s/" + strings.Repeat("n", 255)},
		"name too long":                 {strings.Repeat("n", 256), ""},
		"path too long":                 {long, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := files.Clean(tool.Env{Workspace: "/w/s"}, tc.asked)
			if got != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("Clean(%.40q) = %.60q, %v; want %.60q", tc.asked, got, err, tc.want)
			}
		})
	}
	if _, err := files.Clean(tool.Env{}, "a"); err == nil {
		t.Error("a relative path without a workspace was cleaned")
	}
}

func TestResolve(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "d/file", "x")
	for name, to := range map[string]string{"in": "d/file", "dir": "d", "out": "../out/f", "abs": l.out, "broken": "d/no/such",
		"brokenout": "/no/such/place", "loop": "loop", "a": "b", "b": "a", "back": l.ws + "/d/file", "round": "../ws/d", "self": "/proc/self",
		"magic": "/proc/self/root/etc", "fd": "/dev/fd/0", "slash": "d/file/"} {
		l.link(t, name, to)
	}
	tests := map[string]struct{ asked, want string }{
		"a file":                            {"d/file", l.ws + "/d/file"},
		"a missing file":                    {"d/none/x", l.ws + "/d/none/x"},
		"beneath a file":                    {"d/file/x", l.ws + "/d/file/x"},
		"a link":                            {"in", l.ws + "/d/file"},
		"a linked folder":                   {"dir/file", l.ws + "/d/file"},
		"a link out":                        {"out", l.out + "/f"},
		"an absolute link out":              {"abs/f", l.out + "/f"},
		"a broken link is its target":       {"broken", l.ws + "/d/no/such"},
		"a broken link out":                 {"brokenout", "/no/such/place"},
		"a loop":                            {"loop", ""},
		"a loop of two":                     {"a/x", ""},
		"an absolute link back in":          {"back", ""},
		"a link out and back":               {"round/file", ""},
		"a link to a process":               {"self/environ", ""},
		"a magic link":                      {"magic/passwd", ""},
		"a descriptor":                      {"fd", ""},
		"a process by number":               {fmt.Sprintf("/proc/%d/environ", os.Getpid()), ""},
		"a process by name":                 {"/proc/self/cwd", ""},
		"a file that is linked as a folder": {"slash", ""},
	}
	env := tool.Env{Workspace: l.ws}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, real, err := files.Resolve(env, tc.asked)
			if real != tc.want || (err == nil) != (tc.want != "") {
				t.Errorf("Resolve(%q) = %q, %v; want %q", tc.asked, real, err, tc.want)
			}
		})
	}
}

func TestLinksOut(t *testing.T) {
	l := newPlace(t, everything)
	l.link(t, "f", "../out/f")
	l.link(t, "dir", l.out)
	l.link(t, "new", "../out/new")
	for _, name := range []string{"f", "dir/f", "new", "dir/x/y"} {
		_, err := l.f.Open(name)
		wantCode(t, err, fault.HandleRefused)
		for mode := files.Create; mode <= files.Append; mode++ {
			_, err = l.f.Write(name, []byte("bad"), files.WriteOptions{Mode: mode, Parents: true})
			wantCode(t, err, fault.HandleRefused)
		}
		_, err = l.f.Stat(name)
		wantCode(t, err, fault.HandleRefused)
	}
	wantCode(t, l.f.Remove("dir/f"), fault.HandleRefused)
	wantCode(t, l.f.Rename(t.Context(), "dir/f", "got", true, true), fault.HandleRefused)
	_, err := l.f.ReadDir(t.Context(), "dir")
	wantCode(t, err, fault.HandleRefused)
	_, err = l.f.RemoveAll(t.Context(), "dir/")
	if err == nil {
		t.Error("a link with a slash was removed as a folder")
	}
	must(t, l.f.Remove("dir")) // the link itself
	l.outsideIs(t)
}

func TestSpecialFilesFailAtOnce(t *testing.T) {
	l := newPlace(t, everything+"")
	must(t, syscall.Mkfifo(filepath.Join(l.ws, "fifo"), 0o644), os.Mkdir(filepath.Join(l.ws, "dir"), 0o755))
	sock, err := net.Listen("unix", filepath.Join(l.ws, "sock"))
	must(t, err)
	defer func() { _ = sock.Close() }()
	names := []string{"fifo", "sock", "dir"}
	if syscall.Mknod(filepath.Join(l.ws, "zero"), syscall.S_IFCHR|0o666, 1<<8|5) == nil {
		names = append(names, "zero")
	}
	for _, name := range names {
		t.Run(name, func(t *testing.T) {
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, err := l.f.Open(name)
				wantCode(t, err, fault.ToolFailed)
				for mode := files.Replace; mode <= files.Append; mode++ {
					_, err = l.f.Write(name, []byte("x"), files.WriteOptions{Mode: mode})
					wantCode(t, err, fault.ToolFailed)
				}
			}()
			select {
			case <-done:
			case <-time.After(time.Minute):
				t.Fatal("it blocks")
			}
		})
	}
}

// A path that the policy allows, but that holds something of another type, is a
// mistake of the caller and no refusal.
func TestMistakesAreNotRefusals(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "file", "x")
	must(t, os.Mkdir(filepath.Join(l.ws, "dir"), 0o755), syscall.Mkfifo(filepath.Join(l.ws, "fifo"), 0o644))
	l.link(t, "round", "round")
	ctx := t.Context()
	tests := map[string]func() error{
		"list a file":   func() error { _, err := l.f.ReadDir(ctx, "file"); return err },
		"walk a file":   func() error { _, err := l.f.Walk(ctx, "file", func(files.Entry) error { return nil }); return err },
		"read a folder": func() error { _, err := l.f.ReadAll("dir"); return err },
		"guard a folder": func() error {
			d := digestOf("")
			_, err := l.f.Write("dir", nil, files.WriteOptions{If: &d})
			return err
		},
		"move a fifo":      func() error { return l.f.Rename(ctx, "fifo", "other", false, false) },
		"stat a loop":      func() error { _, err := l.f.Stat("round"); return err },
		"resolve a loop":   func() error { _, _, err := files.Resolve(l.p.Env(), "round/x"); return err },
		"write to a loop":  func() error { _, err := l.f.Write("round", nil, files.WriteOptions{Mode: files.Replace}); return err },
		"create on a loop": func() error { _, err := l.f.Write("round", nil, files.WriteOptions{}); return err },
	}
	for name, act := range tests {
		t.Run(name, func(t *testing.T) { wantCode(t, act(), fault.ToolFailed) })
	}
	if l.p.Denied() != tool.NoAction {
		t.Errorf("the permit refused %s", l.p.Denied())
	}
}

func TestHardLinks(t *testing.T) {
	l := newPlace(t, everything)
	name := filepath.Join(l.ws, "other")
	must(t, os.Link(filepath.Join(l.out, "f"), name))
	_, err := l.f.Write("other", []byte("more"), files.WriteOptions{Mode: files.Append})
	wantCode(t, err, fault.ToolFailed)
	l.outsideIs(t)
	_, err = l.f.Write("other", []byte("new"), files.WriteOptions{Mode: files.Replace})
	must(t, err)
	if b, err := os.ReadFile(name); err != nil || string(b) != "new" {
		t.Errorf("%q, %v", b, err)
	}
	l.outsideIs(t)
}

func TestWrite(t *testing.T) {
	sum := func(s string) *tool.Digest { d := digestOf(s); return &d }
	tests := map[string]struct {
		old  string // "-": none
		o    files.WriteOptions
		want string // "": refused
		code fault.Code
	}{
		"create":                     {"-", files.WriteOptions{}, "new", 0},
		"create what is there":       {"old", files.WriteOptions{}, "", fault.Conflict},
		"replace":                    {"old", files.WriteOptions{Mode: files.Replace}, "new", 0},
		"replace what is not there":  {"-", files.WriteOptions{Mode: files.Replace}, "new", 0},
		"append":                     {"old", files.WriteOptions{Mode: files.Append}, "oldnew", 0},
		"append to nothing":          {"-", files.WriteOptions{Mode: files.Append}, "new", 0},
		"guard holds":                {"old", files.WriteOptions{Mode: files.Replace, If: sum("old")}, "new", 0},
		"guard does not hold":        {"odd", files.WriteOptions{Mode: files.Replace, If: sum("old")}, "", fault.Conflict},
		"guard of a missing file":    {"-", files.WriteOptions{Mode: files.Replace, If: sum("old")}, "", fault.Conflict},
		"guard of an append":         {"old", files.WriteOptions{Mode: files.Append, If: sum("old")}, "oldnew", 0},
		"guard of an append, broken": {"odd", files.WriteOptions{Mode: files.Append, If: sum("old")}, "", fault.Conflict},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newPlace(t, everything)
			want := tc.want
			if tc.old != "-" {
				l.put(t, "x", tc.old)
				must(t, os.Chmod(filepath.Join(l.ws, "x"), 0o640))
			}
			_, err := l.f.Write("x", []byte("new"), tc.o)
			if tc.code != 0 {
				wantCode(t, err, tc.code)
				want = tc.old
			} else {
				must(t, err)
			}
			b, err := os.ReadFile(filepath.Join(l.ws, "x"))
			if want != "-" && string(b) != want || want == "-" && !os.IsNotExist(err) {
				t.Errorf("it holds %q (%v), want %q", b, err, want)
			}
			if i, err := os.Stat(filepath.Join(l.ws, "x")); err == nil && tc.old != "-" && i.Mode() != 0o640 {
				t.Errorf("its permissions are %v now", i.Mode())
			}
			noLitter(t, l.ws)
		})
	}
}

func TestReplaceDropsSetID(t *testing.T) {
	l := newPlace(t, everything)
	p := l.put(t, "x", "old")
	must(t, os.Chmod(p, 0o755|os.ModeSetuid))
	_, err := l.f.Write("x", []byte("new"), files.WriteOptions{Mode: files.Replace})
	must(t, err)
	if i, err := os.Stat(p); err != nil || i.Mode() != 0o755 {
		t.Errorf("%v, %v", i.Mode(), err)
	}
}

func digestOf(s string) tool.Digest { return sha256.Sum256([]byte(s)) }

func noLitter(t testing.TB, dir string) {
	t.Helper()
	names, err := filepath.Glob(filepath.Join(dir, ".remit-*"))
	if err != nil || len(names) > 0 {
		t.Errorf("left behind: %v %v", names, err)
	}
}

func TestParentsOnTheWay(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  write: {allow: [\"out/*.txt\", \"no/**\"], deny: [\"**/no/way\", \"**/no/way/**\"]}\n"
	l := newPlace(t, doc)
	_, err := l.f.Write("out/a.txt", nil, files.WriteOptions{Parents: true})
	must(t, err)
	_, err = l.f.Write("no/way/x", nil, files.WriteOptions{Parents: true})
	wantCode(t, err, fault.HandleRefused)
	_, err = l.f.Write("no/parents/x", nil, files.WriteOptions{})
	wantCode(t, err, fault.NotFound)
	if _, err := os.Stat(filepath.Join(l.ws, "no")); !os.IsNotExist(err) {
		t.Errorf("a folder was made for nothing: %v", err)
	}
}

func TestRemoveAllIsAllOrNothing(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  write: {allow: [\"**\"], deny: [\"**/*.keep\"]}\n"
	l := newPlace(t, doc)
	l.put(t, "d/a", "")
	l.put(t, "d/e/f.keep", "")
	l.put(t, "gone/a/b", "")
	l.link(t, "gone/l", l.out)
	n, err := l.f.RemoveAll(t.Context(), "d")
	wantCode(t, err, fault.HandleRefused)
	if _, err := os.Stat(filepath.Join(l.ws, "d/a")); err != nil || n != 0 {
		t.Errorf("%d removed: %v", n, err)
	}
	if n, err := l.f.RemoveAll(t.Context(), "gone"); err != nil || n != 4 {
		t.Errorf("%d removed, %v", n, err)
	}
	for _, p := range []string{".", "..", "/", l.ws + "/."} {
		if _, err := l.f.RemoveAll(t.Context(), p); err == nil {
			t.Fatalf("%s was removed", p)
		}
	}
	l.outsideIs(t)
}

func TestRenameNeverCrossesIntoDenied(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"], deny: [\"secret/**\"]}\n  write: {allow: [\"**\"], deny: [\"**/frozen/**\"]}\n"
	tests := map[string]struct {
		from, to  string
		overwrite bool
		code      fault.Code // 0: moved
	}{
		"a file":                       {"a", "b", false, 0},
		"into a new folder":            {"a", "n/e/w", false, 0},
		"onto a file":                  {"a", "c", false, fault.Conflict},
		"onto a file, wanted":          {"a", "c", true, 0},
		"onto a folder":                {"a", "d", true, fault.Conflict},
		"a folder":                     {"d", "e", false, 0},
		"a folder onto a folder":       {"d", "frozen", true, fault.HandleRefused},
		"a folder into itself":         {"d", "d/x", false, fault.ToolFailed},
		"what cannot be read":          {"secret/s", "s", false, fault.HandleRefused},
		"a folder that hides a secret": {"secret", "s", false, fault.HandleRefused},
		"to where writing is denied":   {"a", "frozen/a", false, fault.HandleRefused},
		"a folder whose file freezes":  {"top", "frozen", false, fault.HandleRefused},
		"out of the workspace":         {"a", "../out/a", false, fault.HandleRefused},
		"the workspace":                {".", "../ws2", false, fault.HandleRefused},
		"what is not there":            {"none", "b", false, fault.NotFound},
		"a file as a folder":           {"a", "b/", false, fault.NotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			l := newPlace(t, doc)
			for _, f := range []string{"a", "c", "d/f", "secret/s", "top/x"} {
				l.put(t, f, f)
			}
			err := l.f.Rename(t.Context(), tc.from, tc.to, tc.overwrite, true)
			_, gone := os.Lstat(filepath.Join(l.ws, tc.from))
			if tc.code == 0 {
				must(t, err)
			} else {
				wantCode(t, err, tc.code)
			}
			if moved := os.IsNotExist(gone); moved != (tc.code == 0) && tc.from != "none" {
				t.Errorf("moved: %v", moved)
			}
			l.outsideIs(t)
		})
	}
}

func TestCaps(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"], max_bytes: 10}\n  write: {allow: [\"**\"], max_bytes: 10}\n"
	l := newPlace(t, doc)
	if l.f.ReadCap() != 10 {
		t.Skip("the policy sets no caps")
	}
	_, err := l.f.Write("x", []byte("12345678901"), files.WriteOptions{})
	wantCode(t, err, fault.LimitReached)
	l.put(t, "x", "12345678")
	_, err = l.f.Write("x", []byte("123"), files.WriteOptions{Mode: files.Append})
	wantCode(t, err, fault.LimitReached)
	l.put(t, "y", "12345678901")
	_, err = l.f.ReadAll("y")
	wantCode(t, err, fault.LimitReached)
}

func TestReadDir(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"], deny: [\"**/*.bak\"]}\n"
	l := newPlace(t, doc)
	for _, f := range []string{"b", "a", "x.bak", "d/y.bak", "d/z"} {
		l.put(t, f, "")
	}
	l.link(t, "out", l.out)
	l.link(t, "in", "d")
	var names []string
	denied, err := l.f.Walk(t.Context(), ".", func(e files.Entry) error {
		names = append(names, e.Path)
		return nil
	})
	must(t, err)
	if got := strings.Join(names, " "); got != "a b d d/z in" || denied != 3 {
		t.Errorf("got %q and %d denied", got, denied)
	}
}

func TestEndedPermitStopsAnOpenFile(t *testing.T) {
	l := newPlace(t, everything)
	l.put(t, "a", "abc")
	f, err := l.f.Open("a")
	must(t, err)
	defer func() { _ = f.Close() }()
	l.p.End()
	_, err = f.Read(make([]byte, 1))
	wantCode(t, err, fault.HandleRefused)
	wantCode(t, l.f.Remove("a"), fault.HandleRefused)
}

func TestManyEntries(t *testing.T) {
	n := 10_000
	if os.Getenv("REMIT_SOAK_RACES") != "" {
		n = 100_000 // takes seconds to make
	}
	l := newPlace(t, everything)
	must(t, os.Mkdir(filepath.Join(l.ws, "d"), 0o755))
	for i := range n {
		must(t, os.WriteFile(fmt.Sprintf("%s/d/%06d", l.ws, i), nil, 0o644))
	}
	got, err := l.f.ReadDir(t.Context(), "d")
	must(t, err)
	if len(got.Entries) != n || got.Entries[1].Name != "000001" {
		t.Errorf("%d entries", len(got.Entries))
	}
	if k, err := l.f.RemoveAll(t.Context(), "d"); err != nil || k != n+1 {
		t.Errorf("%d removed, %v", k, err)
	}
}

// FuzzClean: what was cleaned is absolute, stays as it is when cleaned again,
// and shows as a path that means the same.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"a", "../s/x", "/w/s/../x", "a//b/./", "~/x", "%2e%2e/x", "a\x00", "\xff", ".", "/"} {
		f.Add(s)
	}
	env := tool.Env{Workspace: "/w/s"}
	f.Fuzz(func(t *testing.T, asked string) {
		got, err := files.Clean(env, asked)
		if err != nil {
			return
		}
		if again, err := files.Clean(env, got); err != nil || again != got || !filepath.IsAbs(got) {
			t.Fatalf("%q became %q, then %q (%v)", asked, got, again, err)
		}
		if shown, err := files.Clean(env, files.Rel(env, got)); err != nil || shown != got {
			t.Fatalf("%q shows as %q, which means %q (%v)", got, files.Rel(env, got), shown, err)
		}
		for name := range strings.SplitSeq(got, "/") {
			if name == ".." || name == "." {
				t.Fatalf("%q kept %q", asked, name)
			}
		}
	})
}
