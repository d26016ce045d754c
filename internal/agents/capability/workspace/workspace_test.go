package workspace_test

import (
	"encoding/json"
	"path"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/workspace"
	"github.com/remitrun/remit/internal/base/tool"
)

// catalog has a few tools.
func catalog(pattern string) []tool.ID {
	var out []tool.ID
	for _, id := range []tool.ID{"fs.edit", "fs.read", "fs.write", "http.get", "shell.run", "mcp:x:y"} {
		if ok, err := path.Match(pattern, string(id)); err == nil && ok {
			out = append(out, id)
		}
	}
	return out
}

func session() capability.Session { return capability.Session{Match: catalog} }

func TestConformance(t *testing.T) {
	capabilitytest.Capability(t, workspace.New(), capabilitytest.Case{Session: session, Config: json.RawMessage(`{"tools": ["fs.*"]}`)})
}

func TestOffers(t *testing.T) {
	tests := map[string]struct {
		config, want, err string
		warns             bool
	}{
		"files and commands":       {"", "fs_edit=fs.edit fs_read=fs.read fs_write=fs.write shell_run=shell.run", "", false},
		"only some":                {`{"tools": ["fs.read", "fs.r*", "shell.run"]}`, "fs_read=fs.read shell_run=shell.run", "", false},
		"a pattern of nothing":     {`{"tools": ["fs.x*"]}`, "", "", true},
		"a tool that is not there": {`{"tools": ["fs.reed"]}`, "", `capabilities[0].config.tools[0]: workspace: unknown tool "fs.reed"`, false},
		"no tool of the workspace": {`{"tools": ["http.get"]}`, "", "capabilities[0].config.tools[0]: ", false},
		"no field of it":           {`{"tool": ["fs.read"]}`, "", `did you mean "tools"?`, false},
		"not a list":               {`{"tools": "fs.read"}`, "", "capabilities[0].config.tools: ", false},
	}
	reg, err := capability.NewRegistry([]capability.Capability{workspace.New()})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := capability.Resolve(reg, []capability.Ref{{Ref: "workspace", Config: json.RawMessage(tt.config)}}, session())
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
			if !reflect.DeepEqual(got, strings.Fields(tt.want)) || tt.warns != (len(r.Warnings) > 0) {
				t.Errorf("got %v, warnings %q; want %s", got, r.Warnings, tt.want)
			}
		})
	}
}
