//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

const folderPolicy = "version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\ncommands: {allow: ['sh **'], timeout: 300s}\n"

// folderWorld is a world whose box keeps folders in a state of its own.
func folderWorld(t *testing.T, policy string, lacking linux.Lacking) (w *world, state string) {
	t.Helper()
	w = newWorld(t, policy)
	state, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: state, Lacking: lacking})
	t.Cleanup(func() { must(t, w.box.Close()) })
	return w, filepath.Join(state, "boxes")
}

func (w *world) folder(bytes int64, files int) *sandbox.Folder {
	w.t.Helper()
	f, err := w.box.NewFolder(w.p, bytes, files)
	must(w.t, err)
	return f
}

func (w *world) shIn(f *sandbox.Folder, script string) (sandbox.Outcome, error) {
	w.t.Helper()
	return w.box.Run(w.t.Context(), w.p, sandbox.Command{Argv: []string{"sh", "-c", script}, Dir: sandbox.FolderAt, Folder: f})
}

// In a folder of its own a command sees nothing that the rules of files open,
// and what it makes is read back.
func TestAFolderOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]string{"fresh": folderPolicy, "the policy's sandboxes stay": folderPolicy + "sandbox: {tier: session}\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, boxes := folderWorld(t, policy, 0)
			secret := w.file("secret", "canary")
			f := w.folder(1<<20, 100)
			must(t, f.Put("a/in", []byte("in")))
			must(t, f.Put("run.sh", []byte("#!/bin/sh\necho ran\n")))
			out, err := w.shIn(f, "pwd; sh run.sh; cat a/in; echo out > out; cat "+secret+" 2>/dev/null; ls "+w.dir+" 2>/dev/null; true")
			if err != nil || string(out.Stdout.Data) != "/session\nran\nin" || out.Tier != "fresh" || out.ExitCode != 0 {
				t.Errorf("got %+v, %v: %s", out, err, out.Stderr.Data)
			}
			list, err := f.Files(t.Context())
			must(t, err)
			want := []sandbox.FolderFile{{Path: "a/in", Size: 2}, {Path: "out", Size: 4}, {Path: "run.sh", Size: 19}}
			if !slices.Equal(list, want) {
				t.Errorf("there is %+v", list)
			}
			if b, err := f.Read("out"); err != nil || string(b) != "out\n" {
				t.Errorf("read %q, %v", b, err)
			}
			must(t, f.Close())
			if left, err := filepath.Glob(boxes + "/*"); err != nil || len(left) > 0 {
				t.Errorf("left: %v, %v", left, err)
			}
		})
	}
}

func TestFoldersLeadNowhere(t *testing.T) {
	t.Parallel()
	w, _ := folderWorld(t, folderPolicy, 0)
	secret := w.file("secret", "canary")
	f := w.folder(1<<20, 100)
	for _, name := range []string{"", ".", "..", "../x", "/etc/x", "a/../../x", "a//b", "a\x00b", "./a"} {
		if err := f.Put(name, nil); err == nil {
			t.Errorf("%q was put", name)
		}
		if _, err := f.Read(name); err == nil {
			t.Errorf("%q was read", name)
		}
	}
	must(t, f.Put("kept/x", []byte("x")))
	if err := f.Put("kept/x", nil); err == nil {
		t.Error("a file was put twice")
	}
	if _, err := w.shIn(f, "ln -s "+secret+" abs; ln -s .. up; mkfifo fifo; ln -s kept/x in; mkdir shut; echo x > shut/x; chmod 000 shut"); err != nil {
		t.Fatal(err)
	}
	list, err := f.Files(t.Context())
	must(t, err)
	for _, one := range list {
		plain := one.Path == "kept/x" || one.Path == "shut/x" // root looks into everything
		if plain != (one.Odd == "") {
			t.Errorf("%+v", one)
		}
	}
	for _, name := range []string{"abs", "up", "fifo", "in", "up/secret", "kept"} {
		if b, err := f.Read(name); err == nil {
			t.Errorf("%s: %q was read", name, b)
		}
	}
	must(t, f.Close())
	if b, err := os.ReadFile(secret); err != nil || string(b) != "canary" {
		t.Errorf("outside there is %q, %v", b, err)
	}
}

