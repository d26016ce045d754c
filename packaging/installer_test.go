package main

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// installerTools are the programs that install.sh uses.
var installerTools = []string{"cat", "curl", "grep", "gzip", "mkdir", "mktemp", "mv", "rm", "sha256sum", "ssh-keygen", "tar", "uname"}

// smallRelease is a signed release of two scripts, and the public key.
func smallRelease(t *testing.T) (dir, key string) {
	t.Helper()
	dir, key = t.TempDir(), filepath.Join(t.TempDir(), "key")
	p := Program{Arch: runtime.GOARCH, Data: []byte("#!/bin/sh\necho new\n"), Hook: []byte("#!/bin/sh\necho hook\n")}
	must(t, writeArchives(dir, testRelease(), "remit", []Program{p}, nil))
	must(t, writeSums(dir))
	output(t, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", key)
	must(t, signSums(dir, key))
	public, err := os.ReadFile(key + ".pub")
	must(t, err)
	return dir, string(public)
}

// installFrom runs install.sh against a server, in an environment that has just its tools and an old program.
func installFrom(t *testing.T, server http.Handler, key, without string) (prefix string, out []byte, err error) {
	t.Helper()
	s := httptest.NewServer(server)
	defer s.Close()
	prefix, path := t.TempDir(), t.TempDir()
	for _, name := range installerTools {
		if name == without {
			continue
		}
		at, err := exec.LookPath(name)
		must(t, err)
		must(t, os.Symlink(at, filepath.Join(path, name)))
	}
	must(t, os.Mkdir(filepath.Join(prefix, "bin"), 0o755))
	must(t, os.WriteFile(filepath.Join(prefix, "bin", "remit"), []byte("old"), 0o755))
	sh, err := exec.LookPath("sh")
	must(t, err)
	cmd := exec.Command(sh, "files/install.sh", "--from", s.URL, "--key", strings.TrimSpace(key), "--prefix", prefix)
	cmd.Env = []string{"PATH=" + path, "HOME=" + t.TempDir()}
	out, err = cmd.CombinedOutput()
	return prefix, out, err
}

func TestInstallScript(t *testing.T) {
	for _, name := range installerTools {
		tool(t, name)
	}
	dir, key := smallRelease(t)
	prefix, out, err := installFrom(t, http.FileServer(http.Dir(dir)), key, "")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for name, want := range map[string]string{"remit": "new\n", "remit-hook": "hook\n"} {
		if got := output(t, filepath.Join(prefix, "bin", name)); got != want {
			t.Errorf("%s prints %q, want %q", name, got, want)
		}
	}
	if left, err := os.ReadDir(filepath.Join(prefix, "bin")); err != nil || len(left) != 2 {
		t.Errorf("%v is left, %v", left, err)
	}
}

// Nothing is installed, and the program that is there stays, if any file is not the signed one, or a tool is missing.
func TestInstallScriptRefuses(t *testing.T) {
	for _, name := range installerTools {
		tool(t, name)
	}
	dir, key := smallRelease(t)
	_, other := smallRelease(t)
	archive := archiveName(testRelease(), runtime.GOARCH)
	refused := func(name string, server http.Handler, key, without, why string) {
		t.Helper()
		prefix, out, err := installFrom(t, server, key, without)
		if err == nil || !strings.Contains(string(out), why) || !strings.HasSuffix(string(out), "nothing was installed\n") {
			t.Errorf("%s: %v, want %q in\n%s", name, err, why, out)
		}
		left, err := os.ReadDir(filepath.Join(prefix, "bin"))
		data, rerr := os.ReadFile(filepath.Join(prefix, "bin", "remit"))
		if err != nil || len(left) != 1 || rerr != nil || string(data) != "old" {
			t.Errorf("%s: %v and %q are left, %v, %v", name, left, data, err, rerr)
		}
	}
	files := http.FileServer(http.Dir(dir))
	refused("another key", files, other, "", "is not by the key")
	refused("no key", files, "ssh-ed25519 nonsense", "", "is not by the key")
	for _, name := range []string{"curl", "ssh-keygen", "sha256sum"} {
		refused("without "+name, files, key, name, name+" is not installed")
	}
	for file, why := range map[string]string{archive: "is not the signed one", sumsFile: "is not by the key", sumsFile + ".sig": "is not by the key"} {
		data, err := os.ReadFile(filepath.Join(dir, file))
		must(t, err)
		changed := bytes.Clone(data)
		changed[len(changed)/2] ^= 1
		refused("changed "+file, instead(files, file, func(w http.ResponseWriter) { _, _ = w.Write(changed) }), key, "", why)
		refused("no "+file, instead(files, file, func(w http.ResponseWriter) { w.WriteHeader(http.StatusNotFound) }), key, "", file+" could not be downloaded whole")
		refused("cut "+file, instead(files, file, func(w http.ResponseWriter) {
			w.Header().Set("Content-Length", "100000")
			_, _ = w.Write(data[:len(data)/2])
		}), key, "", file+" could not be downloaded whole")
	}
}

// instead is a server that answers requests for one file by another function.
func instead(files http.Handler, name string, answer func(http.ResponseWriter)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/"+name {
			answer(w)
			return
		}
		files.ServeHTTP(w, r)
	})
}

// A script that was downloaded in part runs nothing.
func TestInstallScriptThatIsCut(t *testing.T) {
	script, err := os.ReadFile("files/install.sh")
	must(t, err)
	home := t.TempDir()
	at := bytes.LastIndex(script, []byte("\ninstall_remit "))
	for n := 0; n <= at+1; n += 97 {
		cmd := exec.Command("sh", "-c", string(script[:n]), "install.sh", "--from", "http://127.0.0.1:1", "--key", "k", "--prefix", home)
		_ = cmd.Run() // most parts are not a script
		if left, err := os.ReadDir(home); err != nil || len(left) != 0 {
			t.Fatalf("%d bytes of the script leave %v, %v", n, left, err)
		}
	}
}
