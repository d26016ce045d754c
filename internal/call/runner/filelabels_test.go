package runner_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// shelf is a runner.FileLabels over labels by path.
type shelf struct {
	labels map[string][]string
	around []string
	many   bool  // there are more files with a label than can be withheld
	unseen error // of looking at what a command wrote
	looked int
}

func (s *shelf) Look(_ context.Context, q runner.LabelQuery) (runner.LabelsFound, error) {
	s.looked++
	for i := range q.Actions {
		q.Actions[i].Labels = s.labels[q.Actions[i].Path]
	}
	var out runner.LabelsFound
	if q.Process {
		out.Around = s.around
	}
	return out, nil
}

func (s *shelf) Having(context.Context, *policy.Flows, policy.Chain, string) (policy.LabelledFiles, error) {
	return policy.LabelledFiles{Paths: []string{"/ws/hidden"}, Unknown: s.many}, nil
}

func (s *shelf) Begin(chain policy.Chain) runner.Writing {
	if chain == nil {
		return &shelved{s, nil, nil}
	}
	return &shelved{s, []string{"/ws"}, []string{"/ws"}}
}

type shelved struct {
	*shelf

	folders, roots []string
}

func (s *shelved) Folders() []string { return s.folders }

func (s *shelved) Only(files []string) { s.roots = files }

func (s *shelved) Written(_ context.Context, _ *runner.Run, paths []string, f func(string, ledger.LabelKey)) error {
	for _, p := range append(paths, s.roots...) {
		if p == "/ws" {
			p = "/ws/made"
		}
		f(p, ledger.ContentKey("1", "of"+p))
	}
	return s.unseen
}

// worker writes a file with its tool, or starts a process.
type worker struct {
	process bool
	changes []string        // of the process, if they are known
	seen    []policy.Effect // of the file /ws/hidden, while it runs
}

func (w *worker) Spec() *tool.Spec {
	s := &tool.Spec{ID: "work", Title: "work", Version: "1", Source: "builtin", Effects: tool.EffectSet(tool.FSWrite),
		Input: json.RawMessage(`{"type":"object","properties":{"read":{"type":"string"},"write":{"type":"string"}}}`)}
	if w.process {
		s.ID, s.Effects = "process", tool.EffectSet(tool.SystemExec)
	}
	return s
}

func (w *worker) Prepare(env tool.Env, args tool.Args) (permit.Prepared, error) {
	var p permit.Prepared
	for field, kind := range map[string]tool.ActionKind{"read": tool.FileRead, "write": tool.FileWrite} {
		if f, ok := args[field].(string); ok {
			p.Actions = append(p.Actions, tool.Action{Kind: kind, Path: env.Workspace + "/" + f})
		}
	}
	p.Run = func(_ context.Context, pm permit.Permit) (tool.Result, error) {
		w.seen = append(w.seen, pm.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: "/ws/hidden"}).Effect)
		if w.changes != nil {
			pm.Change(w.changes)
		}
		if f, ok := args["write"].(string); ok {
			path := env.Workspace + "/" + f
			return tool.Result{Output: map[string]any{}}, errors.Join(pm.Keeper().Before(path, 0, f), pm.Keeper().After(path, 0, f))
		}
		return tool.Result{Output: map[string]any{}}, nil
	}
	return p, nil
}

// keepNothing is the keeper of runs that log nothing.
type keepNothing struct{}

func (keepNothing) Before(string, int, string) error { return nil }
func (keepNothing) After(string, int, string) error  { return nil }

const twoLabels = `tools: {allow: ["*"]}
files: {read: {allow: ["**"]}, write: {allow: ["**"]}}
labels: {private: {from: ["files private/**"], kind: confidential}, web: {from: ["files web/**"]}, mail: {from: ["tools mcp:mail:*"]}}
flows: {private: {only: ["files kept/**"]}}
`

// given lists what has labels in the ledger, as "label key".
func (h *house) given() []string {
	h.t.Helper()
	list, err := h.st.Labelled(h.t.Context(), store.LabelFilter{})
	if err != nil {
		h.t.Fatal(err)
	}
	var out []string
	for _, r := range list {
		out = append(out, r.Label+" "+string(r.Key))
	}
	return out
}

func newShelf(t *testing.T, s *shelf) (*house, *worker, *worker) {
	t.Helper()
	tools, process := &worker{}, &worker{process: true}
	h := newHouse(t, open, tools, process)
	h.rn.Files = s
	h.under(twoLabels, func(in *runner.Info) { in.Keep = keepNothing{} })
	return h, tools, process
}

