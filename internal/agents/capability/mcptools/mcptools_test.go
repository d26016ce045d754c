package mcptools_test

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/mcptools"
	"github.com/remitrun/remit/internal/base/tool"
)

func catalog(pattern string) []tool.ID {
	var out []tool.ID
	for _, id := range []tool.ID{"fs.read", "mcp:git.hub:get_issue", "mcp:git.hub:list_issues", "mcp:mail:a.b", "mcp:mail:a_b", "mcp:mail:send", "mcp:9:x",
		tool.ID("mcp:long:" + strings.Repeat("n", 80))} {
		if strings.HasPrefix(string(id), strings.TrimSuffix(pattern, "*")) {
			out = append(out, id)
		}
	}
	return out
}

func session() capability.Session { return capability.Session{Match: catalog} }

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, mcptools.New(), capabilitytest.Case{Session: session, Config: json.RawMessage(`{"servers": ["git.hub", "mail", "9", "long"]}`)})
}

func TestOffers(t *testing.T) {
	tests := map[string]struct{ config, want, err, warns string }{
		"all of a server":                 {`{"servers": ["git.hub"]}`, "git_hub_get_issue=mcp:git.hub:get_issue git_hub_list_issues=mcp:git.hub:list_issues", "", ""},
		"some of two":                     {`{"servers": ["mail", "git.hub"], "tools": ["send", "get_*"]}`, "mail_send=mcp:mail:send git_hub_get_issue=mcp:git.hub:get_issue", "", ""},
		"names that would be one":         {`{"servers": ["mail"], "tools": ["a*"]}`, "mail_a_b=mcp:mail:a.b mail_a_b_4e9ac0be=mcp:mail:a_b", "", ""},
		"a name that begins with a digit": {`{"servers": ["9"]}`, "mcp_9_x=mcp:9:x", "", ""},
		"no configuration":                {"", "", "", "names no servers"},
		"a server that is not there":      {`{"servers": ["gone"]}`, "", "", `"gone" is unknown`},
		"a pattern of nothing":            {`{"servers": ["mail"], "tools": ["x*"]}`, "", "", `no tool of the servers matches "x*"`},
		"no servers":                      {`{"tools": ["x"]}`, "", "capabilities[0].config: missing property 'servers'", ""},
		"a server's name with a star":     {`{"servers": ["*"]}`, "", "capabilities[0].config.servers[0]", ""},
	}
	reg, err := capability.NewRegistry([]capability.Capability{mcptools.New()})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := capability.Resolve(reg, []capability.Ref{{Ref: "mcp", Config: json.RawMessage(tt.config)}}, session())
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := []string{}
			for _, o := range r.Tools {
				got = append(got, o.Name+"="+string(o.ID))
			}
			warned := strings.Join(r.Warnings, "\n")
			if !reflect.DeepEqual(got, strings.Fields(tt.want)) || (tt.warns == "") != (warned == "") || !strings.Contains(warned, tt.warns) {
				t.Errorf("got %v, warnings %q; want %s and %q", got, warned, tt.want, tt.warns)
			}
		})
	}
}
