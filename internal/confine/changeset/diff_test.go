package changeset_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// forged opens a changeset whose upper layer was written to directly, as nobody
// but an attacker would.
func forged(t *testing.T, p place, forge func(upper string)) *changeset.Set {
	t.Helper()
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	_, upper, _ := s.Layers()
	forge(upper)
	_, err = s.Review(t.Context(), anything)
	must(t, err)
	return s
}

func TestForgedUpper(t *testing.T) {
	attr := func(name, value string) func(string) error {
		return func(p string) error { return unix.Lsetxattr(p, name, []byte(value), 0) }
	}
	file := func(u string) string {
		p := filepath.Join(u, "f")
		must(t, os.WriteFile(p, []byte("new"), 0o644))
		return p
	}
	folder := func(u string) string {
		p := filepath.Join(u, "d")
		must(t, os.Mkdir(p, 0o755))
		must(t, os.WriteFile(p+"/x", []byte("new"), 0o644))
		return p
	}
	tests := map[string]struct {
		forge func(upper string) error
		want  string // of the list
		root  bool
	}{
		"a FIFO":            {func(u string) error { return mkfifo(u + "/f") }, "modified f REFUSED a device, FIFO or socket is not carried over\n", false},
		"a new FIFO":        {func(u string) error { return mkfifo(u + "/n") }, "added n REFUSED a device, FIFO or socket is not carried over\n", false},
		"a device":          {func(u string) error { return unix.Mknod(u+"/n", unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))) }, "added n REFUSED a device, FIFO or socket is not carried over\n", true},
		"a block device":    {func(u string) error { return unix.Mknod(u+"/n", unix.S_IFBLK|0o666, 0) }, "added n REFUSED a device, FIFO or socket is not carried over\n", true},
		"setuid":            {func(u string) error { return os.Chmod(file(u), 0o4755|os.ModeSetuid) }, "modified f REFUSED it has a set-id bit\n", false},
		"setgid":            {func(u string) error { return os.Chmod(file(u), 0o755|os.ModeSetgid) }, "modified f REFUSED it has a set-id bit\n", false},
		"a redirect":        {func(u string) error { return attr("user.overlay.redirect", "/../out")(folder(u)) }, "modified d REFUSED it carries a forged mark of the overlay (\"user.overlay.redirect\")\n", false},
		"metacopy":          {func(u string) error { return attr("user.overlay.metacopy", "")(file(u)) }, "modified f REFUSED it carries a forged mark of the overlay (\"user.overlay.metacopy\")\n", false},
		"a whiteout mark":   {func(u string) error { return attr("user.overlay.whiteout", "y")(file(u)) }, "modified f REFUSED it carries a forged mark of the overlay (\"user.overlay.whiteout\")\n", false},
		"an odd opaque":     {func(u string) error { return attr("user.overlay.opaque", "x")(folder(u)) }, "modified d REFUSED it carries a forged mark of the overlay (\"user.overlay.opaque\")\n", false},
		"an opaque file":    {func(u string) error { return attr("user.overlay.opaque", "y")(file(u)) }, "modified f REFUSED it carries a mark of the overlay that belongs on folders\n", false},
		"an origin":         {func(u string) error { return attr("user.overlay.origin", "/out/secret")(file(u)) }, "modified f\n", false},
		"the other marks":   {func(u string) error { return attr("trusted.overlay.redirect", "/out")(folder(u)) }, "modified d REFUSED it carries a forged mark of the overlay (\"trusted.overlay.redirect\")\n", true},
		"a forged whiteout": {func(u string) error { return unix.Mknod(u+"/d", unix.S_IFCHR, 0) }, "deleted d\ndeleted d/x\ndeleted d/y\n", false},
		"whiteout of none":  {func(u string) error { return unix.Mknod(u+"/none", unix.S_IFCHR, 0) }, "", false},
		"a forged opaque":   {func(u string) error { return attr("user.overlay.opaque", "y")(folder(u)) }, "modified d/x\ndeleted d/y\n", false},
		"a hard link out": {func(u string) error {
			return os.Link(filepath.Dir(filepath.Dir(filepath.Dir(filepath.Dir(u))))+"/out/secret", u+"/n")
		}, "added n REFUSED the file has further names (hard links) outside of the changeset\n", false},
		"a line break": {func(u string) error { return os.WriteFile(u+"/a\nb", nil, 0o644) }, "added a\nb REFUSED its name holds a control character\n", false},
		"an escape":    {func(u string) error { return os.WriteFile(u+"/\x1b[2J", nil, 0o644) }, "added \x1b[2J REFUSED its name holds a control character\n", false},
		"not UTF-8":    {func(u string) error { return os.WriteFile(u+"/\xff", nil, 0o644) }, "added \xff REFUSED its name is not UTF-8\n", false},
		"a leftover": {func(u string) error {
			return os.WriteFile(u+"/.remit-ABCDEFGHIJKLMNOPQRSTUVWXYZ.tmp", nil, 0o644)
		}, "added .remit-ABCDEFGHIJKLMNOPQRSTUVWXYZ.tmp REFUSED it is a temporary file of a process that was killed\n", false},
		"an odd target": {func(u string) error { return os.Symlink("\xff", u+"/l") }, "added l REFUSED the link's target is not UTF-8\n", false},
		"in an odd folder": {func(u string) error {
			return errors.Join(os.Mkdir(u+"/a\tb", 0o755), os.WriteFile(u+"/a\tb/c", nil, 0o644))
		}, "added a\tb REFUSED its name holds a control character\nadded a\tb/c REFUSED its name holds a control character\n", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if tc.root && os.Getuid() != 0 {
				t.Skip("only root can make this")
			}
			p := newPlace(t)
			put(t, p.ws, map[string]string{"f": "old", "d/x": "old", "d/y": "old"})
			before := snapshot(t, p.ws)
			s := forged(t, p, func(u string) { must(t, tc.forge(u)) })
			changes, err := s.Changes(t.Context(), anything)
			must(t, err)
			if got := list(changes); got != tc.want {
				t.Errorf("listed as\n%swant\n%s", got, tc.want)
			}
			if _, err := s.Apply(t.Context(), anything); err != nil {
				t.Errorf("apply: %v", err)
			}
			if strings.Contains(tc.want, "REFUSED") && snapshot(t, p.ws) != before {
				t.Errorf("what is refused was applied: %s", snapshot(t, p.ws))
			}
			if b, err := os.ReadFile(p.dir + "/out/secret"); err != nil || string(b) != "CANARY" {
				t.Errorf("outside: %q, %v", b, err)
			}
			if fi, err := os.Lstat(p.ws + "/n"); err == nil {
				t.Errorf("n is there: %v", fi.Mode())
			}
		})
	}
}

