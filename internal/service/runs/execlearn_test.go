package runs_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
)

// learnIn is an app and a workspace with some files.
func learnIn(t *testing.T) (*runs.Runs, string) {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	ws := filepath.Join(dir, "ws")
	for _, name := range []string{"src/a.go", "src/b.go", "src/c.go", "out/old", "README", ".env", "secrets/k"} {
		p := filepath.Join(ws, name)
		if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(p, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".profile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := &home.Home{Config: home.Config{Dir: filepath.Join(dir, "remit"), UserHome: dir, User: "ann"}}
	return &runs.Runs{Home: h, Secrets: secrets.New(h, &policies.Policies{Home: h})}, ws
}

func parse(t interface{ Fatal(...any) }, src string) *policy.Policy {
	p, err := policy.Parse("base.yaml", []byte("version: 1\nname: base\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestWhatIsLearnedFromACommand(t *testing.T) {
	a, ws := learnIn(t)
	homeDir := filepath.Dir(ws)
	touch := func(use sandbox.Use, name string, more ...func(*sandbox.Touch)) sandbox.Touch {
		p := name
		if !filepath.IsAbs(name) {
			p = filepath.Join(ws, name)
		}
		x := sandbox.Touch{Use: use, Path: p, Real: p, Exists: true, Shown: "files", Count: 1}
		for _, f := range more {
			f(&x)
		}
		return x
	}
	shown := func(s string) func(*sandbox.Touch) { return func(x *sandbox.Touch) { x.Shown = s } }
	missing := func(x *sandbox.Touch) { x.Exists = false; x.Named = x.Use == sandbox.Wrote }
	folder := func(x *sandbox.Touch) { x.Folder = true }
	named := func(x *sandbox.Touch) { x.Named = true }
	get := func(url string) tool.Target {
		to, err := target.Parse("GET", url)
		if err != nil {
			t.Fatal(err)
		}
		return to
	}
	tests := map[string]struct {
		base     string
		touched  []sandbox.Touch
		conns    []sandbox.Connection
		approved []tool.Target
		want     []string // lines, "!" for none
	}{
		"files that were read": {touched: []sandbox.Touch{touch(sandbox.Read, "src/a.go"), touch(sandbox.Looked, "README")},
			want: []string{`- "src/a.go"`, `- "README"`, "!write:", "!system: standard", `- "exec"`}},
		"several of a folder":                     {touched: []sandbox.Touch{touch(sandbox.Read, "src/a.go"), touch(sandbox.Read, "src/b.go"), touch(sandbox.Read, "src/c.go")}, want: []string{`- "src/*.go"`, `!- "src/a.go"`}},
		"a folder that was listed":                {touched: []sandbox.Touch{touch(sandbox.Read, "src", folder)}, want: []string{`- "src/**"`}},
		"a listing of what was read":              {touched: []sandbox.Touch{touch(sandbox.Read, "src", folder), touch(sandbox.Read, "src/a.go")}, want: []string{`- "src/a.go"`, `!- "src/**"`}},
		"the workspace listed":                    {touched: []sandbox.Touch{touch(sandbox.Read, "", folder)}, want: []string{"!files:"}},
		"a file changed in place":                 {touched: []sandbox.Touch{touch(sandbox.Wrote, "README")}, want: []string{`- "README"`, "write:", "!touch"}},
		"a new file in a folder":                  {touched: []sandbox.Touch{touch(sandbox.Wrote, "out/new", missing)}, want: []string{`- "out/**"`, "!mkdir"}},
		"a file removed":                          {touched: []sandbox.Touch{touch(sandbox.Wrote, "out/old", named)}, want: []string{`- "out/**"`}},
		"a new folder":                            {touched: []sandbox.Touch{touch(sandbox.Wrote, "new", missing, folder), touch(sandbox.Wrote, "new/x/y", missing)}, want: []string{`- "new/**"`, "#   mkdir -p new", "!new/x"}},
		"a new folder in one that can be written": {touched: []sandbox.Touch{touch(sandbox.Wrote, "out/x/y", missing), touch(sandbox.Wrote, "out/z", missing)}, want: []string{`- "out/**"`, "!mkdir"}},
		"a new file at the top":                   {touched: []sandbox.Touch{touch(sandbox.Wrote, "top", missing)}, want: []string{`- "top"`, "#   touch top", `!- "**"`}},
		"a file at the top replaced":              {touched: []sandbox.Touch{touch(sandbox.Wrote, "README", named)}, want: []string{`- "README"`, "#   README is replaced or removed", `!- "**"`}},
		"what was only looked for":                {touched: []sandbox.Touch{touch(sandbox.Read, "none", missing), touch(sandbox.Looked, "/opt/none-such", missing, shown(""))}, want: []string{"!none"}},
		"a sensitive name":                        {touched: []sandbox.Touch{touch(sandbox.Read, ".env", shown("mask"))}, want: []string{`#   files.read ".env" (1×): ".env" may hold secrets`, `!- ".env"`}},
		"what the policy denies": {base: "files: {read: {deny: ['secrets/**']}}\n", touched: []sandbox.Touch{touch(sandbox.Read, "secrets/k", shown("mask"))},
			want: []string{`#   files.read "secrets/k" (1×): denied by files.read.deny[0]`}},
		"the person's own folder": {touched: []sandbox.Touch{touch(sandbox.Read, "/tmp/home/.profile", missing, shown("own")), touch(sandbox.Read, "/tmp/home/.none", missing, shown("own"))},
			want: []string{`#   files.read "~/.profile" (1×): it was not shown`, "!.none"}},
		"the standard system": {touched: []sandbox.Touch{touch(sandbox.Read, "/etc/timezone", shown("standard"))}, want: []string{"system: standard", "!timezone"}},
		"the system written":  {touched: []sandbox.Touch{touch(sandbox.Wrote, "/usr/bin/cat", shown("system"))}, want: []string{`#   files.write "/usr/bin/cat" (1×): files of the system are never written`}},
		"odd names": {touched: []sandbox.Touch{touch(sandbox.Read, "src/\xff"), touch(sandbox.Wrote, "a\nb: c", missing), touch(sandbox.Wrote, "- \"**\"", missing)},
			want: []string{"not UTF-8", `#   touch "a\nb: c"`, `!- "**"`}},
		"what the policy allows of the network": {base: "network: {allow: ['GET https://a.test/**']}\n", conns: []sandbox.Connection{{Method: "GET", Protocol: "https", Host: "a.test", Port: 443, Path: "/v1", Effect: policy.Allow}},
			want: []string{"GET https://a.test/v1", "!invalid"}},
		"what a person allowed": {approved: []tool.Target{get("https://b.test/x"), {Scheme: "https", Host: "c.test", Port: 443}},
			conns: []sandbox.Connection{{Method: "GET", Protocol: "https", Host: "b.test", Port: 443, Path: "/x", Effect: policy.Allow}, {Protocol: "https", Host: "c.test", Port: 443, Effect: policy.Allow}},
			want:  []string{`- "GET https://b.test/x"`, `- "https://c.test"`, "!ask:"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := a.LearnFrom(parse(t, tt.base), ws, sandbox.Outcome{Touched: tt.touched, Connections: tt.conns}, ledger.Attempts{}, tt.approved...)
			if err != nil {
				t.Fatal(err)
			}
			for _, want := range tt.want {
				not, absent := strings.CutPrefix(want, "!")
				if absent && strings.Contains(string(got.Policy), not) || !absent && !strings.Contains(string(got.Policy), want) {
					t.Errorf("want %q in\n%s", want, got.Policy)
				}
			}
			if strings.Contains(string(got.Policy), homeDir) {
				t.Errorf("an absolute path in\n%s", got.Policy)
			}
		})
	}
}

func TestNothingSeenIsNothingLearned(t *testing.T) {
	a, ws := learnIn(t)
	if got, err := a.LearnFrom(parse(t, ""), ws, sandbox.Outcome{Unseen: 3}, ledger.Attempts{}); !errors.Is(err, fault.SandboxMissing) {
		t.Errorf("%v, and\n%s", err, got.Policy)
	}
}

// TestNothingIsLearnedThatWasRefused: whatever a command did, what its trial run
// did not allow is not allowed by what is learned from it.
func TestNothingIsLearnedThatWasRefused(t *testing.T) {
	a, ws := learnIn(t)
	names := []string{"src/a.go", "src/b.go", "out/new", "out", "new/deep/x", "top", ".env", "secrets/k", "sub/.env", "README", "", "/etc/shadow", "/usr/bin/cat"}
	base := parse(t, "files: {read: {deny: ['secrets/**']}, write: {deny: ['src/**']}}\n")
	wide, err := base.Widened(policy.Wide{Files: true})
	if err != nil {
		t.Fatal(err)
	}
	bind := func(p *policy.Policy) policy.Chain {
		r, err := p.Bind(policy.Env{Workspace: ws, Home: filepath.Dir(ws)})
		if err != nil {
			t.Fatal(err)
		}
		return policy.Chain{r}
	}
	trial := bind(wide)
	rapid.Check(t, func(t *rapid.T) {
		touch := rapid.Custom(func(t *rapid.T) sandbox.Touch {
			p := rapid.SampledFrom(names).Draw(t, "name")
			if !filepath.IsAbs(p) {
				p = filepath.Join(ws, p)
			}
			return sandbox.Touch{Path: p, Real: p, Use: sandbox.Use(rapid.IntRange(0, 3).Draw(t, "use")), Exists: rapid.Bool().Draw(t, "exists"),
				Folder: rapid.Bool().Draw(t, "folder"), Named: rapid.Bool().Draw(t, "named"), Count: 1,
				Shown: rapid.SampledFrom([]string{"files", "mask", "system", "standard", "own", ""}).Draw(t, "shown")}
		})
		got, err := a.LearnFrom(base, ws, sandbox.Outcome{Touched: rapid.SliceOfN(touch, 0, 8).Draw(t, "touched")}, ledger.Attempts{})
		if err != nil {
			t.Fatal(err)
		}
		p, err := policy.Parse("learned", got.Policy)
		if err != nil {
			t.Fatalf("%v:\n%s", err, got.Policy)
		}
		learned := bind(p)
		for _, name := range append(names, "other", "src/z.go", "secrets/other", "/etc/passwd") {
			if !filepath.IsAbs(name) {
				name = filepath.Join(ws, name)
			}
			for _, k := range []tool.ActionKind{tool.FileRead, tool.FileWrite} {
				act := tool.Action{Kind: k, Path: name, Real: name}
				if learned.DecideAction(act).Effect == policy.Allow && trial.DecideAction(act).Effect != policy.Allow {
					t.Fatalf("%s is allowed, and was not:\n%s", act, got.Policy)
				}
			}
		}
	})
}
