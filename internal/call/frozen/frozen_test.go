package frozen_test

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"golang.org/x/mod/sumdb/note"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/frozen"
	"github.com/remitrun/remit/internal/call/plan"
)

// shelf is the tools that there are, by version.
type shelf map[tool.ID]string

func (s shelf) Spec(id tool.ID) (*tool.Spec, bool) {
	v, ok := s[id]
	return &tool.Spec{ID: id, Version: v, Risk: tool.Medium, Effects: tool.EffectSet(tool.FSRead)}, ok
}

func (s shelf) digest(id tool.ID) tool.Digest {
	spec, _ := s.Spec(id)
	return spec.Digest()
}

var tools = shelf{"get": "1", "put": "1"}

const source = `inputs: {name: {type: string, default: bob}, n: {type: integer, default: 12345678901234567890}}
steps:
  - {id: one, tool: get, args: {path: a, n: "${{ inputs.n }}"}}
  - {id: two, tool: put, args: {path: "to ${{ inputs.name }}", text: "${{ steps.one.output.text }}"}}
  - {id: three, tool: put, args: {path: c}, needs: [one], if: "steps.one.output.text == 'go'"}
  - {id: four, tool: get, args: {path: d}, needs: [two], if: failure()}
  - {id: five, tool: get, args: {path: e}}
`

