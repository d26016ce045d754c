package policy

import "go.yaml.in/yaml/v4"

// MCP says what the MCP servers that a call uses may ask of the client that makes
// it, while it runs. The zero MCP lets them ask nothing.
type MCP struct {
	Elicitation bool // the person at the client
	Sampling    bool // the client's model
	Roots       bool // which folders the client works in
}

// MCP is what every policy of the chain lets servers ask. One that says nothing of
// it lets them ask nothing, unless it leaves what it does not mention to the
// others.
func (c Chain) MCP() MCP {
	out, said := MCP{true, true, true}, MCP{}
	for _, r := range c {
		if r == nil || r.policy == nil {
			return MCP{}
		}
		d := r.policy.document()
		for _, m := range []struct {
			word      string
			out, said *bool
		}{
			{d.asking.elicitation, &out.Elicitation, &said.Elicitation},
			{d.asking.sampling, &out.Sampling, &said.Sampling},
			{d.asking.roots, &out.Roots, &said.Roots},
		} {
			if m.word == "" && d.inherit {
				continue
			}
			*m.out = *m.out && m.word == "ask"
			*m.said = true
		}
	}
	return MCP{out.Elicitation && said.Elicitation, out.Sampling && said.Sampling, out.Roots && said.Roots}
}

// mcpAsking is the section as written: "", "ask" or "deny" each.
type mcpAsking struct{ elicitation, sampling, roots string }

func (m MCP) asking() mcpAsking {
	word := map[bool]string{true: "ask"}
	return mcpAsking{word[m.Elicitation], word[m.Sampling], word[m.Roots]}
}

func (p *parser) asking(d *document) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		p.mapping(n, field, keys{
			"elicitation": p.oneOf(&d.asking.elicitation, "ask", "deny"),
			"sampling":    p.oneOf(&d.asking.sampling, "ask", "deny"),
			"roots":       p.oneOf(&d.asking.roots, "ask", "deny"),
		})
	}
}
