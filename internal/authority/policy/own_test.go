package policy_test

import (
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// A tool's own folder is judged as the workspace is, and by its whole path.
func TestAFolderOfTheToolsOwn(t *testing.T) {
	own := env.State + "/extensions/x/work"
	rw := func(read, write string) string {
		return "files: {read: {allow: [" + read + "]}, write: {allow: [" + write + "]}}"
	}
	at := func(k tool.ActionKind, p string) tool.Action { return tool.Action{Kind: k, Path: p, Real: p} }
	narrow := "\nrest: inherit\nfiles: {write: {allow: ['" + own + "/**']}}"
	for name, c := range map[string]struct {
		chain policy.Chain
		kind  tool.ActionKind
		path  string
		want  policy.Effect
	}{
		"as in the workspace":                {chain(t, rw(`"**"`, `"out/**"`)).Owning(own), tool.FileWrite, own + "/out/a", policy.Allow},
		"elsewhere in it":                    {chain(t, rw(`"**"`, `"out/**"`)).Owning(own), tool.FileWrite, own + "/a", policy.Deny},
		"read":                               {chain(t, rw(`"**"`, "")).Owning(own), tool.FileRead, own + "/a", policy.Allow},
		"nothing is open":                    {chain(t, rw("", "")).Owning(own), tool.FileRead, own + "/a", policy.Deny},
		"a sensitive name":                   {chain(t, rw(`"**"`, `"**"`)).Owning(own), tool.FileWrite, own + "/.env", policy.Deny},
		"a name that only begins as it does": {chain(t, rw(`"**"`, `"**"`)).Owning(own), tool.FileWrite, own + "2/a", policy.Deny},
		"beside it":                          {chain(t, rw(`"**"`, `"**"`)).Owning(own), tool.FileWrite, env.State + "/extensions/x/manifest.json", policy.Deny},
		"denied there":                       {chain(t, rw(`"**"`, `"**"`), "files: {read: {allow: ['**']}, write: {allow: ['**'], deny: ['"+own+"/**']}}").Owning(own), tool.FileWrite, own + "/a", policy.Deny},
		"denied anywhere":                    {chain(t, "files: {write: {allow: ['**'], deny: ['**/*.sh']}}").Owning(own), tool.FileWrite, own + "/a.sh", policy.Deny},
		"nowhere else: its own folder":       {chain(t, rw(`"**"`, `"**"`), narrow).Owning(own), tool.FileWrite, own + "/a", policy.Allow},
		"nowhere else: the workspace":        {chain(t, rw(`"**"`, `"**"`), narrow).Owning(own), tool.FileWrite, abs("a"), policy.Deny},
		"without one":                        {chain(t, rw(`"**"`, `"**"`)), tool.FileWrite, own + "/a", policy.Deny},
	} {
		if d := c.chain.DecideAction(at(c.kind, c.path)); d.Effect != c.want {
			t.Errorf("%s: %v (%s), want %v", name, d.Effect, d.Reason, c.want)
		}
	}
}

// A tool's own programs are found last, so that no name of the trusted PATH comes to
// mean another program.
func TestProgramsOfTheToolsOwn(t *testing.T) {
	const bin = "/state/x/bin"
	run := func(exe string, argv ...string) tool.Action {
		return tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws", Exe: exe, Names: []string{exe}}
	}
	c := chain(t, "commands: {allow: ['note **', 'git **']}")
	for name, tc := range map[string]struct {
		chain policy.Chain
		a     tool.Action
		want  policy.Effect
	}{
		"by its name":              {c.Running(bin), run(bin+"/note", "note", "x"), policy.Allow},
		"of another tool":          {c, run(bin+"/note", "note", "x"), policy.Deny},
		"a command of the system":  {c.Running(bin), run("/usr/bin/git", "git", "x"), policy.Allow},
		"a name that nobody wrote": {c.Running(bin), run(bin+"/other", "other"), policy.Deny},
		"taken: by its path":       {c, run(bin+"/git", bin+"/git", "x"), policy.Deny},
	} {
		if d := tc.chain.DecideAction(tc.a); d.Effect != tc.want {
			t.Errorf("%s: %v (%s), want %v", name, d.Effect, d.Reason, tc.want)
		}
	}
	if got := c.Running(bin).Limits().Path; len(got) != len(env.Path)+1 || got[len(env.Path)] != bin || len(c.Limits().Path) != len(env.Path) {
		t.Errorf("the trusted PATH is %q", got)
	}
}
