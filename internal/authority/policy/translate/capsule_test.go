package translate_test

import (
	"os"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/translate"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestCapsuleIsNotWidened(t *testing.T) {
	src, err := os.ReadFile("testdata/capsule.yaml")
	if err != nil {
		t.Fatal(err)
	}
	res, err := translate.Translate("capsule", "capsule.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	read := func(path string) tool.Action { return tool.Action{Kind: tool.FileRead, Path: path} }
	write := func(path string) tool.Action { return tool.Action{Kind: tool.FileWrite, Path: path} }
	run := func(argv ...string) tool.Action { return tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws"} }
	for name, tt := range map[string]struct {
		action tool.Action
		want   policy.Effect
	}{
		"a file":                   {read("/ws/docs/b.txt"), policy.Allow},
		"a named folder":           {read("/data/x.csv"), policy.Allow},
		"below it":                 {read("/data/y/x.csv"), policy.Deny},
		"a denied name":            {read("/ws/a/.env"), policy.Deny},
		"a star over slashes":      {read("/ws/a/b.key"), policy.Deny},
		"a folder by its name":     {read("/ws/a/secrets/b"), policy.Deny},
		"a star for folders":       {read("/ws/x/shadow"), policy.Allow},
		"a star within a word":     {read("/ws/ax/yb/c"), policy.Deny},
		"outside":                  {read("/etc/passwd"), policy.Deny},
		"what is written":          {write("/ws/out/a"), policy.Allow},
		"hidden":                   {write("/ws/out/.a"), policy.Deny},
		"below a hidden folder":    {write("/ws/out/.a/b"), policy.Deny},
		"not written":              {write("/ws/a"), policy.Deny},
		"a program":                {run("git", "status"), policy.Allow},
		"another":                  {run("python", "a.py"), policy.Deny},
		"a token":                  {run("git", "sudo"), policy.Deny},
		"a token within a word":    {run("git", "xsudox"), policy.Deny},
		"a token of two words":     {run("git", "rm", "-rf"), policy.Deny},
		"both in one word":         {run("echo", "rm -rf /"), policy.Deny},
		"a sign of the shell":      {run("echo", "a|b"), policy.Deny},
		"the token as the program": {run("sudo"), policy.Deny},
	} {
		if got := decide(t, res.Policy, tt.action); got != tt.want {
			t.Errorf("%s: got %v, want %v\n%s", name, got, tt.want, res.Policy)
		}
	}
	p, err := policy.Parse("p.yaml", res.Policy)
	if err != nil {
		t.Fatal(err)
	}
	bound, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	for id, tt := range map[string]struct {
		args tool.Args
		want policy.Effect
	}{
		"fs.read": {tool.Args{"path": "a"}, policy.Allow}, "fs.delete": {tool.Args{"path": "a"}, policy.Deny}, "fs.list": {tool.Args{"path": "a"}, policy.Deny},
		"shell.run": {tool.Args{"cmd": []any{"git", "status"}}, policy.Allow},
	} {
		if got := (policy.Chain{bound}).Decide(policy.Call{Tool: &tool.Spec{ID: tool.ID(id)}, Args: tt.args}).Effect; got != tt.want {
			t.Errorf("%s: got %v", id, got)
		}
	}
	script := policy.Call{Tool: &tool.Spec{ID: "shell.run"}, Args: tool.Args{"script": "git status"}}
	if got := (policy.Chain{bound}).Decide(script).Effect; got != policy.Deny {
		t.Errorf("a script: %v", got)
	}
}
