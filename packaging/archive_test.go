package main

import (
	"bufio"
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// npmInstalled is a folder with the packages that were built, installed by npm without a network.
func npmInstalled(t *testing.T) string {
	t.Helper()
	tool(t, "npm")
	dir, dist := t.TempDir(), distFolder(t)
	must(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"private": true}`), 0o644))
	cmd := exec.Command("npm", "install", "--offline", "--no-audit", "--no-fund", "--no-update-notifier", "--cache", filepath.Join(dir, "cache"), one(t, dist, "_npm.tgz"), one(t, dist, "_"+testProgram(t).Arch+".tgz"))
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return dir
}

// npm installs the packages from their files, and the launcher is the program: its streams, its exit status, its signals.
func TestNPM(t *testing.T) {
	dir := npmInstalled(t)
	npx := exec.Command("npx", "--offline", "--no-update-notifier", "--cache", filepath.Join(dir, "cache"), "remit", "version")
	npx.Dir = dir
	if out, err := npx.CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "remit v1.2.3 ") {
		t.Errorf("npx remit version: %v\n%s", err, out)
	}
	launcher, program := filepath.Join(dir, "node_modules/.bin/remit"), filepath.Join(dir, "node_modules", npmPlatform("remit", testProgram(t).Arch), "bin/remit")
	if _, err := os.Stat(program + "-hook"); err != nil {
		t.Error(err)
	}
	for script, want := range map[string]string{
		`exit 7`:           "exit status 7",
		`kill -TERM $$`:    "signal: terminated",
		`kill -KILL $$`:    "signal: killed",
		`kill -PIPE $$`:    "exit status 141", // which Node ignores
		`[ "$*" = "a b" ]`: "exit status 1",
	} {
		must(t, os.WriteFile(program, []byte("#!/bin/sh\n"+script+"\n"), 0o755))
		if err := exec.Command(launcher, "a", "b c").Run(); err == nil || err.Error() != want {
			t.Errorf("%s: got %v, want %s", script, err, want)
		}
	}
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ncat; echo \"$#\" \"$2\"\n"), 0o755))
	cmd := exec.Command(launcher, "", "$(id) *")
	cmd.Stdin = strings.NewReader("input\n")
	if out, err := cmd.Output(); err != nil || string(out) != "input\n2 $(id) *\n" {
		t.Errorf("got %q, %v", out, err)
	}
	for _, signal := range []syscall.Signal{syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGTERM} {
		forwarded(t, launcher, program, signal)
	}
	must(t, os.Remove(filepath.Join(filepath.Dir(filepath.Dir(program)), "package.json")))
	if out, err := exec.Command(launcher).CombinedOutput(); err == nil || !strings.Contains(string(out), "is not installed; install remit without --omit=optional") {
		t.Errorf("without the platform's package: %v\n%s", err, out)
	}
}

// forwarded sends a signal to the launcher, without a terminal, and expects it to reach the program.
func forwarded(t *testing.T, launcher, program string, signal syscall.Signal) {
	t.Helper()
	must(t, os.WriteFile(program, []byte("#!/bin/sh\ntrap 'kill $!; exit 9' HUP INT QUIT TERM\nsleep 600 &\necho ready\nwait\n"), 0o755))
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	cmd := exec.CommandContext(ctx, launcher)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil || line != "ready\n" {
		t.Errorf("got %q, %v", line, err)
	}
	must(t, cmd.Process.Signal(signal))
	var exit *exec.ExitError
	if err := cmd.Wait(); !errors.As(err, &exit) || exit.ExitCode() != 9 {
		t.Errorf("%s: %v", signal, err)
	}
}

// Names and versions follow from those of the release.
func TestNamesOfNPM(t *testing.T) {
	for name, want := range map[string]string{"remit": "@remit/linux-x64 @remit/linux-arm64", "@acme/remit": "@acme/remit-linux-x64 @acme/remit-linux-arm64"} {
		if got := npmPlatform(name, "amd64") + " " + npmPlatform(name, "arm64"); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.3.0-rc.1": "1.3.0-rc.1", "v1.2.3-dirty": "1.2.4-git20261123.g0123456789ab", "v1.2.9-14-g012345": "1.2.10-git20261123.g0123456789ab",
		"v1.3.0-rc.1-2-g012345": "1.3.0-rc.1.git20261123.g0123456789ab", "0123456": "0.0.0-git20261123.g0123456789ab",
	} {
		r, err := NewRelease(version, testMaintainer, []Program{stamped("0123456789ab" + strings.Repeat("0", 28))}, "")
		must(t, err)
		if r.NPM != want {
			t.Errorf("%s: got %s, want %s", version, r.NPM, want)
		}
	}
}

// A package.json is plain text: nothing in it is escaped.
func TestManifestIsPlain(t *testing.T) {
	manifest := output(t, "tar", "-xzOf", one(t, distFolder(t), "_npm.tgz"), "remit-1.2.3/package.json")
	for _, want := range []string{`"author": "` + testMaintainer + `"`, `"@remit/linux-`, `"node": ">=18"`} {
		if !strings.Contains(manifest, want) {
			t.Errorf("no %s in\n%s", want, manifest)
		}
	}
}
