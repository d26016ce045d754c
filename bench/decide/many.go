package decide

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// maxEntries is how many entries of [Many] one policy has: more are a further policy
// of the chain, which repeats the last entries.
const maxEntries = 2500

// Many gives a chain with so many entries, shared out among four sections, and calls
// that the last entry of a section allows in each policy.
func Many(entries int) (policy.Chain, []policy.Call, error) {
	var chain policy.Chain
	for left := entries; left > 0; left -= maxEntries {
		p, err := policy.Parse("many.yaml", many(min(left, maxEntries)/4))
		if err != nil {
			return nil, nil, err
		}
		r, err := p.Bind(policy.Env{Workspace: "/w", Path: []string{"/usr/bin"}})
		if err != nil {
			return nil, nil, err
		}
		chain = append(chain, r)
	}
	spec := func(id tool.ID) *tool.Spec { return &tool.Spec{ID: id, Source: "builtin"} }
	calls := []policy.Call{
		{Tool: spec("fs.read"), Actions: []tool.Action{{Kind: tool.FileRead, Path: "/w/src/last/main.go", Real: "/w/src/last/main.go"}}},
		{Tool: spec("http.get"), Actions: []tool.Action{{Kind: tool.Network, Target: get("last.example.com", "/v1/items")}}},
		{Tool: spec("shell.run"), Actions: []tool.Action{{Kind: tool.Command, Dir: "/w", Argv: []string{"last", "test"}}}},
		{Tool: spec("mcp:last:get")},
	}
	for _, c := range calls {
		if d := chain.Decide(c); d.Effect != policy.Allow {
			return nil, nil, fmt.Errorf("%s under %d entries: %s", c.Tool.ID, entries, d.Reason)
		}
	}
	return chain, calls, nil
}

// many is a policy with so many entries in each of four sections.
func many(each int) []byte {
	var b strings.Builder
	list := func(head, format string) {
		b.WriteString(head)
		for i := range each - 1 {
			fmt.Fprintf(&b, "    - "+format+"\n", fmt.Sprint("n", i))
		}
		fmt.Fprintf(&b, "    - "+format+"\n", "last")
	}
	b.WriteString("version: 1\n")
	list("files:\n  read:\n   allow:\n", `"src/%s/**"`)
	list("network:\n  allow:\n", "%s.example.com")
	list("commands:\n  allow:\n", `"%s **"`)
	list("tools:\n  allow:\n    - fs.*\n    - http.*\n    - shell.*\n", `"mcp:%s:*"`)
	return []byte(b.String())
}
