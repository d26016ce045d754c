package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
)

func chainOfSources(t *testing.T, sources ...string) policy.Chain {
	t.Helper()
	var c policy.Chain
	for i, src := range sources {
		p, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\n"+src))
		if err != nil {
			t.Fatalf("link %d: %v", i, err)
		}
		r, err := p.Bind(policy.Env{Workspace: "/ws"})
		if err != nil {
			t.Fatal(err)
		}
		c = append(c, r)
	}
	return c
}

func TestTheStandardSystemNeedsEveryLink(t *testing.T) {
	tests := map[string]struct {
		links []string
		want  bool
	}{
		"nothing said":             {[]string{""}, false},
		"minimal":                  {[]string{"system: minimal\n"}, false},
		"standard":                 {[]string{"system: standard\n"}, true},
		"the next inherits":        {[]string{"system: standard\n", "rest: inherit\n"}, true},
		"the next says nothing":    {[]string{"system: standard\n", ""}, false},
		"the next is stricter":     {[]string{"system: standard\n", "system: minimal\nrest: inherit\n"}, false},
		"the first says nothing":   {[]string{"", "system: standard\n"}, false},
		"all of them":              {[]string{"system: standard\n", "system: standard\n"}, true},
		"nobody says, all inherit": {[]string{"rest: inherit\n", "rest: inherit\n"}, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if got := chainOfSources(t, tc.links...).StandardSystem(); got != tc.want {
				t.Errorf("got %v, want %v", got, tc.want)
			}
		})
	}
	if (policy.Chain{}).StandardSystem() || (policy.Chain{nil}).StandardSystem() {
		t.Error("no policy grants the standard system")
	}
}

func TestCommandLimitsAreTheSmallest(t *testing.T) {
	l := chainOfSources(t, "commands: {cpu: 10s, files: 100, disk: 1GiB}\n", "commands: {cpu: 20s, files: 50}\n").Limits()
	if l.CPU != 10*time.Second || l.OpenFiles != 50 || l.Disk != 1<<30 {
		t.Errorf("got %v, %d, %d", l.CPU, l.OpenFiles, l.Disk)
	}
}

func TestSystemAndLimitsAreStrict(t *testing.T) {
	for src, want := range map[string]string{
		"system: all\n":            "minimal or standard",
		"commands: {files: 3}\n":   "files",
		"commands: {cpu: fast}\n":  "cpu",
		"commands: {disk: -1}\n":   "disk",
		"commands: {discs: 1MB}\n": "disk",
	} {
		_, err := policy.Parse("test.yaml", []byte("version: 1\nname: test\n"+src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", src, err, want)
		}
	}
}

func TestSystemAndLimitsPrintAsTheyAreRead(t *testing.T) {
	src := "version: 1\nname: test\ncommands:\n  allow: [\"true\"]\n  cpu: 10s\n  files: 100\n  disk: 1GiB\nsystem: standard\n"
	p, err := policy.Parse("test.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	q, err := policy.Parse("printed.yaml", p.Print())
	if err != nil || string(q.Print()) != string(p.Print()) || !strings.Contains(string(p.Print()), "system: standard") {
		t.Errorf("got %s, %v", p.Print(), err)
	}
}
