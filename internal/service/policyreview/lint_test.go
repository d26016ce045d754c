package policyreview_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/runs"
)

// person approves every question, except those about a call in the list.
type person []string

func (p person) Ask(_ context.Context, q runner.Question) (runner.Answer, error) {
	return runner.Answer{Yes: !slices.Contains(p, fmt.Sprint(q.Call.Args["path"])), By: "user:ann", Where: "test"}, nil
}

// did records a run of calls under a policy.
func (d *desk) did(p *policy.Policy, asker runner.Asker, calls ...runner.Call) {
	d.t.Helper()
	s, err := d.app.Runs.Begin(d.t.Context(), runs.Request{Name: "calls", Root: p, Workspace: d.ws, Asker: asker})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, c := range calls {
		if _, err := s.Call(d.t.Context(), c); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := s.End(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
}

func (d *desk) lint(p *policy.Policy, n int) policyreview.Lint {
	d.t.Helper()
	l, err := d.app.PolicyReview.Lint(d.t.Context(), p, d.ws, n)
	if err != nil {
		d.t.Fatal(err)
	}
	return l
}

func parsed(t *testing.T, src string) *policy.Policy {
	t.Helper()
	p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\n"+src))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func calls(id tool.ID, arg string, values ...any) []runner.Call {
	var out []runner.Call
	for _, v := range values {
		out = append(out, runner.Call{Tool: id, Args: tool.Args{arg: v}})
	}
	return out
}

// found writes findings as: kind entry calls narrower.
func found(l policyreview.Lint) string {
	var out []string
	for _, f := range l.Findings {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s %d %s", f.Kind, f.Entry, f.Calls, strings.Join(f.Narrower, ","))))
	}
	return strings.Join(out, "; ")
}

func TestLintFindsWhatRunsDidNotNeed(t *testing.T) {
	web := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer web.Close()
	reads := func(paths ...any) []runner.Call { return calls("fs.read", "path", paths...) }
	for name, tt := range map[string]struct {
		policy string
		person person
		calls  []runner.Call
		want   string
	}{
		"no calls":        {policy: "files: {read: {allow: ['**']}}", want: ""},
		"exactly used":    {policy: "files: {read: {allow: [a, b]}}", calls: reads("a", "b"), want: ""},
		"never used":      {policy: "files: {read: {allow: [a, b]}}", calls: reads("a"), want: "unused files.read.allow[1] 0"},
		"a deny entry":    {policy: "files: {read: {allow: [a], deny: [b]}}", calls: reads("a"), want: ""},
		"used, refused":   {policy: "files: {read: {allow: [a]}}", calls: reads("a", "b"), want: ""},
		"shadowed":        {policy: "files: {read: {allow: [a, '[a]']}}", calls: reads("a"), want: "shadowed files.read.allow[1] 1"},
		"too few":         {policy: "files: {read: {allow: ['**']}}", calls: reads("src/a", "src/b"), want: ""},
		"one folder":      {policy: "files: {read: {allow: ['**']}}", calls: reads("src/a.go", "src/b.go", "src/c.go"), want: "broad files.read.allow[0] 3 src/*.go"},
		"folders in one":  {policy: "files: {read: {allow: ['**']}}", calls: reads("src/1/a", "src/2/a", "src/3/a", "src/4/a"), want: "broad files.read.allow[0] 4 src/**"},
		"everywhere":      {policy: "files: {read: {allow: ['**']}}", calls: reads("a/x", "b/x", "c/x", "d/x"), want: ""},
		"one path":        {policy: "network: {allow: ['GET " + web.URL + "/**']}", calls: calls("http.get", "url", web.URL+"/v1/a", web.URL+"/v1/a", web.URL+"/v1/a"), want: "broad network.allow[0] 3 GET " + web.URL + "/v1/a"},
		"one command":     {policy: "commands: {allow: ['git **']}", calls: calls("shell.run", "argv", []any{"git", "version"}, []any{"git", "version"}, []any{"git", "version"}), want: "broad commands.allow[0] 3 git version"},
		"a process":       {policy: "files: {read: {allow: [a, '**']}}\ncommands: {allow: ['git version']}", calls: calls("shell.run", "argv", []any{"git", "version"}), want: ""},
		"always approved": {policy: "files: {read: {ask: ['*']}}", calls: reads("a", "b", "a"), want: "approved files.read.ask[0] 3"},
		"approved twice":  {policy: "files: {read: {ask: ['*']}}", calls: reads("a", "b"), want: ""},
		"refused once":    {policy: "files: {read: {ask: ['*']}}", person: person{"b"}, calls: reads("a", "b", "a", "a"), want: ""},
		"sensitive":       {policy: "files: {read: {ask: ['*', .env]}}", calls: reads("a", ".env", "a", ".env", ".env"), want: ""},
		"a tool":          {policy: "tools: {ask: [fs.read]}\nfiles: {read: {allow: ['.env']}}", calls: reads(".env", ".env", ".env"), want: ""},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t, map[string]string{"a": "a", "b": "b", ".env": "x"})
			p := parsed(t, tt.policy)
			if len(tt.calls) > 0 {
				d.did(p, tt.person, tt.calls...)
			}
			if got := found(d.lint(p, 10)); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Only the runs of the workspace count, and only as many as are wanted.
func TestLintReadsTheNewestRunsOfTheWorkspace(t *testing.T) {
	d := newDesk(t, map[string]string{"a": "a", "b": "b"})
	p := parsed(t, "files: {read: {allow: [a, b]}}")
	d.did(p, nil, calls("fs.read", "path", "b")...)
	d.did(p, nil, calls("fs.read", "path", "a")...)
	here := d.ws
	d.ws = t.TempDir()
	d.did(p, nil, calls("fs.read", "path", "b")...)
	d.ws = here
	if l := d.lint(p, 1); l.Runs != 1 || found(l) != "unused files.read.allow[1] 0" {
		t.Errorf("the newest run: %+v", l)
	}
	if l := d.lint(p, 10); l.Runs != 2 || found(l) != "" {
		t.Errorf("all runs: %+v", l)
	}
}

// A policy that follows every finding about its allow entries decides all recorded calls as
// before, and each narrower entry is included in the one that it replaces.
func TestFollowingLintChangesNoDecision(t *testing.T) {
	d := newDesk(t, nil)
	for _, dir := range []string{"src", "src/x", "docs"} {
		if err := os.Mkdir(d.file(dir), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	patterns := []string{"**", "src/**", "src/*", "src/*.go", "**/*.go", "docs/**", "src/a.go", "src/x/**", "*", ".env", "**/x"}
	paths := []string{"src/a.go", "src/b.go", "src/c.go", "src/x/a.go", "src/x/b.md", "docs/a.md", "docs/b.md", "a", ".env", "src"}
	list := func(most int) string {
		var out []string
		for range rnd.IntN(most + 1) {
			out = append(out, fmt.Sprintf("%q", patterns[rnd.IntN(len(patterns))]))
		}
		return "[" + strings.Join(out, ", ") + "]"
	}
	kinds := map[string]int{}
	for range 60 {
		lists := func() string { return fmt.Sprintf("{allow: %s, ask: %s, deny: %s}", list(4), list(1), list(1)) }
		p := parsed(t, "files: {read: "+lists()+", write: "+lists()+"}\n")
		var all []runner.Call
		from := rnd.IntN(len(paths))
		for range 4 + rnd.IntN(8) {
			c := runner.Call{Tool: "fs.read", Args: tool.Args{"path": paths[(from+rnd.IntN(4))%len(paths)]}}
			switch rnd.IntN(4) {
			case 0:
				c.Tool = "fs.list"
			case 1:
				c.Tool, c.Args["content"] = "fs.write", "x"
			}
			all = append(all, c)
		}
		d.did(p, person{"docs/a.md"}, all...)
		l := d.lint(p, 1)
		d.follow(p, l, kinds)
	}
	if kinds[policyreview.Unused] == 0 || kinds[policyreview.Shadowed] == 0 || kinds[policyreview.Broad] < 5 {
		t.Errorf("too few findings to show anything: %v", kinds)
	}
}

// follow applies findings, from the last, and compares the policies over the newest run.
func (d *desk) follow(p *policy.Policy, l policyreview.Lint, kinds map[string]int) {
	d.t.Helper()
	env := d.app.Home.Env(d.ws)
	was, err := p.Bind(env)
	if err != nil {
		d.t.Fatal(err)
	}
	after := p
	slices.SortStableFunc(l.Findings, func(x, y policyreview.Finding) int { return strings.Compare(y.Entry, x.Entry) })
	for _, f := range l.Findings {
		kinds[f.Kind]++
		section, at, ok := strings.Cut(strings.TrimSuffix(f.Entry, "]"), ".allow[")
		if !ok {
			continue
		}
		kind := map[string]tool.ActionKind{"files.read": tool.FileRead, "files.write": tool.FileWrite}[section]
		for _, text := range f.Narrower {
			if !(policy.Chain{was}).Includes(kind, text) {
				d.t.Errorf("%s: %q is not included in\n%s", f.Entry, text, p.Source())
			}
		}
		if after, err = after.Narrowed(section, int(at[0]-'0'), f.Narrower); err != nil {
			d.t.Fatal(err)
		}
	}
	for file, src := range map[string][]byte{"was.yaml": p.Source(), "is.yaml": after.Print()} {
		if err := os.WriteFile(d.file(file), src, 0o600); err != nil {
			d.t.Fatal(err)
		}
	}
	diff, err := d.app.PolicyReview.Diff(d.t.Context(), d.file("was.yaml"), d.file("is.yaml"), d.ws, 1)
	if err != nil {
		d.t.Fatal(err)
	}
	if len(diff.History) > 0 || diff.Calls == 0 {
		d.t.Errorf("%s\nbecame\n%s\nby %s, and decides otherwise: %+v", p.Source(), after.Print(), found(l), diff.History)
	}
}
