package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"testing"
)

// stamped is a program with embedded version control information.
func stamped(commit string) Program {
	info := &debug.BuildInfo{Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: commit}, {Key: "vcs.time", Value: "2026-11-23T05:00:00Z"}}}
	return Program{Info: info}
}

func TestVersionsOfPackages(t *testing.T) {
	const commit = "680e6f7c1a2b3c4d5e6f708192a3b4c5d6e7f809"
	for version, want := range map[string][2]string{
		"v1.2.3":                      {"1.2.3", "1.2.3"},
		"v1.2.3-dirty":                {"1.2.3+git20261123.680e6f7c1a2b", "1.2.3_git20261123"},
		"v1.2.3-14-g680e6f7":          {"1.2.3+git20261123.680e6f7c1a2b", "1.2.3_git20261123"},
		"v1.2.3-14-g680e6f7-dirty":    {"1.2.3+git20261123.680e6f7c1a2b", "1.2.3_git20261123"},
		"v1.3.0-rc.1":                 {"1.3.0~rc.1", "1.3.0_rc1"},
		"v1.3.0-beta2":                {"1.3.0~beta2", "1.3.0_beta2"},
		"v1.3.0-strange-name":         {"1.3.0~strange.name", "1.3.0_pre"},
		"v1.3.0-rc.1-2-g680e6f7":      {"1.3.0~rc.1+git20261123.680e6f7c1a2b", "1.3.0_rc1_git20261123"},
		"680e6f7":                     {"0.0.0~git20261123.680e6f7c1a2b", "0.0.0_git20261123"},
		"680e6f7-dirty":               {"0.0.0~git20261123.680e6f7c1a2b", "0.0.0_git20261123"},
		"dev":                         {"0.0.0~git20261123.680e6f7c1a2b", "0.0.0_git20261123"},
		"v1.2":                        {"0.0.0~git20261123.680e6f7c1a2b", "0.0.0_git20261123"},
		"v1.2.3\nDepends: everything": {"0.0.0~git20261123.680e6f7c1a2b", "0.0.0_git20261123"},
	} {
		r, err := NewRelease(version, testMaintainer, []Program{stamped(commit)}, "")
		must(t, err)
		if r.Version != want[0] || r.Alpine != want[1] || date(r.Date) != "2026-11-23" {
			t.Errorf("%q: got %s and %s of %s, want %q", version, r.Version, r.Alpine, r.Date, want)
		}
	}
}

// Each version replaces the one before it.
func TestVersionsAreOrdered(t *testing.T) {
	tool(t, "dpkg")
	before := ""
	for _, v := range []string{"680e6f7", "v0.1.0-beta.1", "v0.1.0-rc.1", "v0.1.0-rc.1-3-g680e6f7", "v0.1.0", "v0.1.0-5-g680e6f7", "v0.1.1", "v0.10.0"} {
		r, err := NewRelease(v, testMaintainer, []Program{stamped("680e6f7c1a2b")}, "")
		must(t, err)
		if before != "" && exec.Command("dpkg", "--compare-versions", before, "lt", r.Version+"-1").Run() != nil {
			t.Errorf("%s is not before %s", before, r.Version)
		}
		before = r.Version + "-1"
	}
}

func TestReleasesThatAreRefused(t *testing.T) {
	undated := Program{Info: &debug.BuildInfo{}}
	for name, c := range map[string]struct {
		programs []Program
		epoch    string
	}{
		"two commits":         {[]Program{stamped("a"), stamped("b")}, ""},
		"no date":             {[]Program{undated}, ""},
		"a date that is none": {[]Program{undated}, "yesterday"},
		"a date before all":   {[]Program{undated}, "-5"},
	} {
		if r, err := NewRelease("v1.2.3", testMaintainer, c.programs, c.epoch); err == nil {
			t.Errorf("%s: got %+v", name, r)
		}
	}
	if r, err := NewRelease("v1.2.3", testMaintainer, []Program{undated}, "1795412378"); err != nil || date(r.Date) != "2026-11-23" || r.Commit != "" {
		t.Errorf("with SOURCE_DATE_EPOCH: %+v, %v", r, err)
	}
}

func TestProgramsThatAreRefused(t *testing.T) {
	text := filepath.Join(t.TempDir(), "text")
	must(t, os.WriteFile(text, []byte("#!/bin/sh\n"), 0o755))
	self, err := os.Executable() // it was not built from cmd/remit
	must(t, err)
	for _, path := range []string{text, self, text + ".missing"} {
		if _, err := ReadProgram(path); err == nil {
			t.Errorf("%s is packaged", path)
		}
	}
	for _, args := range [][]string{nil, {"-version", "v1.2.3"}, {"-version", "v1.2.3", "-maintainer", "me", "-out", t.TempDir()}, {"-version", "v1.2.3", "-maintainer", "me", "-out", t.TempDir(), text}, {"-nonsense"}} {
		if run(args) == nil {
			t.Errorf("%q is accepted", args)
		}
	}
}
