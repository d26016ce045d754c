package policy_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// allocated is how many bytes f allocates, freed or not.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// filled is a policy of about size bytes: head, then unit again and again (%d is its
// number), then tail.
func filled(size int, head, unit, tail string) string {
	var b strings.Builder
	b.WriteString("version: 1\n" + head)
	for i := 0; b.Len()+len(unit)+len(tail)+8 < size; i++ {
		if strings.Contains(unit, "%d") {
			fmt.Fprintf(&b, unit, i)
		} else {
			b.WriteString(unit)
		}
	}
	return b.String() + tail
}

// hostilePolicies are policies of about size bytes that are built to cost much.
func hostilePolicies(size int) map[string]string {
	args := func(constraint string) string {
		return "tools: {allow: [{tool: a, args: {x: {" + constraint
	}
	return map[string]string{
		"entries of tools":            filled(size, "tools: {allow: [", "a,", "a]}"),
		"entries of paths":            filled(size, "files: {read: {deny: [", "a,", "a]}}"),
		"long patterns":               filled(size, "files: {read: {deny: [", "'"+strings.Repeat("?/", 60)+"?',", "a]}}"),
		"braces":                      filled(size, "files: {read: {deny: [", `"{,a}{,b}{,c}{,d}{,e}{,f}{,g}{,h}z",`, "a]}}"),
		"braces before much":          filled(size, "files: {read: {deny: [", `"{,a}{,b}{,c}{,d}{,e}{,f}`+strings.Repeat("?", 150)+`",`, "a]}}"),
		"braces in arguments":         filled(size, args("each: a}, z: {glob: x"), `}, a%d: {glob: "{,a}{,b}{,c}{,d}{,e}{,f}{,g}?"`, "}}}]}"),
		"entries of networks":         filled(size, "network: {allow: [", "a.b,", "a.b]}"),
		"entries of commands":         filled(size, "commands: {allow: [", "a,", "a]}"),
		"words of commands":           filled(size, "commands: {deny: [", "a a a a a a a a a a a a a a a a*a*a*a*a*a,", "a]}"),
		"values":                      filled(size, args("one_of: ["), "1,", "1]}}}]}"),
		"mappings as values":          filled(size, args("one_of: ["), "{a: 1},", "1]}}}]}"),
		"arguments":                   filled(size, "tools: {allow: [{tool: a, args: {", "x%d: {},", "x: {}}}]}"),
		"nested arguments":            filled(size, "tools: {allow: [{tool: a, args: {", "x%d.a.a.a.a.a.a.a.a.a.a.a: {},", "x: {}}}]}"),
		"roles":                       filled(size, "roles: {", "u%d: {},", "x: {}}"),
		"unknown keys":                filled(size, "", "u%d: 1\n", ""),
		"empty keys and values":       filled(size, "tools: {allow: [{tool: a, args: {", ":,", "x: {}}}]}"),
		"expressions that repeat":     filled(size, "tools: {allow: [", `{tool: a, args: {x: {regex: "(xy?){300}"}}},`, "a]}"),
		"one expression that repeats": filled(size, args("regex: '"), "x{1000}", "'}}}]}"),
		"repeated repetitions":        filled(size, args("regex: '"), "((((x{2}){5}){4}){5}){5}", "'}}}]}"),
		"classes":                     filled(size, args("regex: '"), `\pL`, "'}}}]}"),
		"classes in brackets":         filled(size, args("regex: '"), `[^\pL\pN]`, "'}}}]}"),
		"classes without case":        filled(size, args("regex: '(?i)"), `[A-\x{1e942}]`, "'}}}]}"),
	}
}

// Whatever a policy of 64 KiB holds, reading it, binding it and deciding under it
// takes at most 16 MiB, garbage included.
func TestAPolicyTakesBoundedMemory(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	accepted := 0
	for _, size := range []int{1 << 10, 4 << 10, 8 << 10, 16 << 10, 24 << 10, 32 << 10, 64 << 10} {
		for name, src := range hostilePolicies(size) {
			n, err := uses(src)
			if err == nil {
				accepted++
			}
			if n > 16<<20 {
				t.Errorf("%s: a policy of %d bytes took %d bytes of memory: %v", name, len(src), n, err)
			}
			t.Logf("%-20s %d %.1f %.80v", name, size, float64(n)/1e6, err)
		}
	}
	if accepted < 20 {
		t.Errorf("only %d of the policies were accepted", accepted)
	}
}

// A policy that has as much as it may have of everything is accepted, and bounded.
func TestTheLargestPolicyTakesBoundedMemory(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	src := "version: 1\ntools: {allow: [b" + strings.Repeat(", {tool: a, args: {x: {regex: '(ab){300}'}}}", 12) + strings.Repeat(", c", policy.MaxParts-400) + "]}"
	n, err := uses(src)
	if err != nil || n > 16<<20 {
		t.Errorf("%d bytes of memory: %v", n, err)
	}
}

// uses is how much memory it takes to read, bind and use a policy.
func uses(src string) (n uint64, err error) {
	return allocated(func() {
		var p *policy.Policy
		if p, err = policy.Parse("p.yaml", []byte(src)); err != nil {
			return
		}
		var r *policy.Rules
		if r, err = p.Bind(policy.Env{Workspace: "/ws", Home: "/home/u", State: "/home/u/.remit"}); err != nil {
			return
		}
		policy.Chain{r}.Decide(policy.Call{Tool: &tool.Spec{ID: "a"}, Args: tool.Args{"x": strings.Repeat("x", 1000)}})
	}), err
}

// What is too large is refused with a reason, and nothing else is complained of.
func TestPoliciesThatAreTooLarge(t *testing.T) {
	for name, c := range map[string]struct {
		size int
		want string
	}{
		"entries of tools": {64 << 10, "characters"}, "braces": {16 << 10, "parts"}, "nested arguments": {64 << 10, "parts"},
		"one expression that repeats": {16 << 10, "instructions"}, "classes": {64 << 10, "instructions"},
	} {
		_, err := policy.Parse("p.yaml", []byte(hostilePolicies(c.size)[name]))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want a problem with %q", name, err, c.want)
		}
	}
}

// Policies whose expressions are small enough each, and too large together, deny.
func TestAChainOfLargeExpressionsDenies(t *testing.T) {
	const one = "rest: inherit\ntools: {allow: [{tool: 't', args: {x: {regex: '(ab){9}|x'}}}, {tool: u, args: {x: {regex: '(abcdefgh){900}'}}}]}"
	call := policy.Call{Tool: &tool.Spec{ID: "t"}, Args: tool.Args{"x": "x"}}
	var c policy.Chain
	for c == nil || c.Decide(call).Effect == policy.Allow {
		if c = append(c, rules(t, one)); len(c) > 100 {
			t.Fatal("a chain of 100 such policies allows still")
		}
	}
	if len(c) < 3 {
		t.Errorf("a chain of %d such policies denies already", len(c))
	}
	if d := c.Decide(call); d.Effect != policy.Deny || !strings.Contains(d.Reason, "regular expressions") {
		t.Errorf("%v: %s", d.Effect, d.Reason)
	}
}
