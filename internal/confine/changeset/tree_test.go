package changeset_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

// anything lets every path be written.
func anything(string, changeset.Use) error { return nil }

// place is a workspace and a Remit home beside it, with files outside of both.
type place struct {
	dir, ws string
	home    changeset.Home
	box     *linux.Box
}

func newPlace(t testing.TB) place {
	t.Helper()
	dir, err := filepath.EvalSymlinks(tempDir(t))
	must(t, err)
	p := place{dir: dir, ws: filepath.Join(dir, "ws"), home: changeset.In(filepath.Join(dir, "home")), box: linux.New(linux.Config{State: filepath.Join(dir, "state")})}
	must(t, os.Mkdir(p.ws, 0o755), os.Mkdir(filepath.Join(dir, "home"), 0o700), os.Mkdir(filepath.Join(dir, "out"), 0o755),
		os.WriteFile(filepath.Join(dir, "out", "secret"), []byte("CANARY"), 0o644))
	t.Cleanup(func() { _ = p.box.Close() })
	return p
}

// tempDir is t.TempDir for folders that even their owner may not enter, such as
// an overlay's work folder.
func tempDir(t testing.TB) string {
	dir, err := os.MkdirTemp("", "changeset")
	must(t, err)
	t.Cleanup(func() {
		must(t, walk.Remove(dir))
	})
	return dir
}

// held makes changes through the overlay: do gets a path that shows the
// workspace's view.
func (p place) held(t testing.TB, run string, do func(root string)) *changeset.Set {
	t.Helper()
	s, err := p.home.Begin(run, p.ws)
	must(t, err)
	p.within(t, s, do)
	return s
}

func (p place) within(t testing.TB, s *changeset.Set, do func(root string)) {
	t.Helper()
	h := s.Hold(p.box.Overlay)
	defer h.Close()
	root, leave, err := h.Enter(t.Context())
	if err != nil {
		t.Skipf("no overlay on this machine: %v", err)
	}
	defer leave()
	do(fmt.Sprintf("/proc/self/fd/%d", root))
}

func (p place) reviewed(t testing.TB, run string, do func(root string)) *changeset.Set {
	t.Helper()
	s := p.held(t, run, do)
	_, err := s.Review(t.Context(), anything)
	must(t, err)
	return s
}

// snapshot prints a tree: type, permissions and content of every name.
func snapshot(t testing.TB, root string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(root, func(p string, d os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		fi, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, p)
		if err != nil || rel == "." {
			return err
		}
		what := ""
		switch {
		case fi.Mode().IsRegular():
			c, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			what = string(c)
		case fi.Mode()&os.ModeSymlink != 0:
			if what, err = os.Readlink(p); err != nil {
				return err
			}
		}
		fmt.Fprintf(&b, "%q %v %q%s\n", rel, fi.Mode(), what, noted(p))
		return nil
	}))
	return b.String()
}

// noted shows the extended attribute user.note of a file.
func noted(path string) string {
	v := make([]byte, 100)
	n, err := unix.Lgetxattr(path, "user.note", v)
	if err != nil {
		return "" // it has none, or nothing has any here
	}
	return fmt.Sprintf(" note %q", v[:n])
}

// put writes files, made of names and contents, and folders (names that end in /).
func put(t testing.TB, root string, files map[string]string) {
	t.Helper()
	for _, name := range sorted(files) {
		p := filepath.Join(root, name)
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(p, 0o755))
			continue
		}
		must(t, os.MkdirAll(filepath.Dir(p), 0o755), os.WriteFile(p, []byte(files[name]), 0o644))
	}
}

func sorted[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

func list(changes []changeset.Change) string {
	var b strings.Builder
	for _, c := range changes {
		fmt.Fprintf(&b, "%s %s", c.Kind, c.Path)
		if c.Refused != "" {
			fmt.Fprintf(&b, " REFUSED %s", c.Refused)
		}
		if c.Conflict != "" {
			fmt.Fprintf(&b, " CONFLICT %s", c.Conflict)
		}
		b.WriteString("\n")
	}
	return b.String()
}

func mkfifo(p string) error { return syscall.Mkfifo(p, 0o644) }

// waitTick waits until the file system's clock has moved on.
func waitTick(t testing.TB, dir string) {
	t.Helper()
	name := filepath.Join(dir, ".tick")
	stamp := func() int64 {
		must(t, os.WriteFile(name, nil, 0o644))
		fi, err := os.Stat(name)
		must(t, err, os.Remove(name))
		return fi.ModTime().UnixNano()
	}
	for first := stamp(); stamp() <= first; {
	}
}
