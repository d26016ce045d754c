// Package workspace has the capability workspace: the built-in tools for the files and
// commands of the session's workspace, under its grant. Start at [New].
package workspace

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

const prompt = `## Workspace

You can work in a folder of the user's computer with the tools fs_* (files) and shell_run (commands). What of it you may read, change and run is decided by a policy for each call; a call that is denied tells the rule.

- Paths are relative to the workspace. Look before you change: list and read first.
- Prefer fs_edit for small changes; prefer the fs_* tools over commands for files.
- A denied call will be denied again: find another way, or tell the user what you would need.`

// Capability is the capability workspace.
type Capability struct{}

// New makes the capability.
func New() Capability { return Capability{} }

var configSchema = typed.Object(`"tools":{"type":"array","minItems":1,"maxItems":50,"description":"Which tools: IDs, or patterns as fs.*; default fs.* and shell.run.",
	"items":{"type":"string","maxLength":100,"pattern":"^(fs\\.[a-z_*]+|shell\\.run)$"}}`)

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "workspace", Name: "Workspace", Description: "Read, change and search the files of the workspace, and run commands in it, as the policy allows.",
		Status: capability.Available, Icon: "folder-code", Category: "File Operations", Version: "1", Config: configSchema,
		Wants: []string{"files.read **", "files.write **", "commands **"}}
}

// Part offers the tools that the catalog has.
func (Capability) Part(s capability.Session, raw json.RawMessage) (capability.Part, error) {
	conf := struct {
		Tools []string `json:"tools"`
	}{[]string{"fs.*", "shell.run"}}
	if raw != nil {
		conf.Tools = nil
		if err := json.Unmarshal(raw, &conf); err != nil {
			return capability.Part{}, fault.Wrap(fault.CapabilityInvalid, err, "the configuration cannot be read: %v", err)
		}
	}
	part := capability.Part{Prompt: prompt}
	if s.Match == nil {
		return part, nil
	}
	seen := map[tool.ID]bool{}
	for i, pattern := range conf.Tools {
		ids := s.Match(pattern)
		if len(ids) == 0 && !strings.Contains(pattern, "*") {
			return part, fault.New(fault.CapabilityInvalid, "unknown tool %q", pattern).In(fmt.Sprintf("tools[%d]", i))
		}
		if len(ids) == 0 {
			part.Warnings = append(part.Warnings, fmt.Sprintf("no tool matches %q", pattern))
		}
		for _, id := range ids {
			if !seen[id] {
				part.Tools = append(part.Tools, capability.Offer{Name: strings.ReplaceAll(string(id), ".", "_"), ID: id})
			}
			seen[id] = true
		}
	}
	return part, nil
}
