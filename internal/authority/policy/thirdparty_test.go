package policy_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

func thirdParty(t *testing.T, file string, into any) {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	b, err := os.ReadFile(filepath.Join(dir, file))
	if err != nil {
		t.Fatal(err)
	}
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(into); err != nil {
		t.Fatal(err)
	}
}

type capsuleTool struct {
	Paths   []string `json:"allow_paths"`
	Denied  []string `json:"deny_paths"`
	Hidden  *bool    `json:"allow_hidden"`
	Domains []string `json:"allow_domains"`
	Execs   []string `json:"allow_executables"`
	Tokens  []string `json:"deny_tokens"`
}

// capsule writes a Capsule policy as one of ours. Its deny_tokens search the
// text of the whole command line; ours are words.
func capsule(tools map[string]capsuleTool) string {
	var b strings.Builder
	b.WriteString("files: {")
	for _, kind := range []string{"read", "write"} {
		c, ok := tools["fs."+kind]
		if !ok {
			continue
		}
		allow, deny := []string{}, []string{}
		for _, p := range c.Paths {
			allow = append(allow, relative(p))
		}
		for _, p := range c.Denied {
			deny = append(deny, relative(p))
		}
		if c.Hidden == nil || !*c.Hidden {
			deny = append(deny, "**/.*", "**/.*/**")
		}
		fmt.Fprintf(&b, "%s: {allow: %s, deny: %s}, ", kind, quoted(allow), quoted(deny))
	}
	b.WriteString("}\n")
	fmt.Fprintf(&b, "network: {allow: %s}\n", quoted(tools["http.get"].Domains))
	sh := tools["shell.run"]
	allow, deny := []string{}, []string{}
	for _, e := range sh.Execs {
		allow = append(allow, e+" **")
	}
	for _, tok := range sh.Tokens {
		words := strings.Fields(tok)
		for i, w := range words {
			words[i] = strings.NewReplacer(">", "\\>").Replace(w)
			if strings.ContainsAny(w, ">|;&") {
				words[i] = "'" + w + "'"
			}
		}
		deny = append(deny, "** "+strings.Join(words, " ")+" **")
	}
	fmt.Fprintf(&b, "commands: {allow: %s, deny: %s}\n", quoted(allow), quoted(deny))
	return b.String()
}

func relative(p string) string {
	return strings.TrimPrefix(strings.TrimPrefix(p, "./"), "$W/")
}

func capsuleCall(name string, args map[string]any) policy.Call {
	call := policy.Call{Tool: &tool.Spec{ID: tool.ID(name), Source: "builtin"}}
	file := func(kind tool.ActionKind) {
		p, _ := args["path"].(string)
		p = strings.Replace(p, "$W", "/ws", 1)
		if !strings.HasPrefix(p, "/") {
			p = "/ws/" + p
		}
		call.Actions = []tool.Action{{Kind: kind, Path: path.Clean(p)}}
	}
	switch name {
	case "fs.read":
		file(tool.FileRead)
	case "fs.write":
		file(tool.FileWrite)
	case "http.get":
		u, _ := args["url"].(string)
		tg, err := target.Parse("GET", u)
		a := tool.Action{Kind: tool.Network, Target: tg}
		if err != nil {
			a.Unknown = err.Error()
		}
		call.Actions = []tool.Action{a}
	case "shell.run":
		list, _ := args["cmd"].([]any)
		a := tool.Action{Kind: tool.Command, Dir: "/ws"}
		for _, w := range list {
			a.Argv = append(a.Argv, fmt.Sprint(w))
		}
		call.Actions = []tool.Action{a}
	default:
		call.Tool.Source = "unknown"
	}
	return call
}

// capsuleDifference says why we refuse what Capsule allows; "": we agree.
func capsuleDifference(pol, plan, toolID string) string {
	if pol == "strict" && plan == "create_notes" && toolID == "fs.read" {
		return "./*.txt: its * crosses slashes, ours stays in the folder"
	}
	return ""
}

