package policy_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// labelled is a reading of a file that was given labels.
func labelled(a tool.Action, labels ...string) tool.Action {
	a.Labels = labels
	return a
}

func holding(a tool.Action, labels ...string) tool.Action {
	a.Below = labels
	return a
}

const filePolicy = `labels: {private: {from: ["files private/**"], kind: confidential}, web: {from: ["tools mcp:web:*"]}}
flows: {private: {only: ["network api.acme.com", "files private/**"]}}
`

func TestRecordedLabels(t *testing.T) {
	_, f := flows(t, everything+filePolicy)
	script := run("sh", "-c", "make")
	around := func(call policy.Call, labels ...string) policy.Call {
		call.Recorded.Around = labels
		return call
	}
	typed := builtin(tool.Action{Kind: tool.Command, Argv: []string{"cat", "/ws/copy"}, Dir: "/ws", Typed: true})
	typed.Recorded.Typed = map[string][]string{"/ws/copy": {"private"}}
	tests := map[string]struct {
		call                policy.Call
		named, holds, given string
	}{
		"a file without labels":           {builtin(read("a")), "[]", "[]", "[]"},
		"a file that was given one":       {builtin(labelled(read("a"), "web")), "[web]", "[]", "[web]"},
		"of a compartment":                {builtin(labelled(read("a"), "private")), "[private]", "[private]", "[private]"},
		"an unknown label":                {builtin(labelled(read("a"), "other")), "[]", "[]", "[]"},
		"a folder with such a file":       {builtin(holding(read("a"), "web")), "[web]", "[]", "[web]"},
		"a folder with a withheld file":   {builtin(holding(read("a"), "private")), "[]", "[]", "[]"},
		"a write to it":                   {builtin(labelled(write("a"), "web")), "[web]", "[]", "[]"},
		"a command that may read it":      {around(builtin(script), "web"), "[]", "[]", "[web]"},
		"a command it is withheld from":   {around(builtin(script), "private"), "[]", "[]", "[]"},
		"a tool without processes":        {around(builtin(read("a")), "web"), "[]", "[]", "[]"},
		"a command that was typed":        {typed, "[private]", "[private]", "[private]"},
		"a file of two labels":            {builtin(labelled(read("a"), "private", "web")), "[private web]", "[private]", "[private web]"},
		"a file with a label by its path": {builtin(labelled(read("private/a"), "web")), "[private web]", "[private]", "[private web]"},
	}
	for name, tt := range tests {
		of := f.Of(tt.call, false)
		if got := [3]string{fmt.Sprint(f.Names(of.Named)), fmt.Sprint(f.Names(of.Holds)), fmt.Sprint(f.Names(of.Result))}; got != [3]string{tt.named, tt.holds, tt.given} {
			t.Errorf("%s: names, holds and gives %s; want %s %s %s", name, got, tt.named, tt.holds, tt.given)
		}
	}
}

// What was given a label is withheld from calls that do not name it, as files of its patterns are.
func TestRecordedFilesAreWithheld(t *testing.T) {
	_, f := flows(t, everything+flowPolicy)
	of := f.Of(builtin(read("a")), false)
	if got := f.Names(f.Withheld(0, of, false)); !slices.Equal(got, []string{"private"}) {
		t.Fatalf("withheld are %q", got)
	}
	if got := f.Names(f.Withheld(f.Set([]string{"private"}), of, false)); len(got) > 0 {
		t.Errorf("in its context, withheld are %q", got)
	}
	files := policy.LabelledFiles{Paths: []string{"/ws/copy [1].txt", "/ws/b"}, Folders: []string{"/ws/out"}}
	c, err := f.WithholdFiles(f.Narrow(0, of, false), "private", files)
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]policy.Effect{
		"copy [1].txt": policy.Deny, "b": policy.Deny, "out/x": policy.Deny, "out/deep/x": policy.Deny,
		"copy 1.txt": policy.Allow, "bb": policy.Allow, "outer": policy.Allow,
	} {
		for _, a := range []tool.Action{read(path), write(path)} {
			if got := c.DecideAction(a).Effect; got != want {
				t.Errorf("%s: %s, want %s", a, got, want)
			}
		}
	}
	if d := f.Narrow(0, of, false).DecideAction(read("b")); d.Effect != policy.Allow {
		t.Errorf("the chain of other calls has changed: %s", d.Reason)
	}
	if _, err := f.WithholdFiles(f.Narrow(0, of, false), "web", files); err == nil {
		t.Error("a label without a list withholds files")
	}
}

// Narrowing, and every label more that a file has, only adds labels to a call.
func TestRecordedLabelsOnlyAdd(t *testing.T) {
	r := rand.New(rand.NewPCG(4, 2)) //nolint:gosec // the same numbers each time
	names := []string{"private", "web"}
	some := func() (out []string) {
		for _, n := range names {
			if r.IntN(2) == 0 {
				out = append(out, n)
			}
		}
		return out
	}
	_, whole := flows(t, everything+flowPolicy)
	_, narrow := flows(t, everything+flowPolicy, everything+"labels: {web: {from: [\"files x*\"]}}\n")
	for range 2000 {
		var call policy.Call
		for range 1 + r.IntN(3) {
			a := []tool.Action{read("a"), write("b"), read("private/c"), run("ls")}[r.IntN(4)]
			a.Labels, a.Below = some(), some()
			call.Actions = append(call.Actions, a)
		}
		call.Tool, call.Recorded.Around = &tool.Spec{ID: "x.y", Source: "builtin"}, some()
		less := call
		less.Recorded.Around, less.Actions = nil, slices.Clone(call.Actions)
		for i := range less.Actions {
			less.Actions[i].Labels, less.Actions[i].Below = nil, nil
		}
		all, few, more := whole.Of(call, false), whole.Of(less, false), narrow.Of(call, false)
		if few.Result&^all.Result != 0 || few.Named&^all.Named != 0 || few.Holds&^all.Holds != 0 {
			t.Fatalf("recorded labels took some: %+v, without them %+v, of %+v", all, few, call)
		}
		for _, n := range whole.Names(all.Lineage(0)) {
			if !slices.Contains(narrow.Names(more.Lineage(0)), n) {
				t.Fatalf("narrowing lost the label %s of %+v", n, call)
			}
		}
	}
}
