package policyreview_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
)

// desk is an installation with a workspace of files.
type desk struct {
	t   *testing.T
	app *app.App
	ws  string
}

func newDesk(t *testing.T, files map[string]string) *desk {
	t.Helper()
	ws, err := home.Workspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	d := &desk{t: t, app: apptest.New(t, t.TempDir()), ws: ws}
	for name, text := range files {
		if err := os.WriteFile(d.file(name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func (d *desk) file(name string) string { return filepath.Join(d.ws, name) }

// ran records a run that reads files under a policy.
func (d *desk) ran(policyFile string, reads ...string) string {
	d.t.Helper()
	s, err := d.app.Runs.Begin(d.t.Context(), runs.Request{Name: "reads", Policy: d.file(policyFile), Workspace: d.ws})
	if err != nil {
		d.t.Fatal(err)
	}
	for _, name := range reads {
		if _, err := s.Call(d.t.Context(), runner.Call{Tool: "fs.read", Args: tool.Args{"path": name}}); err != nil {
			d.t.Fatal(err)
		}
	}
	if err := s.End(d.t.Context()); err != nil {
		d.t.Fatal(err)
	}
	return s.Result().ID.String()
}

func TestCheckFindsEntriesWithoutEffect(t *testing.T) {
	d := newDesk(t, nil)
	for entry, want := range map[string]string{
		"tools: {allow: [fs.read]}":        "",
		"tools: {allow: [fs.raed]}":        "fs.raed",
		"models: {allow: [nobody/*]}":      "nobody",
		"models: {allow: ['scripted:**']}": "",
	} {
		p, err := policy.Parse("p.yaml", []byte("version: 1\nname: p\n"+entry+"\n"))
		if err != nil {
			t.Errorf("%s: %v", entry, err)
			continue
		}
		mistakes, warnings, err := d.app.PolicyReview.Check(p)
		got := fmt.Sprint(mistakes, warnings)
		if err != nil || want == "" && len(mistakes) > 0 || want != "" && !strings.Contains(got, want) {
			t.Errorf("%s: %s, %v; want %q", entry, got, err, want)
		}
	}
}

// A call is decided as it would be, and nothing runs: there is no ledger afterwards.
func TestExplainDecidesWithoutRunning(t *testing.T) {
	d := newDesk(t, map[string]string{
		"wide.yaml":   "version: 1\nname: wide\nfiles: {read: {allow: ['**']}}\ntools: {allow: ['*']}\n",
		"narrow.yaml": "version: 1\nname: narrow\nfiles: {read: {allow: ['**'], deny: ['*.log']}}\n",
		"a.log":       "x", "a.txt": "x",
	})
	for _, tt := range []struct {
		path, effect, rule string
		files              []string
	}{
		{"a.txt", "allow", "files.read.allow[0]", []string{"wide.yaml"}},
		{"a.txt", "allow", "files.read.allow[0]", []string{"wide.yaml", "narrow.yaml"}},
		{"a.log", "deny", "files.read.deny[0]", []string{"wide.yaml", "narrow.yaml"}},
		{"../out", "deny", "", []string{"wide.yaml"}},
	} {
		var files []string
		for _, f := range tt.files {
			files = append(files, d.file(f))
		}
		ex, err := d.app.PolicyReview.Explain(t.Context(), files, d.ws, "fs.read", tool.Args{"path": tt.path})
		if err != nil || ex.Effect != tt.effect || !strings.HasPrefix(ex.Rule, tt.rule) {
			t.Errorf("%s under %v: %s by %q, %v; want %s by %q", tt.path, tt.files, ex.Effect, ex.Rule, err, tt.effect, tt.rule)
		}
	}
	if _, err := d.app.PolicyReview.Explain(t.Context(), []string{d.file("wide.yaml")}, d.ws, "fs.raed", nil); fault.CodeOf(err) != fault.ToolUnknown {
		t.Errorf("an unknown tool: %v", err)
	}
	if _, err := os.Stat(filepath.Join(d.app.Home.Dir, "remit.db")); !os.IsNotExist(err) {
		t.Errorf("explaining made a ledger: %v", err)
	}
}

func TestCasesAreDecided(t *testing.T) {
	d := newDesk(t, map[string]string{
		"p.yaml": "version: 1\nname: p\nfiles: {read: {allow: ['**'], deny: ['private/**']}}\n",
		"cases.yaml": `policy: p.yaml
cases:
  - {action: files.read a.txt, expect: allow}
  - {action: files.read private/x, expect: deny, rule: "files.read.deny[0]"}
  - {action: files.read private/x, expect: allow}
`,
	})
	got, err := d.app.PolicyReview.Test(d.file("cases.yaml"))
	if err != nil || len(got) != 3 {
		t.Fatalf("%+v, %v", got, err)
	}
	if !got[0].Pass || !got[1].Pass || got[2].Pass || got[2].Why == "" || got[2].Effect != "deny" {
		t.Errorf("%+v", got)
	}
}

// Two policies are compared by their text and by the recorded calls that they would decide
// differently.
func TestDiffJudgesRecordedCalls(t *testing.T) {
	d := newDesk(t, map[string]string{
		"old.yaml": "version: 1\nname: p\nfiles: {read: {allow: ['**']}}\n",
		"new.yaml": "version: 1\nname: p\nfiles: {read: {allow: ['**'], deny: ['b.txt']}}\n",
		"a.txt":    "a", "b.txt": "b",
	})
	d.ran("old.yaml", "a.txt", "b.txt", "b.txt")
	same, err := d.app.PolicyReview.Diff(t.Context(), d.file("old.yaml"), d.file("old.yaml"), d.ws, 10)
	if err != nil || !same.Same() || same.Calls != 3 {
		t.Errorf("a policy and itself: %+v, %v", same, err)
	}
	got, err := d.app.PolicyReview.Diff(t.Context(), d.file("old.yaml"), d.file("new.yaml"), d.ws, 10)
	if err != nil || got.Same() || len(got.Changes) == 0 || len(got.Witnesses) == 0 {
		t.Fatalf("%+v, %v", got, err)
	}
	if len(got.History) != 1 || got.History[0].Count != 2 || got.History[0].Was != policy.Allow || got.History[0].Is != policy.Deny {
		t.Errorf("recorded calls that differ: %+v", got.History)
	}
}

// The learned policy allows what the runs did, and refuses what they were refused.
func TestLearnAllowsWhatRunsDid(t *testing.T) {
	d := newDesk(t, map[string]string{
		"p.yaml": "version: 1\nname: p\nfiles: {read: {allow: ['**'], deny: ['b.txt']}}\n",
		"a.txt":  "a", "b.txt": "b",
	})
	got, err := d.app.PolicyReview.Learn(t.Context(), "learned", []string{d.ran("p.yaml", "a.txt", "b.txt")}, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.Calls != 1 || got.Refused != 1 || len(got.Runs) != 1 {
		t.Errorf("%+v", got)
	}
	if err := os.WriteFile(d.file("learned.yaml"), got.Policy, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"a.txt": "allow", "b.txt": "deny", "learned.yaml": "deny"} {
		ex, err := d.app.PolicyReview.Explain(t.Context(), []string{d.file("learned.yaml")}, d.ws, "fs.read", tool.Args{"path": path})
		if err != nil || ex.Effect != want {
			t.Errorf("%s: %s, %v, want %s under\n%s", path, ex.Effect, err, want, got.Policy)
		}
	}
}
