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
