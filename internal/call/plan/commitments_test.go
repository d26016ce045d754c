package plan_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/call/plan"
)

const committed = `
inputs: {target: {default: test}}
steps:
  - {id: one, tool: fs.read, args: {path: a}}
  - {id: two, tool: fs.read, args: {path: b}, needs: one}
  - {id: three, tool: fs.read, args: {path: c}}
commitments:
  - {run: [make, "${{ inputs.target }}"], cwd: src, exit: 2}
  - file: ${{ steps.two.output.path }}
  - {json: report.json, equals: {/failed: 0, "/a b": {c: [true, null]}}}
`

func TestCommitmentsAreSteps(t *testing.T) {
	p, err := plan.Parse("p.yaml", []byte(committed))
	if err != nil {
		t.Fatal(err)
	}
	want := []struct {
		id   string
		tool string
		deps []int
	}{{"commitment-1", "shell.run", []int{2, 3}}, {"commitment-2", "fs.stat", []int{2, 4}}, {"commitment-3", "fs.read", []int{5}}}
	if len(p.Steps) != 6 {
		t.Fatalf("%d steps", len(p.Steps))
	}
	for i, w := range want {
		s := p.Steps[3+i]
		if s.ID != w.id || string(s.Tool) != w.tool || !equalInts(s.Deps(), w.deps) || s.Commitment == nil || s.OnError != plan.Continue {
			t.Errorf("got %+v (waits for %v), want %v", s, s.Deps(), w)
		}
	}
	again, err := plan.Parse("p.yaml", p.Print())
	if err != nil {
		t.Fatalf("%v\n%s", err, p.Print())
	}
	if string(again.Print()) != string(p.Print()) || len(again.Steps) != 6 {
		t.Errorf("printed\n%s\nthen\n%s", p.Print(), again.Print())
	}
}

func equalInts(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

func TestInvalidCommitments(t *testing.T) {
	for src, want := range map[string]string{
		"commitments: 1":                                          "p.yaml:3:14: commitments: must be a list",
		"commitments: [{}]":                                       "commitments[0]: expected exactly one of run, file and json",
		"commitments: [{file: a, json: b}]":                       "exactly one",
		"commitments: [{run: [], exit: 1}]":                       "exactly one",
		"commitments: [{run: make}]":                              "commitments[0].run: must be a list",
		"commitments: [{run: [make], exit: 256}]":                 "commitments[0].exit",
		"commitments: [{files: a}]":                               `unknown key "files"`,
		"commitments: [{file: '${{ steps.x.output.path }}'}]":     `no step has the id "x"`,
		"commitments: [{json: a, equals: {b: 1}}]":                "JSON pointer",
		"commitments: [" + strings.Repeat("{file: a},", 21) + "]": "21 elements",
	} {
		_, err := plan.Parse("p.yaml", []byte("steps:\n  - {id: s, tool: fs.read, args: {path: a}}\n"+src))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.60s: got %v, want %q", src, err, want)
		}
	}
	_, err := plan.Parse("p.yaml", []byte("steps: [{id: commitment-1, tool: fs.read}]\ncommitments: [{file: a}]"))
	if err == nil || !strings.Contains(err.Error(), `step 1 has the id "commitment-1" of this commitment`) {
		t.Errorf("got %v", err)
	}
}