func TestCapsuleMatrix(t *testing.T) {
	var f struct {
		Policies map[string]struct{ Tools map[string]capsuleTool }
		Matrix   []struct {
			Policy, Plan string
			Decisions    []struct {
				Tool    string
				Args    map[string]any
				Allowed bool
				Reason  string
			}
		}
	}
	thirdParty(t, "policy/capsule_matrix.json", &f)
	n := 0
	for _, m := range f.Matrix {
		src := capsule(f.Policies[m.Policy].Tools)
		p, err := policy.Parse("capsule.yaml", []byte("version: 1\n"+src))
		if err != nil {
			t.Fatal(err)
		}
		// Capsule ran in a folder beneath /tmp, which one policy allows as a whole.
		r, err := p.Bind(policy.Env{Workspace: "/tmp/ws", Path: env.Path})
		if err != nil {
			t.Fatal(err)
		}
		c := policy.Chain{r}
		for _, d := range m.Decisions {
			n++
			call := capsuleCall(d.Tool, d.Args)
			for i, a := range call.Actions {
				if rel, ok := strings.CutPrefix(a.Path, "/ws/"); ok {
					call.Actions[i].Path = "/tmp/ws/" + rel
				}
			}
			got := c.Decide(call)
			if reason := capsuleDifference(m.Policy, m.Plan, d.Tool); reason != "" {
				if got.Effect != policy.Deny || !d.Allowed {
					t.Errorf("%s, %s: %s: no longer different, or not stricter: %s", m.Policy, m.Plan, d.Tool, reason)
				}
				continue
			}
			if (got.Effect == policy.Allow) != d.Allowed {
				t.Errorf("%s, %s: %s %v: %v (%s), Capsule %v (%s)", m.Policy, m.Plan, d.Tool, d.Args, got.Effect, got.Reason, d.Allowed, d.Reason)
			}
		}
	}
	t.Logf("%d decisions", n)
}

func TestCapsuleSecurityCases(t *testing.T) {
	var f struct {
		Cases []struct {
			ID, Group, Tool, Expect string
			Args                    map[string]any
			Policy                  map[string]json.RawMessage
		}
	}
	thirdParty(t, "policy/capsule_security_cases.json", &f)
	pure := []string{"path", "deny_precedence", "quota", "unknown", "exec_allow", "write"}
	n := 0
	for _, c := range f.Cases {
		if c.Group == "quota" {
			n++
			src := fmt.Sprintf("limits: {calls_per_tool: %s}", c.Policy["max_calls_per_tool"])
			if l := chain(t, src).Limits(); l.CallsPerTool != 2 {
				t.Errorf("%s: %+v", c.ID, l)
			}
			continue
		}
		if !slices.Contains(pure, c.Group) || c.Expect != "allow" && c.Expect != "deny" {
			continue
		}
		n++
		tools := map[string]capsuleTool{}
		for name, raw := range c.Policy {
			var ct capsuleTool
			if strings.Contains(name, ".") {
				if err := json.Unmarshal(raw, &ct); err != nil {
					t.Fatalf("%s: %v", c.ID, err)
				}
			}
			tools[name] = ct
		}
		if d := chain(t, capsule(tools)).Decide(capsuleCall(c.Tool, c.Args)); d.Effect.String() != c.Expect {
			t.Errorf("%s (%s): %s %v: %v (%s), want %s", c.ID, c.Group, c.Tool, c.Args, d.Effect, d.Reason, c.Expect)
		}
	}
	t.Logf("%d cases", n)
}

type dojoPolicy struct {
	Allow []struct {
		Tool string
		Any  []map[string]any `json:"args_any_of"`
	}
}

