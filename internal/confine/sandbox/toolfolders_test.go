package sandbox_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

func TestToolFoldersAreTheNewestVersions(t *testing.T) {
	home := t.TempDir()
	for _, dir := range []string{".nvm/versions/node/v9.11.2/bin", ".nvm/versions/node/v10.1.0/bin", ".nvm/versions/node/v20.0.0/lib", ".pyenv/versions/3.9.2/bin",
		".pyenv/versions/3.12.1/bin", ".rbenv/versions/3.3.0/bin", ".asdf/installs/erlang/26/bin", ".asdf/installs/elixir/1.16/bin",
		".local/share/mise/installs/node/22.1/bin", ".cargo/bin", ".local/bin"} {
		if err := os.MkdirAll(filepath.Join(home, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("9.9", filepath.Join(home, ".pyenv/versions/9.9")); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range sandbox.ToolFolders(home) {
		rel, ok := strings.CutPrefix(f.Dir, home+"/")
		if !ok {
			continue // of the system
		}
		if f.Root != "" && f.Root != filepath.Dir(f.Dir) {
			t.Errorf("%s reads %s", f.Dir, f.Root)
		}
		got = append(got, rel)
	}
	want := []string{".local/bin", ".cargo/bin", ".nvm/versions/node/v10.1.0/bin", ".pyenv/versions/3.12.1/bin", ".rbenv/versions/3.3.0/bin",
		".asdf/installs/elixir/1.16/bin", ".asdf/installs/erlang/26/bin", ".local/share/mise/installs/node/22.1/bin"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q\nwant %q", got, want)
	}
}

func TestTellWhereNamesTheFolderAndTheSetting(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, ".nvm/versions/node/v20.1.0/bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"only-there": 0o755, "no-program": 0o644} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"), mode); err != nil {
			t.Fatal(err)
		}
	}
	for program, want := range map[string]string{
		"only-there": "it is in " + dir + ": add that folder to the policy's commands.path, and " + filepath.Dir(dir) + "/** to files.read",
		"no-program": "install it there, or add its folder to the policy's commands.path",
	} {
		_, _, err := sandbox.Lookup(nil, []string{"/nowhere"}, program, "/")
		var e *fault.Error
		if !errors.As(sandbox.TellWhere(err, home, program), &e) || e.Hint != want {
			t.Errorf("%s: %v, want %q", program, e, want)
		}
	}
}
