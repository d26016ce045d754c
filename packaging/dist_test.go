package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

const testMaintainer = "Remit maintainers <maintainers@remit.invalid>"

// top is the folder of everything that the tests build.
var top string

// built builds the program as make build does, once.
var built = sync.OnceValues(func() (string, error) { return build("..", "") })

// build runs make build in a folder with the source, with a build cache of its own if one
// is named.
func build(repo, cache string) (string, error) {
	bin, err := os.MkdirTemp(top, "bin-")
	if err != nil {
		return "", err
	}
	cmd := exec.Command("make", "--no-print-directory", "-C", repo, "build", "BIN="+bin, "VERSION=v1.2.3")
	cmd.Env = append(os.Environ(), "GOOS=linux", "MAKEFLAGS=", "MFLAGS=")
	if cache != "" {
		cmd.Env = append(cmd.Env, "GOCACHE="+cache)
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", &exec.Error{Name: "make build: " + string(out), Err: err}
	}
	return filepath.Join(bin, "remit"), nil
}

// dist makes everything for this machine's program, once.
var dist = sync.OnceValues(func() (string, error) {
	bin, err := built()
	if err != nil {
		return "", err
	}
	return filepath.Dir(bin), packageInto(bin, filepath.Dir(bin)+"/dist")
})

// packageInto runs the command.
func packageInto(bin, out string) error {
	return run([]string{"-version", "v1.2.3", "-maintainer", testMaintainer, "-out", out, bin})
}

func TestMain(m *testing.M) {
	if os.Getenv("SOURCE_DATE_EPOCH") == "" { // a worktree of Git embeds no date
		_ = os.Setenv("SOURCE_DATE_EPOCH", "1795412378")
	}
	var err error
	if top, err = os.MkdirTemp("", "remit-packaging-"); err != nil {
		panic(err)
	}
	code := m.Run()
	_ = os.RemoveAll(top)
	os.Exit(code)
}

func distFolder(t *testing.T) string {
	t.Helper()
	dir, err := dist()
	must(t, err)
	return dir + "/dist"
}

// testProgram reads the built program.
func testProgram(t *testing.T) Program {
	t.Helper()
	bin, err := built()
	must(t, err)
	p, err := ReadProgram(bin)
	must(t, err)
	return p
}

func testRelease() Release {
	return Release{Version: "1.2.3", Alpine: "1.2.3", Commit: strings.Repeat("ab", 20), Date: time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC), Maintainer: testMaintainer}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// tool skips a test where a program is missing, but not in CI.
func tool(t *testing.T, name string) {
	t.Helper()
	if _, err := exec.LookPath(name); err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatalf("%s is not installed", name)
		}
		t.Skipf("NOT TESTED: %s is not installed", name)
	}
}

// output runs a command and returns what it prints.
func output(t *testing.T, name string, args ...string) string {
	t.Helper()
	var errs bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", name, strings.Join(args, " "), err, out, errs.Bytes())
	}
	return string(out)
}

// one returns the file of dist with an ending.
func one(t *testing.T, dir, ending string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*"+ending))
	must(t, err)
	if len(found) != 1 {
		t.Fatalf("%d files end in %q", len(found), ending)
	}
	return found[0]
}
