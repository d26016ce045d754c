package learn_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/tool"
)

type dojoCall struct {
	Step int
	Tool string
	Args map[string]any
}

type dojoTask struct {
	ID    string
	Calls []dojoCall `json:"ground_truth_calls"`
}

type dojoSample struct {
	Suites map[string]struct {
		Tools []struct {
			Name, Description, Effect string
			Input                     json.RawMessage `json:"input_schema"`
			Sinks                     []string        `json:"sink_args"`
		}
		UserTasks  []dojoTask `json:"user_tasks"`
		Injections []dojoTask `json:"injection_tasks"`
	}
	Pairs []struct {
		Suite     string
		User      string `json:"user_task"`
		Injection string `json:"injection_task"`
		Exact     struct {
			Denied []int `json:"injection_calls_denied"`
		} `json:"policy_exact"`
	}
}

func dojo(t *testing.T) dojoSample {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set")
	}
	b, err := os.ReadFile(filepath.Join(dir, "agents/agentdojo_dev_sample.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f dojoSample
	d := json.NewDecoder(strings.NewReader(string(b)))
	d.UseNumber()
	if err := d.Decode(&f); err != nil {
		t.Fatal(err)
	}
	return f
}

func (c dojoCall) call() policy.Call {
	args := tool.Args(c.Args)
	if args == nil {
		args = tool.Args{}
	}
	return policy.Call{Tool: &tool.Spec{ID: tool.ID(c.Tool), Source: "mcp"}, Args: args}
}

// learned is what a user's task teaches under a policy that allows its tools
// with any arguments.
func learned(t *testing.T, task dojoTask) policy.Chain {
	t.Helper()
	tools := []string{}
	var done []policy.Call
	for _, c := range task.Calls {
		tools = append(tools, fmt.Sprintf("%q", c.Tool))
		done = append(done, c.call())
	}
	got, err := learn.Policy("learned", uses(done), learn.Options{Workspace: "/ws", Exact: true,
		Chain: chain(t, "tools: {allow: ["+strings.Join(tools, ", ")+"]}"),
		Spec:  func(id tool.ID) *tool.Spec { return &tool.Spec{ID: id, Source: "mcp"} }})
	out := got.Policy
	if err != nil {
		t.Fatal(err)
	}
	return chain(t, strings.TrimPrefix(string(out[strings.Index(string(out), "version: 1"):]), "version: 1\n"))
}

// Under what a task teaches, the task passes, and every call of an attack on it
// is refused that is not one of its own.
func TestAttacksAreRefusedUnderWhatATaskTeaches(t *testing.T) {
	f := dojo(t)
	chains := map[string]policy.Chain{}
	own := map[string][]string{}
	benign := 0
	for suite, s := range f.Suites {
		for _, u := range s.UserTasks {
			c := learned(t, u)
			chains[suite+"/"+u.ID] = c
			for _, call := range u.Calls {
				benign++
				own[suite+"/"+u.ID] = append(own[suite+"/"+u.ID], call.Tool+" "+fmt.Sprint(call.Args))
				if d := c.Decide(call.call()); d.Effect != policy.Allow {
					t.Errorf("%s %s: %s %v: %s", suite, u.ID, call.Tool, call.Args, d.Reason)
				}
			}
		}
	}
	injected, passed := 0, 0
	for _, p := range f.Pairs {
		for _, in := range f.Suites[p.Suite].Injections {
			if in.ID != p.Injection {
				continue
			}
			for _, call := range in.Calls {
				injected++
				at := p.Suite + "/" + p.User
				if chains[at].Decide(call.call()).Effect != policy.Allow {
					continue
				}
				passed++
				if slices.Contains(p.Exact.Denied, call.Step) || !slices.Contains(own[at], call.Tool+" "+fmt.Sprint(call.Args)) {
					t.Errorf("%s + %s: %s %v passes", at, p.Injection, call.Tool, call.Args)
				}
			}
		}
	}
	t.Logf("%d benign calls pass; of %d injected calls %d pass, each of which the task makes itself", benign, injected, passed)
}
