package sandbox_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
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
	for _, f := range sandbox.ToolFolders(home, "", nil) {
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

// TestTheVersionIsTheOneThatIsUsedOutside: the project's version comes before the one on the PATH, that before the person's
// choice, and that before the newest. A name that no folder has, or no name at all, chooses nothing.
func TestTheVersionIsTheOneThatIsUsedOutside(t *testing.T) {
	type choice struct{ project, onPath, person string }
	managers := map[string]struct {
		folder, project, person, form string
		versions                      []string // from the oldest to the newest
	}{
		"nvm":    {".nvm/versions/node/%s/bin", ".nvmrc", ".nvm/alias/default", "%s\n", []string{"v9.11.2", "v18.3.0", "v20.0.0"}},
		"pyenv":  {".pyenv/versions/%s/bin", ".python-version", ".pyenv/version", "# mine\n%s\n", []string{"3.9.2", "3.12.1", "3.13.0"}},
		"rbenv":  {".rbenv/versions/%s/bin", ".ruby-version", ".rbenv/version", "%s", []string{"2.7.8", "3.1.0", "3.3.0"}},
		"rustup": {".rustup/toolchains/%s/bin", "rust-toolchain.toml", ".rustup/settings.toml", "[toolchain]\nchannel = \"%[1]s\" # ours\ndefault_toolchain = '%[1]s'\n", []string{"1.80.0-x86_64-unknown-linux-gnu", "1.90.0-x86_64-unknown-linux-gnu", "stable-2-x86_64-unknown-linux-gnu"}},
		"fnm":    {".local/share/fnm/node-versions/%s/installation/bin", ".node-version", ".local/share/fnm/aliases/default", "%s\n", []string{"v16.1.0", "v18.3.0", "v20.0.0"}},
	}
	short := func(v string) string { // as people write it
		v, _, _ = strings.Cut(strings.TrimPrefix(v, "v"), "-")
		before, _, _ := strings.Cut(v, ".")
		if strings.Count(v, ".") > 1 {
			return v[:strings.LastIndex(v, ".")]
		}
		return before
	}
	for name, m := range managers {
		old, middle, newest := m.versions[0], m.versions[1], m.versions[2]
		for _, c := range []struct {
			choice
			want string
		}{
			{choice{}, newest},
			{choice{person: old}, old},
			{choice{person: short(middle)}, middle},
			{choice{project: "ruby-" + short(middle), person: newest}, middle},
			{choice{person: "lts/*"}, newest},
			{choice{onPath: old, person: middle}, old},
			{choice{project: short(middle), onPath: old, person: newest}, middle},
			{choice{project: "99.1", onPath: old}, old},
			{choice{project: "../../..", person: middle}, middle},
		} {
			home, project := t.TempDir(), t.TempDir()
			for _, v := range m.versions {
				if err := os.MkdirAll(filepath.Join(home, fmt.Sprintf(m.folder, v)), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			for file, v := range map[string]string{filepath.Join(home, m.person): c.person, filepath.Join(project, m.project): c.project} {
				if v == "" {
					continue
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				err := os.WriteFile(file, fmt.Appendf(nil, m.form, v), 0o600)
				if strings.Contains(file, "/aliases/") {
					err = errors.Join(os.Remove(file), os.Symlink(filepath.Dir(filepath.Join(home, fmt.Sprintf(m.folder, v))), file))
				}
				if err != nil {
					t.Fatal(err)
				}
			}
			path := []string{"/usr/bin", filepath.Join(home, fmt.Sprintf(m.folder, c.onPath))}
			if name == "fnm" { // its folder on the PATH is a link
				link := filepath.Join(home, "link")
				if err := os.Symlink(path[1], link); err != nil {
					t.Fatal(err)
				}
				path[1] = link
			}
			want, got := filepath.Join(home, fmt.Sprintf(m.folder, c.want)), sandbox.ToolFolders(home, project, path)
			if n := len(got); n == 0 || got[n-1].Dir != want || !strings.Contains(want, got[n-1].Root+"/") {
				t.Errorf("%s with %+v: %+v, want %s", name, c.choice, got, want)
			}
		}
	}
}

// TestOddToolFoldersAreLeftOut: names that a PATH or a pattern reads in another way, and links into the project.
func TestOddToolFoldersAreLeftOut(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	for _, name := range []string{"a:b", "x{a,b}", "**", "st*r", "q'q", `q"q`, "n\nn", `b\b`, "[ab]", "plain"} {
		if err := os.MkdirAll(filepath.Join(home, ".asdf/installs", name, "1.0/bin"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(project, "nodes/v20.0.0/bin"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.MkdirAll(filepath.Join(home, ".nvm/versions"), 0o755), os.Symlink(filepath.Join(project, "nodes"), filepath.Join(home, ".nvm/versions/node"))); err != nil {
		t.Fatal(err)
	}
	for _, f := range sandbox.ToolFolders(home, project, nil) {
		if rel, ok := strings.CutPrefix(f.Dir, home+"/"); ok && rel != ".asdf/installs/plain/1.0/bin" {
			t.Errorf("%s is a tool folder", f.Dir)
		}
	}
}

// TestAFileOfAVersionHoldsNothingUp: a project can put anything in its place.
func TestAFileOfAVersionHoldsNothingUp(t *testing.T) {
	home, project := t.TempDir(), t.TempDir()
	dir := filepath.Join(home, ".nvm/versions/node/v20.0.0/bin")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, plant := range map[string]func(string) error{
		"FIFO":   func(p string) error { return syscall.Mkfifo(p, 0o600) },
		"folder": func(p string) error { return os.Mkdir(p, 0o755) },
		"loop":   func(p string) error { return os.Symlink(p, p) },
		"zeros":  func(p string) error { return os.Symlink("/dev/zero", p) },
		"large":  func(p string) error { return os.WriteFile(p, make([]byte, 1<<20), 0o600) },
		"spaces": func(p string) error { return os.WriteFile(p, []byte(" \n\t\n = \n"), 0o600) },
	} {
		file := filepath.Join(project, ".nvmrc")
		if err := plant(file); err != nil {
			t.Fatal(err)
		}
		if got := sandbox.ToolFolders(home, project, nil); len(got) == 0 || got[len(got)-1].Dir != dir {
			t.Errorf("%s: %+v", name, got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
	}
}
