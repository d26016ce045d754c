//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// listing lists what is in a folder, with kinds, modes and targets.
func listing(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	must(t, filepath.WalkDir(dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		st, err := os.Lstat(p)
		if err != nil {
			return err
		}
		to, _ := os.Readlink(p) // of a link
		fmt.Fprintln(&b, p, st.Mode(), st.Size(), to)
		return nil
	}))
	return b.String()
}

// While a sandbox is made, its steps run with the host's files in reach. A link
// or a missing folder where the profile expects another thing must not lead one
// of them there.
func TestEscapesWhileASandboxIsMade(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	must(t, os.Chmod(base, 0o755))
	in := func(name string) string { return filepath.Join(base, name) }
	ws, outside := in("ws"), in("outside")
	for _, dir := range []string{ws, outside, in("ws/folder"), in("ws/folder/sub")} {
		must(t, os.Mkdir(dir, 0o777))
	}
	must(t, os.WriteFile(in("outside/file"), []byte("host"), 0o666))
	must(t, os.WriteFile(in("ws/plain"), []byte("plain"), 0o666))
	must(t, os.Symlink(outside, in("ws/link")))
	must(t, os.Symlink(in("outside/file"), in("ws/filelink")))
	bind := sandbox.Mount{Path: ws, Access: sandbox.ReadWrite, Folder: true}
	show := func(name string) sandbox.Mount {
		return sandbox.Mount{Path: in(name), From: in("ws/folder"), Access: sandbox.ReadWrite, Folder: true}
	}
	file := func(name string) sandbox.Mount {
		return sandbox.Mount{Path: in(name), From: in("ws/plain"), Access: sandbox.ReadWrite}
	}
	hollow := func(name string) sandbox.Mount {
		return sandbox.Mount{Path: in(name), Kind: sandbox.Hollow, Folder: true}
	}
	mask := func(name string) sandbox.Mount {
		return sandbox.Mount{Path: in(name), Kind: sandbox.Mask, Folder: true}
	}
	tests := map[string]struct {
		dir    string
		mounts []sandbox.Mount
		starts bool
	}{
		"nothing wrong":                         {in("ws/folder"), []sandbox.Mount{bind}, true},
		"nothing wrong in an emptied folder":    {in("ws/folder"), []sandbox.Mount{bind, hollow("ws/folder"), show("ws/folder/new/sub")}, true},
		"working folder gone":                   {in("ws/gone"), []sandbox.Mount{bind}, false},
		"working folder behind a link":          {in("ws/link/gone"), []sandbox.Mount{bind}, false},
		"folder shown through a link":           {ws, []sandbox.Mount{bind, show("ws/link/new")}, false},
		"folder shown at a link":                {ws, []sandbox.Mount{bind, show("ws/link")}, false},
		"folder shown where there is none":      {ws, []sandbox.Mount{bind, show("ws/gone/new")}, false},
		"file shown through a link":             {ws, []sandbox.Mount{bind, file("ws/link/new")}, false},
		"file shown where there is none":        {ws, []sandbox.Mount{bind, file("ws/new")}, false},
		"folder emptied at a link":              {ws, []sandbox.Mount{bind, hollow("ws/link"), show("ws/link/new")}, false},
		"folder emptied through a link":         {ws, []sandbox.Mount{bind, hollow("ws/link/sub"), show("ws/link/sub/new")}, false},
		"folder emptied, then gone beside it":   {ws, []sandbox.Mount{bind, hollow("ws/folder"), show("ws/folder/../gone")}, false},
		"mask through a link":                   {ws, []sandbox.Mount{bind, mask("ws/link/sub")}, false},
		"folder at the place that masks are in": {ws, []sandbox.Mount{bind, {Path: "/.remit", From: ws, Access: sandbox.ReadWrite, Folder: true}, mask("ws/folder")}, true},
	}
	before := listing(t, base)
	box := linux.New(linux.Config{})
	t.Cleanup(func() { must(t, box.Close()) })
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			failed, err := box.RunProfile(sandbox.Profile{Dir: tc.dir, Mounts: tc.mounts})
			if errors.Is(err, fault.SandboxMissing) {
				t.Skipf("NOT TESTED: this machine cannot confine: %v", err)
			}
			must(t, err)
			if (failed == "") != tc.starts {
				t.Errorf("it failed at %q; starts: %v, want %v", failed, failed == "", tc.starts)
			}
			if after := listing(t, base); after != before {
				t.Errorf("the host's files changed from\n%sto\n%s", before, after)
			}
		})
	}
}

// Without a file tree of its own, a command is confined by rules for the host's
// files. A link put where the policy allowed a file must not carry a rule away.
func TestEscapesWhileRulesAreMade(t *testing.T) {
	dir, err := os.MkdirTemp("", "remit-test-")
	must(t, err)
	t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
	must(t, os.Chmod(dir, 0o755)) // root's command is another user's
	dir, err = filepath.EvalSymlinks(dir)
	must(t, err)
	must(t, os.Mkdir(filepath.Join(dir, "folder"), 0o755))
	must(t, os.Symlink("/", filepath.Join(dir, "link")))
	box := linux.New(linux.Config{})
	t.Cleanup(func() { must(t, box.Close()) })
	for name, want := range map[string]string{"folder": "", "link": "Landlock", "link/etc": "Landlock"} {
		failed, err := box.RunProfile(sandbox.Profile{Dir: "/", Isolation: policy.LandlockIsolation,
			Mounts: []sandbox.Mount{{Path: filepath.Join(dir, name), Access: sandbox.ReadOnly, Folder: true}}})
		if errors.Is(err, fault.SandboxMissing) {
			t.Skipf("NOT TESTED: this machine cannot confine: %v", err)
		}
		must(t, err)
		if failed != want {
			t.Errorf("a rule for %q: failed at %q, want %q", name, failed, want)
		}
	}
}

// The root of a sandbox has links of its own, as /var/tmp. What is shown or
// entered below one of their names must not be made where it points on the host.
func TestEscapesThroughTheSandboxesOwnLinks(t *testing.T) {
	for _, in := range []string{"/var/tmp", "/dev/shm"} {
		t.Run(in, func(t *testing.T) {
			dir, err := os.MkdirTemp(in, "remit-test-")
			if err != nil {
				t.Skipf("NOT TESTED: %v", err)
			}
			t.Cleanup(func() { must(t, os.RemoveAll(dir)) })
			if real, err := filepath.EvalSymlinks(dir); err != nil || real != dir {
				t.Skipf("NOT TESTED: %s is a link here", in)
			}
			must(t, os.Chmod(dir, 0o755))
			must(t, os.MkdirAll(filepath.Join(dir, "ws", "shown"), 0o755))
			twin := filepath.Join("/tmp", filepath.Base(dir))
			t.Cleanup(func() { must(t, os.RemoveAll(twin)) })
			for _, allowed := range []string{"shown/**", "none/**", "**"} {
				w := newWorld(t, openPolicy)
				w.dir = filepath.Join(dir, "ws")
				w.allow(strings.Replace(openPolicy, `"**"`, `"`+allowed+`"`, 1))
				_, err := w.run(sandbox.Command{Argv: []string{"true"}})
				if err != nil {
					t.Errorf("with read: [%q]: %v", allowed, err)
				}
				if _, err := os.Lstat(twin); !errors.Is(err, fs.ErrNotExist) {
					t.Errorf("with read: [%q], %s was made on the host", allowed, twin)
				}
			}
		})
	}
}
