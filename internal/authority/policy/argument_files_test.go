package policy_test

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

func argument(kind tool.ActionKind, how tool.Argument, p string) tool.Action {
	return tool.Action{Kind: kind, Path: abs(p), Argument: how}
}

func TestArgumentsOfCommands(t *testing.T) {
	file, tree, home := tool.FileArgument, tool.TreeArgument, tool.HomeArgument
	tests := map[string]struct {
		policy string
		action tool.Action
		want   policy.Effect
		reason string
	}{
		"allowed":                        {files(`"**"`, ""), argument(tool.FileRead, file, "a"), policy.Allow, `files.read.allow[0] "**"`},
		"denied by an entry":             {files(`"**"`, `"**/*.key"`), argument(tool.FileRead, tree, "a.key"), policy.Deny, `files.read.deny[0] "**/*.key"`},
		"a sensitive name":               {files(`"**"`, ""), argument(tool.FileRead, file, ".env"), policy.Deny, "may hold secrets"},
		"a sensitive folder":             {files(`"**"`, ""), argument(tool.FileRead, tree, ".ssh"), policy.Deny, "may hold secrets"},
		"a sensitive name that is spelt": {files(`"**", ".env"`, ""), argument(tool.FileRead, file, ".env"), policy.Allow, ""},
		"a link to a denied file":        {files(`"**"`, `"x"`), tool.Action{Kind: tool.FileRead, Path: "/ws/l", Real: "/ws/x", Argument: file}, policy.Deny, "deny[0]"},
		"asked about":                    {"files: {read: {ask: ['a']}}", argument(tool.FileRead, file, "a"), policy.Ask, "files.read.ask[0]"},
		"of another folder":              {files(`"src/**"`, ""), argument(tool.FileRead, file, "docs/a"), policy.Deny, `no entry of files.read.allow matches "docs/a"`},
		"a folder of which parts are":    {files(`"src/**"`, ""), argument(tool.FileRead, tree, "/ws"), policy.Allow, "the sandbox decides"},
		"a folder between":               {files(`"**/*.go"`, ""), argument(tool.FileRead, tree, "docs"), policy.Allow, "the sandbox decides"},
		"a file between":                 {files(`"**/*.go"`, ""), argument(tool.FileRead, file, "docs/a.md"), policy.Deny, ""},
		"a folder of which nothing is":   {files(`"src/**"`, ""), argument(tool.FileRead, tree, "docs"), policy.Deny, ""},
		"the system's to read":           {files(`"**"`, ""), argument(tool.FileRead, file, "/usr/include/a.h"), policy.Allow, "the sandbox decides"},
		"the system's to write":          {files(`"**"`, ""), argument(tool.FileWrite, file, "/usr/include/a.h"), policy.Deny, ""},
		"the command's own folder":       {files(`"**"`, ""), argument(tool.FileWrite, file, "/tmp/.env"), policy.Allow, "the sandbox decides"},
		"an entry about that folder":     {files(`"**"`, `"/tmp/x"`), argument(tool.FileWrite, file, "/tmp/x"), policy.Deny, "deny[0]"},
		"another folder of the machine":  {files(`"**"`, ""), argument(tool.FileRead, file, "/srv/a"), policy.Deny, ""},
		"the person's":                   {files(`"**"`, ""), argument(tool.FileRead, tree, "/home/u/other"), policy.Deny, ""},
		"below another home":             {files(`"**"`, ""), argument(tool.FileRead, home, "/home/u/other"), policy.Allow, "the sandbox decides"},
		"sensitive below another home":   {files(`"**"`, ""), argument(tool.FileRead, home, "/home/u/.ssh/id_rsa"), policy.Deny, "files.read.allow"},
		"no section":                     {"commands: {allow: ['**']}", argument(tool.FileRead, file, "a"), policy.Deny, ""},
	}
	for name, tt := range tests {
		d := chain(t, tt.policy).DecideAction(tt.action)
		if d.Effect != tt.want || !strings.Contains(d.Reason, tt.reason) {
			t.Errorf("%s: %v: %s", name, d.Effect, d.Reason)
		}
	}
}

// An argument is never judged more strictly than the file itself, and never more
// mildly where an entry decides.
func TestArgumentsAreJudgedAsTheirFiles(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := mustChain(t, drawDoc(t, "policy"))
		plain := read(paths.Draw(t, "path"))
		of := plain
		of.Argument = rapid.SampledFrom([]tool.Argument{tool.FileArgument, tool.TreeArgument, tool.HomeArgument}).Draw(t, "argument")
		want, got := c.DecideAction(plain), c.DecideAction(of)
		byEntry := want.Rule != nil && want.Rule.Name != "default"
		if got.Effect < want.Effect || byEntry && got.Effect != want.Effect {
			t.Fatalf("%s is %v (%s), as an argument %v (%s)", plain, want.Effect, want.Reason, got.Effect, got.Reason)
		}
	})
}
