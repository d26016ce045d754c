package policy

// MCP lists the requests that MCP servers may send to the client of a running call.
// The zero MCP permits none.
type MCP struct {
	Elicitation bool // the person at the client
	Sampling    bool // the client's model
	Roots       bool // which folders the client works in
}

// MCP returns the requests that every policy of the chain permits. A policy without
// the section permits none, unless it says rest: inherit.
func (c Chain) MCP() MCP {
	out, said := MCP{true, true, true}, MCP{}
	for _, r := range c {
		if r == nil || r.policy == nil {
			return MCP{}
		}
		d := r.policy.content()
		for _, m := range []struct {
			word      string
			out, said *bool
		}{
			{d.mcp.elicitation, &out.Elicitation, &said.Elicitation},
			{d.mcp.sampling, &out.Sampling, &said.Sampling},
			{d.mcp.roots, &out.Roots, &said.Roots},
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

// mcpSettings is the section as written: "", "ask" or "deny" each.
type mcpSettings struct{ elicitation, sampling, roots string }

func (m MCP) settings() mcpSettings {
	word := map[bool]string{true: "ask"}
	return mcpSettings{word[m.Elicitation], word[m.Sampling], word[m.Roots]}
}

func (s *mcpSettings) setting() setting {
	return mapping("mcp", choice("elicitation", &s.elicitation, "ask", "deny"), choice("sampling", &s.sampling, "ask", "deny"),
		choice("roots", &s.roots, "ask", "deny"))
}
