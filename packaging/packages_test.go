package main

import (
	"archive/tar"
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// inAll are files that every package has.
var inAll = []string{"/usr/bin/remit", "/usr/bin/remit-hook", "/usr/share/man/man1/remit.1.gz", "/usr/share/man/man1/remit-policy-check.1.gz", "/usr/share/bash-completion/completions/remit",
	"/usr/share/fish/vendor_completions.d/remit.fish", "/usr/share/doc/remit/README.md", "/usr/share/doc/remit/SECURITY.md", "/usr/share/doc/remit/docs/install.md", noticesPath}

func TestDebContents(t *testing.T) {
	tool(t, "dpkg-deb")
	deb := one(t, distFolder(t), ".deb")
	var files []string
	for line := range strings.Lines(output(t, "dpkg-deb", "-c", deb)) {
		f := strings.Fields(line)
		mode, owner, name := f[0], f[1], strings.TrimPrefix(f[5], ".")
		want := map[bool]string{true: "drwxr-xr-x", false: "-rw-r--r--"}[mode[0] == 'd']
		if strings.HasPrefix(name, "/usr/bin/remit") {
			want = "-rwxr-xr-x"
		}
		if mode != want || owner != "root/root" {
			t.Errorf("%s has mode %s and owner %s", name, mode, owner)
		}
		if mode[0] != 'd' {
			files = append(files, name)
		}
	}
	contains(t, files, append(inAll, "/usr/lib/systemd/system/remit.service", "/usr/lib/systemd/user/remit.service", "/usr/share/remit/apparmor", "/usr/share/zsh/vendor-completions/_remit",
		"/usr/share/doc/remit/copyright", "/usr/share/doc/remit/changelog.Debian.gz")...)
	if i := slices.IndexFunc(files, func(f string) bool { return !strings.HasPrefix(f, "/usr/") }); i >= 0 {
		t.Errorf("%s is outside /usr", files[i])
	}
	control := output(t, "dpkg-deb", "-f", deb)
	for _, want := range []string{"Package: remit\n", "Version: 1.2.3-1\n", "Maintainer: " + testMaintainer + "\n"} {
		if !strings.Contains(control, want) {
			t.Errorf("no %q in\n%s", want, control)
		}
	}
}

func TestRPMContents(t *testing.T) {
	tool(t, "rpm")
	rpm := one(t, distFolder(t), ".rpm")
	contains(t, strings.Fields(output(t, "rpm", "-qpl", rpm)), append(inAll, "/usr/lib/systemd/system/remit.service", "/usr/lib/systemd/user/remit.service", "/usr/share/remit/apparmor",
		"/usr/share/zsh/site-functions/_remit", "/usr/share/licenses/remit/LICENSE")...)
	for line := range strings.Lines(output(t, "rpm", "-qp", "--qf", "[%{FILEMODES:perms} %{FILEUSERNAME} %{FILEGROUPNAME} %{FILENAMES}\n]", rpm)) {
		f := strings.Fields(line)
		if want := map[bool]string{true: "-rwxr-xr-x", false: "-rw-r--r--"}[strings.HasPrefix(f[3], "/usr/bin/remit")]; f[0] != want || f[1] != "root" || f[2] != "root" {
			t.Errorf("got %s, want mode %s and root", line, want)
		}
	}
	if got, want := output(t, "rpm", "-qp", "--qf", "%{NAME} %{VERSION}-%{RELEASE} %{LICENSE} %{BUILDHOST}", rpm), "remit 1.2.3-1 Apache-2.0 localhost"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	output(t, "rpm", "-K", "--nosignature", rpm)
	scripts := output(t, "rpm", "-qp", "--scripts", rpm)
	for _, name := range []string{"postinstall.sh", "preremove.sh", "postremove.sh"} {
		script, err := own.ReadFile("files/" + name)
		must(t, err)
		if !strings.Contains(scripts, string(script)) {
			t.Errorf("no %s in\n%s", name, scripts)
		}
	}
}

func TestAPKContents(t *testing.T) {
	f, err := os.Open(one(t, distFolder(t), ".apk"))
	must(t, err)
	defer func() { _ = f.Close() }()
	var files []string
	var about string
	for r := bufio.NewReader(f); ; { // one gzip stream for each of its tar files
		z, err := gzip.NewReader(r)
		if errors.Is(err, io.EOF) {
			break
		}
		must(t, err)
		z.Multistream(false)
		data, err := io.ReadAll(z)
		must(t, err)
		for in := tar.NewReader(bytes.NewReader(data)); ; {
			h, err := in.Next()
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) { // only the last one has an end
				break
			}
			must(t, err)
			if h.Name == ".PKGINFO" {
				b, err := io.ReadAll(in)
				must(t, err)
				about = string(b)
			}
			if h.Uid != 0 || h.Gid != 0 || h.Mode&0o7022 != 0 {
				t.Errorf("%s has mode %o and owner %d:%d", h.Name, h.Mode, h.Uid, h.Gid)
			}
			if h.Typeflag == tar.TypeReg {
				files = append(files, "/"+h.Name)
			}
		}
	}
	contains(t, files, append(inAll, "/usr/share/zsh/site-functions/_remit", "/usr/share/licenses/remit/LICENSE")...)
	for _, f := range files {
		if strings.Contains(f, "systemd") || strings.Contains(f, "apparmor") || strings.Contains(f, ".post") || strings.Contains(f, ".pre") {
			t.Errorf("%s is of no use on Alpine", f)
		}
	}
	if !strings.Contains(about, "pkgname = remit\npkgver = 1.2.3-r0\n") {
		t.Errorf("got\n%s", about)
	}
}

