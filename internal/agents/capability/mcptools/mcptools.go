// Package mcptools has the capability mcp: the tools of the MCP servers that an agent's
// configuration names. Start at [New].
package mcptools

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"regexp"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Capability is the capability mcp.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

var configSchema = typed.Object(`"servers":{"type":"array","minItems":1,"maxItems":50,"uniqueItems":true,"description":"The names of MCP servers, as remit mcp list shows them.",
		"items":{"type":"string","pattern":"^[A-Za-z0-9][A-Za-z0-9._@-]{0,99}$"}},
	"tools":{"type":"array","minItems":1,"maxItems":200,"description":"Which of their tools: names, in which * stands for anything; default all.","items":{"type":"string","minLength":1,"maxLength":200}}`, "servers")

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "mcp", Name: "MCP Servers", Description: "Tools of the MCP servers that the agent's configuration names.",
		Status: capability.Available, Icon: "plug", Category: "Integrations", Version: "1", Config: configSchema, Wants: []string{`tools "mcp:*"`}}
}

type config struct {
	Servers []string `json:"servers"`
	Tools   []string `json:"tools"`
}

// Part offers the tools that the servers have.
func (Capability) Part(s capability.Session, raw json.RawMessage) (capability.Part, error) {
	var conf config
	if raw == nil {
		return capability.Part{Warnings: []string{"its configuration names no servers, so it offers no tools"}}, nil
	}
	if err := json.Unmarshal(raw, &conf); err != nil {
		return capability.Part{}, fault.Wrap(fault.CapabilityInvalid, err, "the configuration cannot be read: %v", err)
	}
	if s.Match == nil {
		return capability.Part{}, nil
	}
	c := chooser{match: s.Match, names: map[string]bool{}, used: make([]bool, len(conf.Tools))}
	for _, p := range conf.Tools {
		c.wanted = append(c.wanted, pattern(p))
	}
	for _, server := range conf.Servers {
		c.server(server)
	}
	for i, used := range c.used {
		if !used {
			c.part.Warnings = append(c.part.Warnings, fmt.Sprintf("no tool of the servers matches %q", conf.Tools[i]))
		}
	}
	return c.part, nil
}

// pattern compiles a name in which * matches any text.
func pattern(p string) *regexp.Regexp {
	return regexp.MustCompile(`^` + strings.ReplaceAll(regexp.QuoteMeta(p), `\*`, `.*`) + `$`)
}

type chooser struct {
	match  func(pattern string) []tool.ID
	wanted []*regexp.Regexp // none: all
	used   []bool
	names  map[string]bool
	part   capability.Part
}

// server adds the tools of a server.
func (c *chooser) server(name string) {
	prefix := "mcp:" + name + ":"
	ids := c.match(prefix + "*")
	if len(ids) == 0 {
		c.part.Warnings = append(c.part.Warnings, fmt.Sprintf("the MCP server %q is unknown, or has no tools", name))
	}
	for _, id := range ids {
		own, ok := strings.CutPrefix(string(id), prefix)
		if !ok || !c.wants(own) {
			continue
		}
		c.part.Tools = append(c.part.Tools, capability.Offer{Name: c.name(name, own), ID: id})
	}
}

func (c *chooser) wants(name string) bool {
	found := len(c.wanted) == 0
	for i, re := range c.wanted {
		if re.MatchString(name) {
			c.used[i], found = true, true
		}
	}
	return found
}

var odd = regex.Lazy(`[^a-zA-Z0-9_-]`)

// name returns a tool's name for the model: the server's name and its own, without the
// characters that models do not accept. A name that is too long, or taken, ends with the
// hash of the whole ID.
func (c *chooser) name(server, own string) string {
	const most, hash = 64, 8
	n := odd.ReplaceAllString(server+"_"+own, "_")
	if !capability.ValidName(n[:1]) {
		n = "mcp_" + n
	}
	if len(n) > most || c.names[n] {
		h := fnv.New32a()
		_, _ = h.Write([]byte(server + ":" + own)) // a hash accepts everything
		n = n[:min(len(n), most-hash-1)] + "_" + hex.EncodeToString(h.Sum(nil))
	}
	c.names[n] = true
	return n
}