func TestAFolderIsBounded(t *testing.T) {
	t.Parallel()
	for name, script := range map[string]string{"bytes": "while :; do head -c 300000 /dev/zero >> big; done", "files": "i=0; while :; do i=$((i+1)); : > f$i; done"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, _ := folderWorld(t, folderPolicy, 0)
			f := w.folder(1<<20, 200)
			out, err := w.shIn(f, script)
			if err != nil || out.Signal != "SIGKILL" || !strings.Contains(out.Limit, "the command's folder holds more than") {
				t.Errorf("got %+v, %v", out, err)
			}
			if _, err := f.Files(t.Context()); !errors.Is(err, fault.LimitReached) {
				t.Errorf("the list: %v", err)
			}
			must(t, f.Close())
		})
	}
}

func TestAFolderNeedsFullIsolation(t *testing.T) {
	t.Parallel()
	for _, isolation := range []string{"landlock", "none"} {
		w, _ := folderWorld(t, folderPolicy+"isolation: "+isolation+"\n", linux.NoNamespaces)
		f := w.folder(1<<20, 100)
		if out, err := w.shIn(f, "echo x"); !errors.Is(err, fault.SandboxMissing) {
			t.Errorf("%s: %+v, %v", isolation, out, err)
		}
		must(t, f.Close())
	}
}

func TestWhatAFoldersCommandMayNot(t *testing.T) {
	t.Parallel()
	w, _ := folderWorld(t, folderPolicy, 0)
	f := w.folder(1<<20, 100)
	must(t, f.Put("sh", []byte("#!/bin/sh\necho planted\n")))
	for name, c := range map[string]sandbox.Command{
		"a program in the folder": {Argv: []string{"./sh"}, Dir: sandbox.FolderAt},
		"another program":         {Argv: []string{"cat", "sh"}, Dir: sandbox.FolderAt},
		"another folder":          {Argv: []string{"sh", "-c", "true"}, Dir: w.dir},
	} {
		c.Folder = f
		if out, err := w.box.Run(t.Context(), w.p, c); err == nil {
			t.Errorf("%s: %+v", name, out)
		}
	}
	w.p.End()
	if _, err := w.shIn(f, "true"); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("a call that is over: %v", err)
	}
	for _, p := range []permit.Permit{w.p, {}} {
		if _, err := w.box.NewFolder(p, 1, 1); !errors.Is(err, fault.HandleRefused) {
			t.Errorf("a folder for a call that is over: %v", err)
		}
	}
	must(t, f.Close())
}

func TestLeftOverFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	w, boxes := folderWorld(t, folderPolicy, 0)
	held := w.folder(1<<20, 100)
	list, err := filepath.Glob(boxes + "/*")
	must(t, err)
	old := time.Now().Add(-2 * time.Hour)
	left, fresh := filepath.Join(boxes, "remit-box-left"), filepath.Join(boxes, "remit-box-fresh")
	must(t, os.MkdirAll(filepath.Join(left, "x"), 0o700))
	must(t, os.Mkdir(fresh, 0o700))
	outside := w.file("outside/kept", "x")
	must(t, os.Symlink(filepath.Dir(outside), filepath.Join(boxes, "remit-box-link")))
	for _, dir := range append(list, left) {
		must(t, os.Chtimes(dir, old, old))
	}
	must(t, w.folder(1, 1).Close())
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what a dead process left is there: %v", err)
	}
	for _, kept := range append(list, fresh, outside) {
		if _, err := os.Stat(kept); err != nil {
			t.Errorf("%s is gone: %v", kept, err)
		}
	}
	must(t, held.Close())
}