func TestWhatACallWritesHasItsLabels(t *testing.T) {
	s := &shelf{labels: map[string][]string{"/ws/page": {"web"}}}
	h, _, _ := newShelf(t, s)
	if o := h.call("work", tool.Args{"write": "before"}); o.Err != nil || h.given() != nil {
		t.Fatalf("in a context without labels: %v, labels %q", o.Err, h.given())
	}
	if o := h.call("work", tool.Args{"read": "page", "write": "out"}); o.Err != nil || !slices.Equal(o.Labels, []string{"web"}) {
		t.Fatalf("%v, labels %q", o.Err, o.Labels)
	}
	if o := h.call("work", tool.Args{"write": "web/own"}); o.Err != nil {
		t.Fatal(o.Err)
	}
	want := []string{"web path:/ws/out", "web sha256:1:of/ws/out", "web sha256:1:of/ws/web/own"} // web/own has it by its path
	if got := h.given(); !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
}

func TestAProcessWritesWithTheLabelsInItsReach(t *testing.T) {
	h, _, _ := newShelf(t, &shelf{around: []string{"mail"}})
	if o := h.call("process", nil); o.Err != nil || !slices.Equal(o.Labels, []string{"mail", "web"}) { // it may read web/**, too
		t.Fatalf("%v, labels %q", o.Err, o.Labels)
	}
	if got, want := h.given(), []string{"mail path:/ws/made", "mail sha256:1:of/ws/made", "web path:/ws/made", "web sha256:1:of/ws/made"}; !slices.Equal(got, want) {
		t.Errorf("labels %q, want %q", got, want)
	}
}

// Nothing is looked for if the changes of a process are known, and its folders are open for it until then.
func TestAProcessWhoseChangesAreKnown(t *testing.T) {
	for _, files := range [][]string{{}, {"/ws/told"}} {
		h, _, process := newShelf(t, &shelf{around: []string{"mail"}})
		process.changes = files
		if o := h.call("process", nil); o.Err != nil {
			t.Fatal(o.Err)
		}
		var want []string
		for _, label := range []string{"mail", "web"} {
			for _, f := range files {
				want = append(want, label+" path:"+f, label+" sha256:1:of"+f)
			}
		}
		if got := h.given(); !slices.Equal(got, want) {
			t.Errorf("labels %q, want %q", got, want)
		}
	}
}

// While a process may still have written elsewhere, all below its folders has the labels.
func TestWhatCannotBeLookedAtKeepsItsLabels(t *testing.T) {
	h, _, _ := newShelf(t, &shelf{around: []string{"mail"}, unseen: errors.New("no permission")})
	if o := h.call("process", nil); o.Err != nil {
		t.Fatal(o.Err)
	}
	want := fmt.Sprintf("mail folder:%d.1:/ws", h.run.Seq)
	if got := h.given(); !slices.Contains(got, want) {
		t.Errorf("labels %q, want %q among them", got, want)
	}
}

// Recorded files of a compartment are withheld; if they are too many, the call has the label.
func TestRecordedFilesOfACompartment(t *testing.T) {
	h, _, process := newShelf(t, &shelf{})
	if o := h.call("process", nil); o.Err != nil || slices.Contains(o.Labels, "private") || !slices.Equal(process.seen, []policy.Effect{policy.Deny}) {
		t.Errorf("%v, labels %q, the file is %v", o.Err, o.Labels, process.seen)
	}
	h, _, process = newShelf(t, &shelf{many: true})
	if o := h.call("process", nil); o.Err != nil || !slices.Contains(o.Labels, "private") || !slices.Equal(process.seen, []policy.Effect{policy.Allow}) {
		t.Errorf("of too many: %v, labels %q, the file is %v", o.Err, o.Labels, process.seen)
	}
	if o := h.call("work", tool.Args{"write": "out"}); !errors.Is(o.Err, fault.FlowRefused) {
		t.Errorf("after them: %v", o.Err)
	}
}

// Where no policy has labels, nothing is looked up.
func TestWithoutLabelsNothingIsLookedUp(t *testing.T) {
	s := &shelf{}
	h := newHouse(t, open, &worker{})
	h.rn.Files = s
	h.under("tools: {allow: ['*']}\nfiles: {read: {allow: ['**']}, write: {allow: ['**']}}\n", func(in *runner.Info) { in.Keep = keepNothing{} })
	if o := h.call("work", tool.Args{"write": "out"}); o.Err != nil || s.looked > 0 {
		t.Errorf("%v, looked %d times", o.Err, s.looked)
	}
}