func contains(t *testing.T, got []string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !slices.Contains(got, w) {
			t.Errorf("%s is missing", w)
		}
	}
}

// The same program gives the same files, whenever and wherever they are made.
func TestPackagesAreReproducible(t *testing.T) {
	r, p := testRelease(), testProgram(t)
	p.Data = []byte("a small program")
	docs, err := documents("..", r, []Program{p})
	must(t, err)
	var dirs [2]string
	for i := range dirs {
		dirs[i] = t.TempDir()
		must(t, writePackages(dirs[i], r, p, docs))
		must(t, writeBill(dirs[i], "..", r, p))
		must(t, writeArchives(dirs[i], r, "remit", []Program{p}, docs))
		must(t, writeImage(filepath.Join(dirs[i], "oci.tar"), r, []Program{p}, docs))
		must(t, writeSums(dirs[i]))
	}
	same(t, dirs[0], dirs[1])
}

// same compares two folders by their checksums.
func same(t *testing.T, a, b string) {
	t.Helper()
	one, err := os.ReadFile(filepath.Join(a, sumsFile))
	must(t, err)
	other, err := os.ReadFile(filepath.Join(b, sumsFile))
	must(t, err)
	if string(one) != string(other) || bytes.Count(one, []byte("\n")) < 5 {
		t.Errorf("got\n%s\nand\n%s", one, other)
	}
}

func TestChangelog(t *testing.T) {
	r := testRelease()
	want := fmt.Sprintf("remit (1.2.3-1) unstable; urgency=medium\n\n  * Release 1.2.3, built from commit abababababab.\n\n -- %s  Mon, 23 Nov 2026 05:00:00 +0000\n", testMaintainer)
	if got := changelog(r); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if r.Date.Location() != time.UTC {
		t.Error("the zone is that of the machine")
	}
}

func TestThirdPartyLicences(t *testing.T) {
	dir := t.TempDir()
	if text, err := licences(dir); err == nil {
		t.Errorf("a module without a licence gives %q", text)
	}
	must(t, os.WriteFile(filepath.Join(dir, "COPYING.md"), []byte("take it"), 0o644))
	must(t, os.Mkdir(filepath.Join(dir, "LICENSES"), 0o755))
	if text, err := licences(dir); err != nil || text != "take it" {
		t.Errorf("got %q, %v", text, err)
	}
	p := testProgram(t)
	data, err := thirdParty("..", []Program{p})
	must(t, err)
	z, err := gzip.NewReader(bytes.NewReader(data))
	must(t, err)
	text, err := io.ReadAll(z)
	must(t, err)
	rules, err := keyRules("..")
	must(t, err)
	if !strings.Contains(string(text), rules.Path+" "+rules.Version+"\n====") || !strings.Contains(string(text), "Copyright (c) 2019 Zachary Rice") {
		t.Error("the rules of gitleaks are missing")
	}
	for _, m := range p.Info.Deps {
		if !strings.Contains(string(text), m.Path+" "+m.Version+"\n====") {
			t.Errorf("%s is missing", m.Path)
		}
	}
}
