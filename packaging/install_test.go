package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// The deb is installed over an older one on a copy of this machine, the demo runs there as
// an ordinary user, and after a purge nothing is left but what people made.
func TestInstallAndRemove(t *testing.T) {
	install(t, "/")
}

// The same on Debian as it is before anything is installed.
func TestInstallOnACleanSystem(t *testing.T) {
	soak(t, "it fetches Debian's basic packages")
	tool(t, "debootstrap")
	clean := filepath.Join(t.TempDir(), "debian")
	out, err := exec.Command("debootstrap", "--variant=minbase", "stable", clean).CombinedOutput()
	if err != nil {
		t.Skipf("NOT TESTED: Debian's packages cannot be fetched: %v\n%s", err, out[max(0, len(out)-500):])
	}
	install(t, clean)
}

// install runs testdata/install.sh on a copy of a system.
func install(t *testing.T, system string) {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: installing a package takes root")
	}
	for _, name := range []string{"dpkg", "setpriv", "pivot_root", "mount"} {
		tool(t, name)
	}
	if exec.Command("dpkg", "--root", system, "-s", "remit").Run() == nil {
		t.Skip("NOT TESTED: the system has the package already")
	}
	files := t.TempDir()
	r, p := testRelease(), testProgram(t)
	r.Version = "1.2.2"
	p.Data = []byte("#!/bin/sh\necho old\n")
	docs, err := documents("..", r, []Program{p})
	must(t, err)
	must(t, writePackages(files, r, p, docs))
	must(t, os.Rename(one(t, files, ".deb"), filepath.Join(files, "old.deb")))
	copyTo(t, one(t, distFolder(t), ".deb"), filepath.Join(files, "new.deb"))
	server := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(files, "demo-server"), "./examples/demo/server")
	server.Dir, server.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := server.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	output(t, "tar", "-C", "..", "-cf", filepath.Join(files, "demo.tar"), "examples/demo")
	cmd := exec.Command("sh", "testdata/machine.sh", system, t.TempDir(), "testdata/install.sh",
		filepath.Join(files, "old.deb"), filepath.Join(files, "new.deb"), filepath.Join(files, "demo.tar"), filepath.Join(files, "demo-server"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8"}
	out, err := cmd.CombinedOutput()
	if err != nil || !bytes.HasSuffix(out, []byte("== done\n")) {
		t.Errorf("%v\n%s", err, out)
	}
}

func copyTo(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	must(t, err)
	must(t, os.WriteFile(to, data, 0o644))
}

// The scripts are plain sh, and do nothing where there is neither systemd nor AppArmor.
func TestScriptsOfPackages(t *testing.T) {
	for _, name := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
		path := filepath.Join("files", name)
		output(t, "sh", "-n", path)
		script, err := os.ReadFile(path)
		must(t, err)
		for _, never := range []string{"systemctl start", "systemctl enable", "systemctl restart", "rm -r", "/home", "REMIT_HOME", "userdel", "useradd"} {
			if strings.Contains(string(script), never) {
				t.Errorf("%s has %q", name, never)
			}
		}
	}
}

// What the packages are judged by elsewhere finds nothing to say.
func TestLintian(t *testing.T) {
	soak(t, "lintian is slow")
	tool(t, "lintian")
	deb := one(t, distFolder(t), ".deb")
	out, err := exec.Command("lintian", "--fail-on", "error,warning", "--allow-root", deb).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// Two clones in different folders, with build caches of their own, give the same files.
func TestBuildsAreReproducible(t *testing.T) {
	soak(t, "it compiles everything twice")
	var dirs [2]string
	for i, name := range []string{"a", "another/folder"} {
		top := t.TempDir()
		repo := filepath.Join(top, name)
		output(t, "git", "clone", "-q", "--no-hardlinks", "..", repo)
		bin, err := build(repo, filepath.Join(top, "cache"))
		must(t, err)
		p, err := ReadProgram(bin)
		must(t, err)
		if p.setting("vcs.revision") == "" || p.setting("vcs.modified") != "false" {
			t.Errorf("%s embeds commit %q, modified %q", bin, p.setting("vcs.revision"), p.setting("vcs.modified"))
		}
		if bytes.Contains(p.Data, []byte(top)) {
			t.Errorf("%s has the name of the folder that it was built in", bin)
		}
		dirs[i] = filepath.Join(filepath.Dir(bin), "dist")
		must(t, packageInto(bin, dirs[i]))
	}
	same(t, dirs[0], dirs[1])
}

func soak(t *testing.T, why string) {
	t.Helper()
	if os.Getenv("REMIT_SOAK") == "" {
		t.Skip("make soak does it: " + why)
	}
}
