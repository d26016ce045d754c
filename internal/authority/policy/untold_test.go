package policy_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// untold is a command that cannot be determined before it runs.
var untold = tool.Action{Kind: tool.Command, Argv: []string{"eval"}, Dir: "/ws", Unknown: "not literal; write it out"}

func TestCommandsThatCannotBeDetermined(t *testing.T) {
	every := "commands: {allow: ['**']}"
	tests := map[string]struct {
		chain  []string
		want   policy.Effect
		reason string
		rule   string
	}{
		"every command is allowed":         {[]string{every}, policy.Allow, `allowed by commands.allow[0] "**"`, `commands.allow[0] "**"`},
		"the key matters only otherwise":   {[]string{"commands: {allow: ['**'], untold: deny}"}, policy.Allow, "", ""},
		"one command is denied":            {[]string{"commands: {allow: ['**'], deny: ['rm **']}"}, policy.Ask, "needs approval by commands.untold: the call's needs are unknown: not literal; write it out", "commands.untold"},
		"one command is asked about":       {[]string{"commands: {allow: ['**'], ask: ['rm **'], untold: deny}"}, policy.Deny, "the call's needs are unknown: not literal; write it out", `commands.untold "deny"`},
		"some commands are allowed":        {[]string{"commands: {allow: ['git **']}"}, policy.Ask, "write it out", ""},
		"allowed by the key":               {[]string{"commands: {allow: ['**'], deny: ['rm **'], untold: allow}"}, policy.Allow, "", `commands.untold "allow"`},
		"allowed by one of two":            {[]string{"commands: {allow: ['**'], deny: ['rm **'], untold: allow}", "commands: {allow: ['**'], deny: ['rm **']}"}, policy.Ask, "", "commands.untold"},
		"allowed by both":                  {[]string{"commands: {allow: ['**'], deny: ['rm **'], untold: allow}", "commands: {allow: ['**'], ask: ['x'], untold: allow}"}, policy.Allow, "", ""},
		"asked by the key":                 {[]string{"commands: {allow: ['git **'], untold: ask}"}, policy.Ask, "", `commands.untold "ask"`},
		"denied by the key":                {[]string{"commands: {allow: ['git **'], untold: deny}"}, policy.Deny, "write it out", `commands.untold "deny"`},
		"no command is allowed":            {[]string{"commands: {untold: ask}"}, policy.Deny, "write it out", "default"},
		"every command is denied":          {[]string{"commands: {allow: ['git **'], deny: ['**'], untold: ask}"}, policy.Deny, "", "default"},
		"no section":                       {[]string{"files: {read: {allow: ['**']}}"}, policy.Deny, "", "default"},
		"every policy must allow it":       {[]string{every, "commands: {allow: ['git **']}"}, policy.Ask, "", "commands.untold"},
		"the strictest of a chain":         {[]string{"commands: {allow: ['git **']}", "commands: {allow: ['git **'], untold: deny}"}, policy.Deny, "", `commands.untold "deny"`},
		"a later policy does not widen":    {[]string{"commands: {allow: ['git **'], untold: deny}", "commands: {allow: ['**'], untold: ask}"}, policy.Deny, "", ""},
		"another policy decides":           {[]string{every, "rest: inherit"}, policy.Allow, "", ""},
		"no policy decides":                {[]string{"rest: inherit"}, policy.Deny, "", ""},
		"any name with any words is any":   {[]string{"commands: {allow: ['* **']}"}, policy.Allow, "", ""},
		"every command is denied by name":  {[]string{"commands: {allow: ['git **'], deny: ['* **']}"}, policy.Deny, "", "default"},
		"the second of two entries is any": {[]string{"commands: {allow: ['ls', '**']}"}, policy.Allow, "", `commands.allow[1] "**"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := chain(t, tt.chain...).DecideAction(untold)
			if d.Effect != tt.want || !strings.Contains(d.Reason, tt.reason) || !strings.HasPrefix(d.Rule.String(), tt.rule) {
				t.Errorf("%v by %s: %s", d.Effect, d.Rule, d.Reason)
			}
		})
	}
	typed := untold
	typed.Typed = true
	if d := chain(t, "rest: inherit").DecideAction(typed); d.Effect != policy.Deny {
		t.Errorf("typed, where no policy decides: %v", d.Effect)
	}
}

// An untold key survives printing, and only its values are valid. It allows nothing where a list is closed.
func TestUntoldIsPrinted(t *testing.T) {
	p := rules(t, "commands: {allow: [ls], untold: deny}").Policy()
	again, err := policy.Parse("p", p.Print())
	if err != nil || string(again.Print()) != string(p.Print()) || !strings.Contains(string(p.Print()), "untold: deny") {
		t.Errorf("%v\n%s", err, p.Print())
	}
	for _, bad := range []string{"untold: yes", "untold: allow", "allow: ['git **'], untold: allow", "allow: ['**'], cwd: ['src/**'], untold: allow", "allow: ['**'], env: [A=1], untold: allow"} {
		if _, err := policy.Parse("p", []byte("version: 1\ncommands: {"+bad+"}")); err == nil || !strings.Contains(err.Error(), "commands.untold") {
			t.Errorf("%s: %v", bad, err)
		}
	}
}

// An untold command is never let through where some command on the trusted PATH is
// not, in any chain, and no further policy makes its answer milder.
func TestUntoldCommandsAreNeverMilderThanOthers(t *testing.T) {
	patterns := rapid.SliceOfN(rapid.SampledFrom([]string{"**", "* **", "git **", "ls", "rm **", "** x"}), 0, 2)
	keys := rapid.SampledFrom([]string{"", ", untold: ask", ", untold: deny"})
	others := []tool.Action{run("git"), run("git", "push"), run("ls"), run("ls", "-l"), run("rm", "x"), run("other"), run("other", "x")}
	rapid.Check(t, func(t *rapid.T) {
		var c policy.Chain
		was := policy.Allow
		for i := range rapid.IntRange(1, 3).Draw(t, "links") {
			src := fmt.Sprintf("version: 1\ncommands: {allow: %s, ask: %s, deny: %s%s}", quoted(patterns.Draw(t, "allow")), quoted(patterns.Draw(t, "ask")), quoted(patterns.Draw(t, "deny")), keys.Draw(t, "key"))
			if i > 0 && rapid.Bool().Draw(t, "inherits") {
				src = "version: 1\nrest: inherit"
			}
			p, err := policy.Parse("p", []byte(src))
			if err != nil {
				t.Fatal(err)
			}
			r, err := p.Bind(env)
			if err != nil {
				t.Fatal(err)
			}
			c = append(c, r)
			e := c.DecideAction(untold).Effect
			if e > was {
				t.Fatalf("one more policy made %v of %v", e, was)
			}
			was = e
		}
		for _, a := range others {
			if e := c.DecideAction(a).Effect; was == policy.Allow && e != policy.Allow {
				t.Fatalf("an untold command is allowed, and %s is not: %v", a, e)
			}
		}
	})
}

// untold: allow leaves to the sandbox what the text does not show, and the programs of the workspace. Entries still hold
// for commands that it shows, and nothing is left where there is no sandbox.
func TestUntoldIsLeftToTheSandbox(t *testing.T) {
	c := chain(t, "commands: {allow: ['**'], ask: ['make **'], deny: ['git push **', 'docker **'], untold: allow}")
	for _, tt := range []struct {
		argv []string
		want policy.Effect
	}{
		{[]string{"ls"}, policy.Allow}, {[]string{"make"}, policy.Ask}, {[]string{"git", "push"}, policy.Deny},
		{[]string{".venv/bin/python", "-V"}, policy.Allow}, {[]string{"./bin/svc"}, policy.Allow}, {[]string{"/ws/node_modules/.bin/tsc"}, policy.Allow},
		{[]string{"./docker", "ps"}, policy.Deny}, {[]string{"./make"}, policy.Allow}, {[]string{"/opt/tool"}, policy.Deny}, {[]string{"../tool"}, policy.Deny}, {[]string{"/ws/../opt/tool"}, policy.Deny},
		{[]string{"/tmp/o"}, policy.Allow}, {[]string{"/var/tmp/d/o"}, policy.Allow}, {[]string{"/tmp/../opt/tool"}, policy.Deny}, {[]string{"/tmpx/o"}, policy.Deny}, {[]string{"/tmp/docker", "ps"}, policy.Deny},
	} {
		a := run(tt.argv...)
		a.Dir = "/ws"
		if d := c.DecideAction(a); d.Effect != tt.want {
			t.Errorf("%q: %v by %s", tt.argv, d.Effect, d.Rule)
		}
		a.Unconfined = true
		if d := c.DecideAction(a); strings.Contains(tt.argv[0], "/") && d.Effect == policy.Allow {
			t.Errorf("%q without a sandbox: %v by %s", tt.argv, d.Effect, d.Rule)
		}
	}
	outside := untold
	outside.Unconfined = true
	if d := c.DecideAction(outside); d.Effect != policy.Ask {
		t.Errorf("without a sandbox: %v by %s", d.Effect, d.Rule)
	}
}
