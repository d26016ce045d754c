package mcp_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/source/mcp"
)

func TestArgumentsThatArePathsAndURLsAreActions(t *testing.T) {
	s, _ := newServer(t, "honest", func(c *mcp.Config) {
		c.Folder = "/srv/notes"
		c.Within = []mcp.Within{{Tool: "rea*", Arg: "path", Section: "files.read"}, {Tool: "write", Arg: "paths", Section: "files.write"}, {Tool: "dial", Arg: "url", Section: "network"}}
	})
	tools := discover(t, s)
	for name, tt := range map[string]struct {
		tool string
		args tool.Args
		want []string
	}{
		"an absolute path":   {"read", tool.Args{"path": "/etc/passwd"}, []string{`files.read "/etc/passwd"`}},
		"a relative one":     {"read", tool.Args{"path": "a/b.txt"}, []string{`files.read "/srv/notes/a/b.txt"`}},
		"one that climbs":    {"read", tool.Args{"path": "../x"}, []string{"files.read (unknown: the path contains .., whose meaning depends on links)"}},
		"one of a home":      {"read", tool.Args{"path": "~/x"}, []string{"files.read (unknown: the path begins with ~, which the tool may read as a home folder)"}},
		"no string":          {"read", tool.Args{"path": true}, []string{"files.read (unknown: the argument is not a string, so not a path)"}},
		"several":            {"write", tool.Args{"paths": []any{"/a", "b"}}, []string{`files.write "/a"`, `files.write "/srv/notes/b"`}},
		"a URL":              {"dial", tool.Args{"url": "https://EXAMPLE.com/a/../b"}, []string{"network https://example.com/b"}},
		"another argument":   {"read", tool.Args{"file": "/etc/passwd"}, nil},
		"another tool":       {"echo", tool.Args{"path": "/etc/passwd"}, nil},
		"that is not given":  {"read", tool.Args{}, nil},
		"a URL that is none": {"dial", tool.Args{"url": json7}, []string{"network (unknown: the argument is not a URL: expected a string)"}},
	} {
		acts, err := permittest.Actions(tools[tt.tool], tool.Env{}, tt.args)
		if err != nil || len(acts) != len(tt.want) {
			t.Errorf("%s: %v, %v", name, acts, err)
			continue
		}
		for i, a := range acts {
			if a.String() != tt.want[i] {
				t.Errorf("%s: %s, want %s", name, a, tt.want[i])
			}
		}
	}
	for name, tt := range map[string]struct {
		pattern, tool string
		want          bool
	}{
		"a name":                 {"read", "read", true},
		"another":                {"read", "write", false},
		"a slash in the name":    {"read_*", "read_file/raw", true},
		"a slash for one char":   {"read?raw", "read/raw", true},
		"a slash in the pattern": {"fs/*", "fs/read", true},
		"a slash after any":      {"*", "fs/read/raw", true},
		"a class with a slash":   {"fs[/.]read", "fs/read", true},
		"another with a slash":   {"read_*", "write/read_x", false},
		"what cannot be read":    {"[", "anything", true},
	} {
		if got := (mcp.Within{Tool: tt.pattern}).Of(tt.tool); got != tt.want {
			t.Errorf("%s: %q matches %q is %v", name, tt.pattern, tt.tool, got)
		}
	}
	many := make([]any, 5000)
	for i := range many {
		many[i] = "x"
	}
	if acts, err := permittest.Actions(tools["write"], tool.Env{}, tool.Args{"paths": many}); err != nil || len(acts) != 1 || acts[0].Unknown == "" {
		t.Errorf("5,000 paths: %d actions, %v", len(acts), err)
	}
	for _, bad := range []mcp.Within{{}, {Tool: "[", Arg: "a", Section: "network"}, {Tool: "a", Section: "network"}, {Tool: "a", Arg: "b", Section: "commands"}} {
		if bad.Check() == nil {
			t.Errorf("%+v is taken", bad)
		}
	}
}

var json7 = any(7)
