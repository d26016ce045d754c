package plan_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/plan"
)

// anyValue draws values of the JSON model, with strings that like to be
// mistaken for something else.
func anyValue(depth int) *rapid.Generator[any] {
	odd := rapid.SampledFrom([]string{"", " ", "null", "~", "true", "yes", "1", "0x1", "1e3", "- a", "a: b", "#", "<<", "*a", "&a", "!x", "\x00", "\u0085", "\u2028", "\ufeff", "\U0001f600", "'", `"`, `\`, "\r\n", "\t", "${{ inputs.i }}", "$${{ x", "---", "...", "2001-01-01", "\u007f", "\ufffd"})
	text := rapid.OneOf(odd, rapid.String().Filter(func(s string) bool { return !strings.Contains(s, "${{") }))
	key := text.Filter(func(s string) bool { return len(s) <= plan.MaxKey })
	scalar := rapid.OneOf(rapid.Just[any](nil), rapid.Map(rapid.Bool(), func(b bool) any { return b }), rapid.Map(text, func(s string) any { return s }),
		rapid.Map(rapid.Int64(), func(n int64) any { return json.Number(fmt.Sprint(n)) }), rapid.Map(rapid.SampledFrom([]string{"-0", "1.50", "1e-7", "1E+2", "0.0", "123456789012345678901"}), func(s string) any { return json.Number(s) }))
	if depth == 0 {
		return scalar
	}
	return rapid.OneOf(scalar, rapid.Map(rapid.SliceOfN(anyValue(depth-1), 0, 3), func(l []any) any { return l }),
		rapid.Map(rapid.MapOfN(key, anyValue(depth-1), 0, 3), func(m map[string]any) any { return m }))
}

// TestPrintParse: what is printed reads as what was printed, from JSON and from
// YAML.
func TestPrintParse(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		type object = map[string]any
		steps := []any{}
		for i := range rapid.IntRange(1, 4).Draw(t, "n") {
			s := object{"tool": "t", "args": object{"v": anyValue(3).Draw(t, "v")}, "name": rapid.String().Draw(t, "name")}
			if i > 0 && rapid.Bool().Draw(t, "needs") {
				s["needs"] = []any{fmt.Sprintf("step-%d", i)}
				s["if"] = fmt.Sprintf("always() && steps.step-%d.status != 'it''s \u2028'", i)
				s["on_error"] = rapid.SampledFrom([]string{"stop", "continue"}).Draw(t, "on_error")
			}
			steps = append(steps, s)
		}
		src, err := canon.Marshal(object{"steps": steps, "inputs": object{"i": object{}, "o": object{"type": "array", "default": []any{anyValue(2).Draw(t, "d")}}}})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Parse("p", src)
		if err != nil {
			t.Fatalf("%v\n%s", err, src)
		}
		q, err := plan.Parse("q", p.Print())
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Print())
		}
		if d := same(p, q); d != "" {
			t.Fatalf("%s\n%s", d, p.Print())
		}
		if string(p.Print()) != string(q.Print()) {
			t.Fatal("printing is not stable")
		}
	})
}

// TestInsertedTextIsInert: whatever a value holds, it arrives as it is, and
// nothing else of the arguments changes.
func TestInsertedTextIsInert(t *testing.T) {
	p := mustParse(t, "inputs: {a: {}}\nsteps: [{tool: t, args: {whole: '${{ inputs.a }}', part: '<${{ inputs.a }}|${{ inputs.a }}>', k: v}}]")
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"${{ inputs.a }}", "$${{", "}}", `","k":"w`})).Draw(t, "s")
		got, err := p.Steps[0].Resolve(world{inputs: map[string]any{"a": s}})
		if err != nil || got["whole"] != s || got["part"] != "<"+s+"|"+s+">" || got["k"] != "v" || len(got) != 3 {
			t.Fatalf("%q became %v, %v", s, got, err)
		}
	})
}

// FuzzParse: what is accepted prints as a plan that reads the same, and every
// refusal has a number of plans.
func FuzzParse(f *testing.F) {
	f.Add([]byte(full))
	for _, s := range []string{`{"steps":[{"tool":"t"}]}`, "steps: [{tool: t, args: &a {x: *a}}]", "steps:\n- tool: t\n  args: {? a : b}\n", "%YAML 1.2\n---\nsteps: [{tool: t}]", "steps: [{tool: t, if: \"!(1 < 2) || 'a' == inputs.b['c'][0]\"}]"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		p, err := plan.Parse("p", src)
		if err != nil {
			if c := fault.CodeOf(err); c != fault.PlanInvalid && c != fault.PlanReference {
				t.Fatalf("code %v: %v", c, err)
			}
			return
		}
		q, err := plan.Parse("q", p.Print())
		if err != nil {
			t.Fatalf("%v\n%s", err, p.Print())
		}
		if d := same(p, q); d != "" {
			t.Fatalf("%s\n%s", d, p.Print())
		}
	})
}

// FuzzCondition: a condition that is accepted always ends with a verdict or a
// fault.PlanReference, the same one each time, and its negation with the
// opposite.
func FuzzCondition(f *testing.F) {
	for _, s := range []string{"inputs.n > 2 && !failure()", "steps.a.output.entries[0].path == '/a'", "1 < 2", "always() || (null)", "${{ inputs.o['a k'] }}", "-1.5e3 >= inputs.n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cond string) {
		if len(cond) > 1000 || strings.Contains(cond, "\ufffd") {
			return
		}
		s, err := stepWith(t, `"if":%`, cond)
		if err != nil {
			return
		}
		for _, st := range []plan.State{{Success: true}, {Failure: true}} {
			a, errA := s.Condition(testWorld(), st)
			b, errB := s.Condition(testWorld(), st)
			if a != b || (errA == nil) != (errB == nil) || errA != nil && fault.CodeOf(errA) != fault.PlanReference {
				t.Fatalf("%q: %v, %v then %v, %v", cond, a, errA, b, errB)
			}
			n, err := stepWith(t, `"if":%`, "always() && !("+cond+")")
			if err != nil || errA != nil || !st.Success {
				continue // nested too deep by the parentheses, or no verdict
			}
			if c, err := n.Condition(testWorld(), st); err != nil || c == a {
				t.Fatalf("%q gives %v and its negation %v, %v", cond, a, c, err)
			}
		}
	})
}

func testdata(t *testing.T, path ...string) []byte {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	b, err := os.ReadFile(filepath.Join(append([]string{dir}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestYAMLSuite gives the YAML test suite's documents to Parse, as they are and
// as the value of an argument.
func TestYAMLSuite(t *testing.T) {
	n, read := 0, 0
	for line := range strings.Lines(string(testdata(t, "schema", "yaml_test_suite.jsonl"))) {
		var c struct {
			Name, YAML string
			MustFail   bool `json:"must_fail"`
		}
		if err := json.Unmarshal([]byte(line), &c); err != nil {
			t.Fatal(err)
		}
		n++
		if _, err := plan.Parse("p", []byte(c.YAML)); err == nil {
			t.Errorf("%s: is no plan, and was accepted", c.Name)
		}
		src := "steps:\n- tool: t\n  args:\n    v:\n" + "      " + strings.ReplaceAll(strings.TrimSuffix(c.YAML, "\n"), "\n", "\n      ") + "\n"
		p, err := plan.Parse("p", []byte(src))
		if err != nil {
			continue
		}
		read++
		q, err := plan.Parse("q", p.Print())
		if err != nil {
			t.Errorf("%s: %v", c.Name, err)
		} else if d := same(p, q); d != "" {
			t.Errorf("%s: %s", c.Name, d)
		}
	}
	t.Logf("%d documents, %d could be read as an argument", n, read)
}

type anyTool struct{}

func (anyTool) Spec(id tool.ID) (*tool.Spec, bool) {
	return &tool.Spec{ID: id, Input: []byte(`{}`)}, true
}
func (anyTool) Validate(tool.ID, tool.Args) error { return nil }
func (anyTool) Suggest(string) string             { return "" }

// TestLoad reads, checks and prints the plans of a public benchmark's tasks.
func TestLoad(t *testing.T) {
	var file struct {
		Tasks []struct {
			Calls []struct {
				Tool string          `json:"tool"`
				Args json.RawMessage `json:"args"`
			}
		}
	}
	if err := json.Unmarshal(testdata(t, "perf", "tau2_plans.json"), &file); err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, task := range file.Tasks {
		if len(task.Calls) == 0 {
			continue
		}
		src, err := json.Marshal(map[string]any{"steps": task.Calls})
		if err != nil {
			t.Fatal(err)
		}
		p, err := plan.Parse("p.json", src)
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Check(anyTool{}); err != nil {
			t.Fatal(err)
		}
		if d := same(p, mustParse(t, string(p.Print()))); d != "" {
			t.Fatal(d)
		}
		calls += len(p.Steps)
	}
	t.Logf("%d calls", calls)
}
