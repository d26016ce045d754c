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
	installDeb(t, "/")
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
	installDeb(t, clean)
}

// The rpm is installed, upgraded and removed by Debian's rpm.
func TestInstallAndRemoveRPM(t *testing.T) {
	tool(t, "rpm")
	files := twoVersions(t, ".rpm")
	onACopyOf(t, "/", "testdata/install-rpm.sh", filepath.Join(files, "old.rpm"), filepath.Join(files, "new.rpm"))
}

func installDeb(t *testing.T, system string) {
	t.Helper()
	tool(t, "dpkg")
	tool(t, "setpriv")
	if exec.Command("dpkg", "--root", system, "-s", "remit").Run() == nil {
		t.Skip("NOT TESTED: the system has the package already")
	}
	files := twoVersions(t, ".deb")
	server := exec.Command("go", "build", "-trimpath", "-o", filepath.Join(files, "demo-server"), "./examples/demo/server")
	server.Dir, server.Env = "..", append(os.Environ(), "CGO_ENABLED=0")
	if out, err := server.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	output(t, "tar", "-C", "..", "-cf", filepath.Join(files, "demo.tar"), "examples/demo", "examples/coding-agent")
	onACopyOf(t, system, "testdata/install.sh", filepath.Join(files, "old.deb"), filepath.Join(files, "new.deb"), filepath.Join(files, "demo.tar"), filepath.Join(files, "demo-server"))
}

// twoVersions gives a folder with the package, as new, and one of an older version, as old.
func twoVersions(t *testing.T, ending string) string {
	t.Helper()
	if os.Getuid() != 0 {
		t.Skip("NOT TESTED: installing a package takes root")
	}
	files := t.TempDir()
	r, p := testRelease(), testProgram(t)
	r.Version = "1.2.2"
	p.Data = []byte("#!/bin/sh\necho old\n")
	docs, err := documents("..", r, []Program{p})
	must(t, err)
	must(t, writePackages(files, r, p, docs))
	must(t, os.Rename(one(t, files, ending), filepath.Join(files, "old"+ending)))
	copyTo(t, one(t, distFolder(t), ending), filepath.Join(files, "new"+ending))
	return files
}

// onACopyOf runs a script as root where its changes reach nothing of the system.
func onACopyOf(t *testing.T, system, script string, files ...string) {
	t.Helper()
	tool(t, "mount")
	tool(t, "pivot_root")
	cmd := exec.Command("sh", append([]string{"testdata/machine.sh", system, t.TempDir(), script}, files...)...)
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

// Two clones in different folders give the same files; one is compiled from scratch, the
// other with what was compiled before.
func TestBuildsAreReproducible(t *testing.T) {
	soak(t, "it compiles everything again")
	commit := strings.TrimSpace(output(t, "git", "rev-parse", "HEAD")) // others may commit meanwhile
	var dirs [2]string
	for i, name := range []string{"a", "another/folder"} {
		top, cache := t.TempDir(), ""
		if i == 0 {
			cache = filepath.Join(top, "cache")
		}
		repo := filepath.Join(top, name)
		output(t, "git", "clone", "-q", "--no-hardlinks", "..", repo)
		output(t, "git", "-C", repo, "checkout", "-q", commit)
		bin, err := build(repo, cache)
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
