package changeset_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
)

// value reads an extended attribute, "" if there is none.
func value(t testing.TB, path, name string) string {
	t.Helper()
	v := make([]byte, 1<<16)
	n, err := unix.Lgetxattr(path, name, v)
	if err == unix.ENODATA {
		return ""
	}
	must(t, err)
	return string(v[:n])
}

// attributed skips where the file system keeps no attributes.
func attributed(t *testing.T, dir string) {
	t.Helper()
	if err := unix.Setxattr(dir, "user.try", []byte("x"), 0); err != nil {
		t.Skipf("no extended attributes here: %v", err)
	}
	must(t, unix.Removexattr(dir, "user.try"))
}

// Extended attributes of the user's are carried over, alone too, and put back.
func TestAttributesAreCarried(t *testing.T) {
	p := newPlace(t)
	attributed(t, p.ws)
	put(t, p.ws, map[string]string{"f": "old", "only": "same", "d/x": "x", "gone": "g"})
	set := func(path, name, v string) { t.Helper(); must(t, unix.Setxattr(path, name, []byte(v), 0)) }
	set(p.ws+"/f", "user.was", "1")
	set(p.ws+"/only", "user.was", "2")
	set(p.ws+"/gone", "user.was", "3")
	s := p.reviewed(t, "run", func(root string) {
		put(t, root, map[string]string{"f": "new", "n": "n"})
		set(root+"/f", "user.more", strings.Repeat("v", 500))
		set(root+"/n", "user.new", "\x00\xff")
		must(t, unix.Removexattr(root+"/only", "user.was"))
		set(root+"/d", "user.folder", "d")
		must(t, os.Remove(root+"/gone"))
	})
	changes, err := s.Changes(t.Context(), anything)
	must(t, err)
	if got := list(changes); got != "mode d\nmodified f\ndeleted gone\nadded n\nmode only\n" {
		t.Errorf("listed as\n%s", got)
	}
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	check := func(when string, want map[[2]string]string) {
		t.Helper()
		for at, v := range want {
			if got := value(t, p.ws+"/"+at[0], at[1]); got != v {
				t.Errorf("%s: %v is %q, want %q", when, at, got, v)
			}
		}
	}
	check("applied", map[[2]string]string{{"f", "user.was"}: "1", {"f", "user.more"}: strings.Repeat("v", 500), {"n", "user.new"}: "\x00\xff",
		{"only", "user.was"}: "", {"d", "user.folder"}: "d", {"f", "user.overlay.origin"}: ""})
	_, err = p.home.Undo("run")
	must(t, err)
	check("undone", map[[2]string]string{{"f", "user.was"}: "1", {"f", "user.more"}: "", {"only", "user.was"}: "2", {"d", "user.folder"}: "", {"gone", "user.was"}: "3"})
}

// accessList is an access list as the kernel keeps it: what the owner, user
// 1000, the group, the mask and others may do.
func accessList(perms ...byte) []byte {
	none := []byte{0xff, 0xff, 0xff, 0xff}
	out := []byte{2, 0, 0, 0}
	for i, tag := range []byte{1, 2, 4, 16, 32} {
		id := none
		if tag == 2 {
			id = []byte{0xe8, 3, 0, 0}
		}
		out = append(append(out, tag, 0, perms[i], 0), id...)
	}
	return out
}

// Access lists are carried over with the permissions that they show as.
func TestAccessListsAreCarried(t *testing.T) {
	const name = "system.posix_acl_access"
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old", "only": "same", "d/x": "x"})
	theirs, mine := accessList(7, 4, 4, 4, 0), accessList(7, 6, 4, 6, 4)
	for _, f := range []string{"f", "d"} {
		if err := unix.Setxattr(p.ws+"/"+f, name, theirs, 0); err != nil {
			t.Skipf("no access lists here: %v", err)
		}
	}
	lists := func() string {
		return snapshot(t, p.ws) + value(t, p.ws+"/f", name) + "|" + value(t, p.ws+"/only", name) + "|" + value(t, p.ws+"/d", name)
	}
	before := lists()
	s := p.reviewed(t, "run", func(root string) {
		put(t, root, map[string]string{"f": "new", "d/x": "y"})
		if err := unix.Setxattr(root+"/only", name, mine, 0); err != nil {
			t.Skipf("no access lists in an overlay here: %v", err)
		}
	})
	_, err := s.Apply(t.Context(), anything)
	must(t, err)
	if got := value(t, p.ws+"/f", name); got != string(theirs) {
		t.Errorf("the changed file has %q, want what it had", got)
	}
	if got := value(t, p.ws+"/only", name); got != string(mine) {
		t.Errorf("the other one has %q", got)
	}
	_, err = p.home.Undo("run")
	must(t, err)
	if got := lists(); got != before {
		t.Errorf("undone\n%q\nwant\n%q", got, before)
	}
}

// An attribute that somebody changes in the workspace is a change underneath.
func TestAttributesConflict(t *testing.T) {
	p := newPlace(t)
	attributed(t, p.ws)
	put(t, p.ws, map[string]string{"f": "old"})
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "new"}) })
	must(t, unix.Setxattr(p.ws+"/f", "user.theirs", []byte("x"), 0))
	_, err := s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict)
}

// An attribute that gives power, or that nobody knows, is refused and named.
func TestAttributesRefused(t *testing.T) {
	capability := []byte{1, 0, 0, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
	for attr, v := range map[string][]byte{"security.capability": capability, "trusted.other": []byte("x"), "user.overlay.overlay.opaque": []byte("y")} {
		t.Run(attr, func(t *testing.T) {
			p := newPlace(t)
			put(t, p.ws, map[string]string{"f": "old"})
			s, err := p.home.Begin("run", p.ws)
			must(t, err)
			_, upper, _ := s.Layers()
			must(t, os.WriteFile(upper+"/f", []byte("new"), 0o755))
			if err := unix.Setxattr(upper+"/f", attr, v, 0); err != nil {
				t.Skipf("it cannot be set: %v", err)
			}
			changes, err := s.Review(t.Context(), anything)
			must(t, err)
			name := attr
			if attr == "security.capability" {
				name = "file capabilities"
			}
			if len(changes) != 1 || !strings.Contains(changes[0].Refused, name) {
				t.Errorf("listed as\n%s", list(changes))
			}
		})
	}
}

// What the review recorded is read again where a file was touched since.
func TestTouchedAfterReviewIsReadAgain(t *testing.T) {
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "one", "g": "one"})
	for range 30 { // long enough ago for its stamp to be trusted
		waitTick(t, p.dir)
	}
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "held", "g": "held"}) })
	now, err := os.Stat(p.ws + "/f")
	must(t, err)
	must(t, os.WriteFile(p.ws+"/f", []byte("two"), 0o644), os.Chtimes(p.ws+"/f", now.ModTime(), now.ModTime()))
	before, err := os.ReadFile(p.ws + "/f")
	must(t, err)
	_, err = s.Apply(t.Context(), anything)
	wantCode(t, err, fault.Conflict)
	if err == nil || !strings.Contains(err.Error(), `"f"`) || strings.Contains(err.Error(), `"g"`) {
		t.Errorf("it names %v", err)
	}
	if b, err := os.ReadFile(p.ws + "/f"); err != nil || !bytes.Equal(b, before) {
		t.Errorf("f is %q, %v", b, err)
	}
}