// What the policy does not let be written stays out, with what depends on it.
func TestRefusedByPolicy(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"out/a": "a", "gone/mine": "x", "gone/locked": "x"})
	s := p.held(t, "run", func(root string) {
		put(t, root, map[string]string{"out/b": "b", "new/deep/c": "c", ".git/hooks/post-commit": "evil", "top": "t"})
		must(t, os.RemoveAll(root+"/gone"))
	})
	decide := func(p string, use changeset.Use) error {
		folder := use == changeset.ToPass
		if strings.HasPrefix(p, "out/") || strings.HasPrefix(p, "new/") || strings.HasPrefix(p, "gone") && p != "gone/locked" || folder && p != ".git" {
			return nil
		}
		return fault.New(fault.Denied, "no rule")
	}
	changes, err := s.Review(t.Context(), decide)
	must(t, err)
	want := `added .git REFUSED no rule
added .git/hooks REFUSED its folder is refused
added .git/hooks/post-commit REFUSED no rule
deleted gone REFUSED it holds what may not be deleted
deleted gone/locked REFUSED no rule
deleted gone/mine REFUSED its folder is refused
added new
added new/deep
added new/deep/c
added out/b
added top REFUSED no rule
`
	// A refused folder keeps nothing from being deleted in it by its own rule.
	want = strings.Replace(want, "deleted gone/mine REFUSED its folder is refused", "deleted gone/mine", 1)
	if got := list(changes); got != want {
		t.Errorf("listed as\n%swant\n%s", got, want)
	}
	_, err = s.Apply(t.Context(), decide, "top")
	if !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a refused path was applied by name: %v", err)
	}
	_, err = s.Apply(t.Context(), decide)
	must(t, err)
	if got := list(nil) + snapshot(t, p.ws); strings.Contains(got, ".git") || strings.Contains(got, "top") || !strings.Contains(got, `"gone/locked"`) || strings.Contains(got, "mine") {
		t.Errorf("the workspace holds\n%s", got)
	}
	if s.State() != changeset.Applied {
		t.Errorf("the changeset is %s", s.State())
	}
	// With no policy at all nothing is applied.
	s = p.held(t, "other", func(root string) { put(t, root, map[string]string{"x": "x"}) })
	changes, err = s.Review(t.Context(), nil)
	must(t, err)
	if got := list(changes); !strings.Contains(got, "REFUSED") {
		t.Errorf("without a policy: %s", got)
	}
}