func frozenPlan(t testing.TB, src string) *frozen.Plan {
	t.Helper()
	p, err := plan.Parse("plan.yaml", []byte(src))
	if err != nil {
		t.Fatal(err)
	}
	in, err := p.Inputs(nil)
	if err != nil {
		t.Fatal(err)
	}
	f, err := frozen.Freeze(p, in, tools)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// course is how far a run has come.
type course struct {
	begun map[int]bool
	ended map[int]plan.Ended
	out   map[int]map[string]any
}

func (c course) Begun(step int) bool                     { return c.begun[step] }
func (c course) Ended(step int) (plan.Ended, bool)       { e, ok := c.ended[step]; return e, ok }
func (c course) Output(step int) (map[string]any, error) { return c.out[step], nil }

func after(done map[int]tool.Status, text string) course {
	c := course{map[int]bool{}, map[int]plan.Ended{}, map[int]map[string]any{1: {"text": text}}}
	for i, s := range done {
		c.begun[i], c.ended[i] = s != tool.Skipped, plan.Ended{Status: s}
	}
	return c
}

func call(t testing.TB, id tool.ID, step string, args map[string]any) frozen.Call {
	t.Helper()
	b, err := canon.Marshal(args)
	if err != nil {
		t.Fatal(err)
	}
	return frozen.Call{Step: step, Tool: id, Digest: tools.digest(id), Args: b}
}

func TestMatch(t *testing.T) {
	big := json.Number("12345678901234567890")
	one := map[string]any{"path": "a", "n": big}
	fresh := after(nil, "")
	done := after(map[int]tool.Status{1: tool.Completed}, "hello")
	tests := map[string]struct {
		run  course
		call frozen.Call
		want int    // 0: none
		say  string // if none
	}{
		"a literal and an input":         {fresh, call(t, "get", "one", one), 1, ""},
		"without naming the step":        {fresh, call(t, "get", "", one), 1, ""},
		"the last digit of a number":     {fresh, call(t, "get", "one", map[string]any{"path": "a", "n": json.Number("12345678901234567891")}), 0, "other arguments: n"},
		"a number as text":               {fresh, call(t, "get", "one", map[string]any{"path": "a", "n": "12345678901234567890"}), 0, "other arguments: n"},
		"one argument more":              {fresh, call(t, "get", "one", map[string]any{"path": "a", "n": big, "x": 1}), 0, "other arguments: x"},
		"one argument less":              {fresh, call(t, "get", "one", map[string]any{"path": "a"}), 0, "other arguments: n"},
		"another tool":                   {fresh, call(t, "put", "one", one), 0, `calls "get"`},
		"a tool that no step calls":      {fresh, call(t, "run", "", one), 0, "no step of the frozen plan calls"},
		"no such step":                   {fresh, call(t, "get", "zero", one), 0, `no step "zero"`},
		"a second time":                  {done, call(t, "get", "one", one), 0, "was already called"},
		"before what it depends on":      {fresh, call(t, "put", "two", map[string]any{"path": "to bob", "text": ""}), 0, `follows the step "one"`},
		"an output":                      {done, call(t, "put", "", map[string]any{"path": "to bob", "text": "hello"}), 2, ""},
		"another output":                 {done, call(t, "put", "two", map[string]any{"path": "to bob", "text": "hello!"}), 0, "other arguments: text"},
		"an input that was not frozen":   {done, call(t, "put", "two", map[string]any{"path": "to eve", "text": "hello"}), 0, "other arguments: path"},
		"a condition that does not hold": {done, call(t, "put", "three", map[string]any{"path": "c"}), 0, "condition"},
		"a condition that holds":         {after(map[int]tool.Status{1: tool.Completed}, "go"), call(t, "put", "three", map[string]any{"path": "c"}), 3, ""},
		"what it needs failed":           {after(map[int]tool.Status{1: tool.Failed}, "go"), call(t, "put", "three", map[string]any{"path": "c"}), 0, "condition"},
		"for failure":                    {after(map[int]tool.Status{1: tool.Failed, 2: tool.Skipped}, ""), call(t, "get", "four", map[string]any{"path": "d"}), 4, ""},
		"independent of the others":      {fresh, call(t, "get", "", map[string]any{"path": "e"}), 5, ""},
	}
	f := frozenPlan(t, source)
	for name, tt := range tests {
		got, err := f.Match(tt.call, tt.run)
		if tt.want > 0 {
			if err != nil || got != tt.want {
				t.Errorf("%s: step %d, %v", name, got, err)
			}
			continue
		}
		if !errors.Is(err, fault.NotInPlan) || !strings.Contains(err.Error(), tt.say) {
			t.Errorf("%s: step %d, %v; want %q", name, got, err, tt.say)
		}
	}
	changed := call(t, "get", "one", one)
	changed.Digest[0] ^= 1
	if _, err := f.Match(changed, fresh); !errors.Is(err, fault.NotInPlan) || !strings.Contains(err.Error(), "changed") {
		t.Errorf("a changed tool: %v", err)
	}
	if _, err := (&frozen.Plan{}).Match(changed, fresh); !errors.Is(err, fault.NotInPlan) {
		t.Errorf("the zero plan: %v", err)
	}
}

func TestParseReadsWhatFreezeWrote(t *testing.T) {
	f := frozenPlan(t, source)
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, f.Encode(), "", "  "); err != nil {
		t.Fatal(err)
	}
	for _, src := range [][]byte{f.Encode(), pretty.Bytes()} {
		g, err := frozen.Parse("f.json", src)
		if err != nil {
			t.Fatal(err)
		}
		if g.Digest() != f.Digest() || !bytes.Equal(g.Encode(), f.Encode()) || !frozen.Is(src) {
			t.Error("it is another one")
		}
		if err := g.Check(f.Plan(), tools); err != nil {
			t.Error(err)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	f := frozenPlan(t, source)
	good := string(f.Encode())
	replace := func(old, by string) string {
		if !strings.Contains(good, old) {
			t.Fatalf("%s does not hold %s", good, old)
		}
		return strings.Replace(good, old, by, 1)
	}
	for name, src := range map[string]string{
		"nothing":               "",
		"no JSON":               "steps: []",
		"a plan":                `{"steps": []}`,
		"a newer version":       replace(`"version":1`, `"version":2`),
		"one key more":          replace(`"version":1`, `"version":1,"extra":true`),
		"a key twice":           replace(`"version":1`, `"version":1,"version":1`),
		"another input":         replace(`"name":"bob"`, `"name":"eve"`),
		"an input less":         replace(`"name":"bob"`, `"other":"bob"`),
		"another argument":      replace(`"args":{"path":"e"}`, `"args":{"path":"f"}`),
		"another tool's digest": replace(tools.digest("get").String(), tools.digest("put").String()),
		"a lower risk":          replace(`"risk":"medium"`, `"risk":"low"`),
		"fewer effects":         replace(`"effects":["fs.read"]`, `"effects":[]`),
		"another source":        replace("path: e", "path: f"),
		"another name":          replace(`"name":""`, `"name":"x"`),
		"no digest":             replace(`"digest":"`+f.Digest().String()+`",`, ""),
		"more behind it":        good + "{}",
		"too large":             good + strings.Repeat(" ", frozen.MaxSize),
	} {
		if _, err := frozen.Parse("f.json", []byte(src)); !errors.Is(err, fault.PlanInvalid) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// A document whose digest was made anew but whose steps are not its plan's is
// refused all the same.
func TestStepsAreThePlans(t *testing.T) {
	var d map[string]any
	if err := json.Unmarshal(frozenPlan(t, "steps: [{tool: get, args: {path: a}}]").Encode(), &d); err != nil {
		t.Fatal(err)
	}
	steps, _ := d["steps"].([]any)
	first, _ := steps[0].(map[string]any)
	first["args"] = map[string]any{"path": "b"}
	delete(d, "digest")
	b, err := canon.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	d["digest"] = tool.Digest(sha256.Sum256(b)).String()
	if b, err = canon.Marshal(d); err != nil {
		t.Fatal(err)
	}
	if _, err := frozen.Parse("f.json", b); !errors.Is(err, fault.PlanInvalid) || !strings.Contains(err.Error(), "differs from its plan") {
		t.Errorf("%v", err)
	}
}

func TestCheckNamesWhatChanged(t *testing.T) {
	f := frozenPlan(t, source)
	other, err := plan.Parse("other.yaml", []byte(source+"# more\n"))
	if err != nil {
		t.Fatal(err)
	}
	err = f.Check(other, shelf{"get": "2"})
	for _, code := range []fault.Code{fault.NotInPlan, fault.ToolChanged, fault.ToolUnknown} {
		if !errors.Is(err, code) {
			t.Errorf("%v does not say %s", err, code)
		}
	}
	if _, err := frozen.Freeze(other, nil, shelf{}); !errors.Is(err, fault.ToolUnknown) {
		t.Errorf("freezing without tools: %v", err)
	}
}

func TestApprovals(t *testing.T) {
	key := func(name string) (note.Signer, note.Verifier) {
		s, v, err := note.GenerateKey(rand.Reader, name)
		if err != nil {
			t.Fatal(err)
		}
		signer, err := note.NewSigner(s)
		if err != nil {
			t.Fatal(err)
		}
		verifier, err := note.NewVerifier(v)
		if err != nil {
			t.Fatal(err)
		}
		return signer, verifier
	}
	sign := func(s note.Signer, text string) string {
		b, err := note.Sign(&note.Note{Text: text}, s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	f, other := frozenPlan(t, source), frozenPlan(t, source+"# other\n")
	ours, verifier := key("remit.local/a")
	theirs, foreign := key("remit.local/b")
	text, err := f.ApprovalText("user:ann", time.Unix(1e9, 5))
	if err != nil {
		t.Fatal(err)
	}
	g, err := f.WithApproval(sign(ours, text), verifier)
	if err != nil {
		t.Fatal(err)
	}
	if g.Digest() != f.Digest() {
		t.Error("an approval changed what is approved")
	}
	again, err := frozen.Parse("f.json", g.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if valid, n := again.Approvals(verifier); len(valid) != 1 || n != 0 || valid[0].By != "user:ann" || !valid[0].At.Equal(time.Unix(1e9, 0)) {
		t.Errorf("%+v and %d others", valid, n)
	}
	if valid, n := again.Approvals(foreign); len(valid) != 0 || n != 1 {
		t.Errorf("by another key: %+v and %d others", valid, n)
	}
	wrong, err := other.ApprovalText("user:ann", time.Unix(1e9, 0))
	if err != nil {
		t.Fatal(err)
	}
	for name, signed := range map[string]string{"another plan's": sign(ours, wrong), "another key's": sign(theirs, text), "no note": "yes",
		"another text": sign(ours, "remit.local/a\n1\n"), "the same person again": sign(ours, text)} {
		if _, err := again.WithApproval(signed, verifier); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	for _, by := range []string{"", "a\nb", strings.Repeat("x", 201)} {
		if _, err := f.ApprovalText(by, time.Time{}); err == nil {
			t.Errorf("%q may approve", by)
		}
	}
}

// Of all calls of two random ones, exactly those that the plan resolves to are
// matched: nothing else by any spelling.
func TestPropertyOnlyThePlansCallsMatch(t *testing.T) {
	f := frozenPlan(t, `steps: [{id: a, tool: get, args: {x: 1, y: [1, {z: "q"}]}}]`)
	value := rapid.SampledFrom([]any{json.Number("1"), json.Number("1.0"), json.Number("2"), "1", nil, true, []any{json.Number("1"), map[string]any{"z": "q"}}, []any{}})
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{}
		for _, k := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"x", "y", "z"}), rapid.ID).Draw(t, "keys") {
			args[k] = value.Draw(t, k)
		}
		b, err := canon.Marshal(args)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Match(frozen.Call{Tool: "get", Digest: tools.digest("get"), Args: b}, after(nil, ""))
		if want := string(b) == `{"x":1,"y":[1,{"z":"q"}]}`; (err == nil) != want {
			t.Fatalf("%s: %v", b, err)
		}
	})
}

func FuzzParse(f *testing.F) {
	good := frozenPlan(f, source).Encode()
	f.Add(good)
	f.Add([]byte(`{"version":1,"plan":{"name":"","digest":"","source":""},"inputs":{},"steps":[],"digest":""}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := frozen.Parse("f", src)
		if err != nil {
			if !errors.Is(err, fault.PlanInvalid) {
				t.Fatalf("%v has another code", err)
			}
			return
		}
		q, err := frozen.Parse("f", p.Encode())
		if err != nil || q.Digest() != p.Digest() {
			t.Fatalf("what was read cannot be read again: %v", err)
		}
	})
}
