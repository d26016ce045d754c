package changeset_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
)

// private runs the calling test once more in a process whose mounts are its own,
// and reports whether this is that process.
func private(t *testing.T) bool {
	t.Helper()
	if os.Getenv("CHANGESET_PRIVATE") == t.Name() {
		return true
	}
	cmd := exec.Command("/proc/self/exe", "-test.run", "^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), "CHANGESET_PRIVATE="+t.Name())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	switch {
	case err != nil && strings.Contains(err.Error(), "operation not permitted"):
		t.Skipf("no mount namespace can be made: %v", err)
	case err != nil:
		t.Errorf("%v\n%s", err, out)
	case strings.Contains(string(out), "--- SKIP"):
		t.Skipf("%s", out)
	case !strings.Contains(string(out), "--- PASS: "+t.Name()):
		t.Errorf("it did not run:\n%s", out)
	}
	return false
}

func mount(t *testing.T, source, target, fs string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, fs, flags, data); err != nil {
		t.Skipf("%s cannot be mounted: %v", fs, err)
	}
}

// A full disk leaves nothing behind.
func TestFullDisk(t *testing.T) {
	if !private(t) {
		return
	}
	p := newPlace(t)
	mount(t, "none", p.ws, "tmpfs", 0, "size=64k")
	defer func() { must(t, unix.Unmount(p.ws, unix.MNT_DETACH)) }()
	put(t, p.ws, map[string]string{"f": "old"})
	s := p.reviewed(t, "run", func(root string) {
		put(t, root, map[string]string{"f": strings.Repeat("x", 40<<10), "g": strings.Repeat("y", 40<<10)})
	})
	before := snapshot(t, p.ws)
	_, err := s.Apply(t.Context(), anything)
	if err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("got %v", err)
	}
	if got := snapshot(t, p.ws); got != before {
		t.Errorf("left behind:\n%.300s", got)
	}
}

func TestReadOnlyWorkspace(t *testing.T) {
	if !private(t) {
		return
	}
	p := newPlace(t)
	put(t, p.ws, map[string]string{"f": "old"})
	mount(t, p.ws, p.ws, "", unix.MS_BIND, "")
	defer func() { must(t, unix.Unmount(p.ws, unix.MNT_DETACH)) }()
	must(t, unix.Mount("", p.ws, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
	s := p.reviewed(t, "run", func(root string) { put(t, root, map[string]string{"f": "new"}) })
	_, err := s.Apply(t.Context(), anything)
	if err == nil || !strings.Contains(err.Error(), "cannot be written") {
		t.Errorf("got %v", err)
	}
}

// A workspace on another file system than Remit's folder, or on an overlay of
// its own as in a container, is held, applied and put back as any other.
func TestWorkspaceOnOtherFileSystems(t *testing.T) {
	if !private(t) {
		return
	}
	for _, fs := range []string{"tmpfs", "overlay"} {
		p := newPlace(t)
		data := ""
		if fs == "overlay" {
			must(t, os.Mkdir(p.dir+"/l", 0o755), os.Mkdir(p.dir+"/u", 0o755), os.Mkdir(p.dir+"/w", 0o755))
			put(t, p.dir+"/l", map[string]string{"f": "image", "d/x": "x"})
			data = "lowerdir=" + p.dir + "/l,upperdir=" + p.dir + "/u,workdir=" + p.dir + "/w"
		}
		mount(t, "none", p.ws, fs, 0, data)
		put(t, p.ws, map[string]string{"f": "old", "d/x": "x"})
		before := snapshot(t, p.ws)
		s := p.reviewed(t, "run", func(root string) {
			put(t, root, map[string]string{"f": "new", "n/n": "n"})
			must(t, os.RemoveAll(root+"/d"))
		})
		after := wanted(t, p, s)
		_, err := s.Apply(t.Context(), anything)
		must(t, err)
		if got := snapshot(t, p.ws); got != after {
			t.Errorf("%s: applied\n%s\nwant\n%s", fs, got, after)
		}
		_, err = p.home.Undo("run")
		must(t, err)
		if got := snapshot(t, p.ws); got != before {
			t.Errorf("%s: undone\n%s\nwant\n%s", fs, got, before)
		}
		must(t, unix.Unmount(p.ws, unix.MNT_DETACH))
	}
}

// Where Remit's own folder cannot hold a layer, the run does not begin.
func TestHomeOnAnOverlay(t *testing.T) {
	if !private(t) {
		return
	}
	p := newPlace(t)
	must(t, os.Mkdir(p.dir+"/l", 0o755), os.Mkdir(p.dir+"/u", 0o755), os.Mkdir(p.dir+"/w", 0o755))
	mount(t, "none", p.dir+"/home", "overlay", 0, "lowerdir="+p.dir+"/l,upperdir="+p.dir+"/u,workdir="+p.dir+"/w")
	defer func() { must(t, unix.Unmount(p.dir+"/home", unix.MNT_DETACH)) }()
	s, err := p.home.Begin("run", p.ws)
	must(t, err)
	h := s.Hold(p.box.Overlay)
	defer h.Close()
	if _, _, err = h.Enter(t.Context()); err == nil || !strings.Contains(err.Error(), "REMIT_HOME") {
		t.Errorf("got %v, want an error that says what to do", err)
	}
	wantCode(t, err, fault.SandboxMissing)
}

// What is mounted inside a workspace a held run would not see: it does not begin.
// Mounted later, it is neither replaced nor deleted nor gone into.
func TestMountsInsideTheWorkspace(t *testing.T) {
	if !private(t) {
		return
	}
	p := newPlace(t)
	put(t, p.ws, map[string]string{"a b/": "", "gone/in/x": "under", "file": "under"})
	put(t, p.dir+"/out", map[string]string{"x": "theirs"})
	in := func(name string) { mount(t, p.dir+"/out", p.ws+"/"+name, "", unix.MS_BIND, "") }
	out := func(name string) { must(t, unix.Unmount(p.ws+"/"+name, unix.MNT_DETACH)) }
	in("a b")
	_, err := p.home.Begin("no", p.ws)
	wantCode(t, err, fault.Usage)
	if err == nil || !strings.Contains(err.Error(), `/ws/a b"`) {
		t.Errorf("it names not what is mounted: %v", err)
	}
	out("a b")
	s := p.held(t, "run", func(root string) {
		put(t, root, map[string]string{"a b/new": "mine", "ok": "ok", "file": "mine"})
		must(t, os.RemoveAll(root+"/gone"))
	})
	in("a b")
	in("gone/in")
	mount(t, p.dir+"/out/secret", p.ws+"/file", "", unix.MS_BIND, "")
	outside := snapshot(t, p.dir+"/out")
	changes, err := s.Review(t.Context(), anything)
	must(t, err)
	want := map[string]bool{"a b": true, "gone": true, "gone/in": true, "file": true, "ok": false}
	for _, c := range changes {
		if refused, ok := want[c.Path]; !ok || refused != (c.Refused != "") {
			t.Errorf("listed as\n%s", list([]changeset.Change{c}))
		}
		delete(want, c.Path)
	}
	if len(want) > 0 {
		t.Errorf("not listed: %v", want)
	}
	_, err = s.Apply(t.Context(), anything)
	must(t, err)
	if got := snapshot(t, p.dir+"/out"); got != outside {
		t.Errorf("what was mounted holds\n%s\nwant\n%s", got, outside)
	}
	out("a b")
	out("gone/in")
	out("file")
}