// A folder that may only be made to hold something is made only if something in
// it is carried over.
func TestFoldersOnTheWay(t *testing.T) {
	p := newPlace(t)
	s := p.held(t, "run", func(root string) {
		put(t, root, map[string]string{".git/hooks/": "", "made/": "", "mine/evil": "x", "way/deep/er/ok": "x", "way/none/": "", "way/bad/evil": "x"})
	})
	decide := func(p string, use changeset.Use) error {
		folder := use == changeset.ToPass
		if p == "made" || p == "mine" || strings.HasSuffix(p, "/ok") || folder {
			return nil
		}
		return fault.New(fault.Denied, "no rule")
	}
	changes, err := s.Review(t.Context(), decide)
	must(t, err)
	want := `added .git REFUSED no rule
added .git/hooks REFUSED no rule
added made
added mine REFUSED all that it holds is refused
added mine/evil REFUSED no rule
added way
added way/bad REFUSED no rule
added way/bad/evil REFUSED no rule
added way/deep
added way/deep/er
added way/deep/er/ok
added way/none REFUSED no rule
`
	if got := list(changes); got != want {
		t.Errorf("listed as\n%swant\n%s", got, want)
	}
	_, err = s.Apply(t.Context(), decide)
	must(t, err)
	if got := snapshot(t, p.ws); strings.Contains(got, ".git") || strings.Contains(got, "none") || strings.Contains(got, "bad") || !strings.Contains(got, "made") {
		t.Errorf("the workspace holds\n%s", got)
	}
	if s.State() != changeset.Applied {
		t.Errorf("it is %s", s.State())
	}
}

func TestBaseChangedUnderneath(t *testing.T) {
	tests := map[string]struct {
		meanwhile func(ws string) error
		conflict  string // the path that is named, "" if it can be applied
	}{
		"nothing":               {func(string) error { return nil }, ""},
		"an untouched file":     {func(ws string) error { return os.WriteFile(ws+"/other", []byte("x"), 0o644) }, ""},
		"the file":              {func(ws string) error { return os.WriteFile(ws+"/f", []byte("theirs"), 0o644) }, `"f"`},
		"the file is gone":      {func(ws string) error { return os.Remove(ws + "/f") }, `"f"`},
		"the file is a link":    {func(ws string) error { return errors.Join(os.Remove(ws+"/f"), os.Symlink("../out/secret", ws+"/f")) }, `"f"`},
		"only permissions":      {func(ws string) error { return os.Chmod(ws+"/f", 0o600) }, `"f"`},
		"touched only":          {func(ws string) error { return os.WriteFile(ws+"/f", []byte("old"), 0o644) }, ""},
		"a new file is there":   {func(ws string) error { return os.WriteFile(ws+"/n", []byte("theirs"), 0o644) }, `"n"`},
		"more in a deleted one": {func(ws string) error { return os.WriteFile(ws+"/d/more", nil, 0o644) }, `"d/more"`},
		"a folder is a link":    {func(ws string) error { return errors.Join(os.RemoveAll(ws+"/e"), os.Symlink("../out", ws+"/e")) }, `"e`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.ws, map[string]string{"f": "old", "d/x": "x", "e/": ""})
			s := p.reviewed(t, "run", func(root string) {
				put(t, root, map[string]string{"f": "new", "n": "n", "e/secret": "mine"})
				must(t, os.RemoveAll(root+"/d"))
			})
			must(t, tc.meanwhile(p.ws))
			before := snapshot(t, p.ws)
			_, err := s.Apply(t.Context(), anything)
			if tc.conflict == "" {
				must(t, err)
				return
			}
			if !errors.Is(err, fault.Conflict) || !strings.Contains(err.Error(), tc.conflict) {
				t.Errorf("got %v, want a conflict that names %s", err, tc.conflict)
			}
			if got := snapshot(t, p.ws); got != before {
				t.Errorf("something was applied:\n%s", got)
			}
			if b, err := os.ReadFile(p.dir + "/out/secret"); err != nil || string(b) != "CANARY" {
				t.Errorf("outside: %q, %v", b, err)
			}
		})
	}
}

// A file that somebody changes while the run goes on is a conflict from the start.
func TestBaseChangedDuringTheRun(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "g": "old"})
	s := p.held(t, "run", func(root string) {
		put(t, root, map[string]string{"f": "new", "g": "new"})
		waitTick(t, p.ws)
		put(t, p.ws, map[string]string{"f": "theirs"})
	})
	changes, err := s.Review(t.Context(), anything)
	must(t, err)
	if got := list(changes); !strings.Contains(got, "modified f CONFLICT") || strings.Contains(got, "g CONFLICT") {
		t.Errorf("listed as\n%s", got)
	}
	if _, err := s.Apply(t.Context(), anything); !errors.Is(err, fault.Conflict) {
		t.Errorf("applied: %v", err)
	}
	_, err = s.Apply(t.Context(), anything, "g")
	must(t, err)
	if s.State() != changeset.Review {
		t.Errorf("a part was applied and it is %s", s.State())
	}
}