// remit writes a policy of the sample as one of ours: an entry for each
// alternative. exact closes the arguments, the others constrain the named ones.
func (p dojoPolicy) remit(closed bool) string {
	var b strings.Builder
	b.WriteString("tools:\n  allow:\n")
	for _, a := range p.Allow {
		if a.Any == nil {
			fmt.Fprintf(&b, "    - %q\n", a.Tool)
		}
		for _, args := range a.Any {
			fmt.Fprintf(&b, "    - tool: %q\n      args: {", a.Tool)
			for k, v := range args {
				js, _ := json.Marshal(v) // what was decoded from JSON encodes
				fmt.Fprintf(&b, "%q: {equals: %s}, ", k, js)
			}
			b.WriteString("}\n")
			if !closed {
				b.WriteString("      others: allow\n")
			}
		}
	}
	return b.String()
}

type dojoCall struct {
	Step int
	Tool string
	Args map[string]any
}

type dojoVerdict struct {
	Denied []int `json:"injection_calls_denied"`
}

type dojoSuite struct {
	Tools []struct {
		Name, Effect string
		Input        json.RawMessage `json:"input_schema"`
	}
	UserTasks  []dojoTask      `json:"user_tasks"`
	Injections []dojoInjection `json:"injection_tasks"`
}

type dojoTask struct {
	ID, Prompt string
	Output     string     `json:"ground_truth_output"`
	First      int        `json:"first_untrusted_step"`
	Calls      []dojoCall `json:"ground_truth_calls"`
	Exact      dojoPolicy `json:"policy_exact"`
	Least      dojoPolicy `json:"policy_least_privilege"`
	Only       dojoPolicy `json:"policy_tool_only"`
}

type dojoInjection struct {
	ID, Goal string
	Calls    []dojoCall `json:"ground_truth_calls"`
}

func (s dojoSuite) task(id string) dojoTask {
	return s.UserTasks[slices.IndexFunc(s.UserTasks, func(u dojoTask) bool { return u.ID == id })]
}

func (s dojoSuite) injection(id string) dojoInjection {
	return s.Injections[slices.IndexFunc(s.Injections, func(in dojoInjection) bool { return in.ID == id })]
}

type dojoSample struct {
	Suites map[string]dojoSuite
	Pairs  []struct {
		Suite, Kind string
		User        string      `json:"user_task"`
		Injection   string      `json:"injection_task"`
		Only        dojoVerdict `json:"policy_tool_only"`
		Least       dojoVerdict `json:"policy_least_privilege"`
		Exact       dojoVerdict `json:"policy_exact"`
	}
}

func TestAgentDojoSample(t *testing.T) {
	var f dojoSample
	thirdParty(t, "agents/agentdojo_dev_sample.json", &f)
	allowed := func(c policy.Chain, call dojoCall) bool {
		return c.Decide(policy.Call{Tool: &tool.Spec{ID: tool.ID(call.Tool), Source: "mcp"}, Args: call.Args}).Effect == policy.Allow
	}
	chains := map[string][3]policy.Chain{}
	benign := 0
	for suite, s := range f.Suites {
		for _, u := range s.UserTasks {
			cs := [3]policy.Chain{chain(t, u.Only.remit(false)), chain(t, u.Least.remit(false)), chain(t, u.Exact.remit(true))}
			chains[suite+"/"+u.ID] = cs
			for _, call := range u.Calls {
				for i, c := range cs {
					benign++
					if !allowed(c, call) {
						t.Errorf("%s %s: policy %d denies %s %v", suite, u.ID, i, call.Tool, call.Args)
					}
				}
			}
		}
	}
	injected := 0
	for _, p := range f.Pairs {
		for _, in := range f.Suites[p.Suite].Injections {
			if in.ID != p.Injection {
				continue
			}
			for i, want := range []dojoVerdict{p.Only, p.Least, p.Exact} {
				for _, call := range in.Calls {
					injected++
					if got := !allowed(chains[p.Suite+"/"+p.User][i], call); got != slices.Contains(want.Denied, call.Step) {
						t.Errorf("%s %s + %s, policy %d: %s %v denied: %v", p.Suite, p.User, p.Injection, i, call.Tool, call.Args, got)
					}
				}
			}
		}
	}
	t.Logf("%d benign and %d injected calls", benign, injected)
}
