package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
)

// codex reads Codex's config.toml, or the command rules of a .rules file.
func (b *builder) codex(src []byte) error {
	if strings.HasSuffix(b.file, ".rules") {
		return b.codexRules(string(src))
	}
	var f struct {
		Sandbox   string `toml:"sandbox_mode"`
		Approval  any    `toml:"approval_policy"`
		Workspace struct {
			Roots   []string `toml:"writable_roots"`
			Network bool     `toml:"network_access"`
		} `toml:"sandbox_workspace_write"`
		Servers map[string]codexServer `toml:"mcp_servers"`
	}
	if err := toml.Unmarshal(src, &f); err != nil {
		return b.invalid(err, "TOML")
	}
	b.drop("rules/*.rules", "rules of commands are in files of their own; translate those, too")
	switch f.Sandbox {
	case "read-only", "workspace-write":
		b.add(reads, policy.Allow, "sandbox_mode", "**")
		if f.Sandbox == "workspace-write" {
			b.add(writes, policy.Allow, "sandbox_mode", "**")
			for _, dir := range f.Workspace.Roots {
				b.folder(writes, "writable_roots: "+dir, dir)
				b.folder(reads, "writable_roots: "+dir, dir)
			}
		}
		if f.Approval == "never" || f.Approval == "on-request" || f.Approval == "on-failure" {
			b.add(commands, policy.Allow, "approval_policy", "**") // they run in the sandbox without a question
		} else {
			b.drop(fmt.Sprintf("approval_policy: %v", f.Approval), "it asks about commands; name those that are allowed")
		}
		if f.Workspace.Network {
			b.drop("sandbox_workspace_write.network_access", "it allows every host; name the hosts")
		}
	case "":
		b.drop("sandbox_mode", "there is none; nothing is allowed")
	default:
		b.drop("sandbox_mode: "+f.Sandbox, "it allows everything")
	}
	b.codexServers(f.Servers)
	return nil
}

// codexServer is an MCP server in config.toml.
type codexServer struct {
	Approval string   `toml:"default_tools_approval_mode"`
	Enabled  []string `toml:"enabled_tools"`
	Disabled []string `toml:"disabled_tools"`
}

func (b *builder) codexServers(servers map[string]codexServer) {
	for _, name := range sortedKeys(servers) {
		s, rule := servers[name], "mcp_servers."+name
		for _, t := range s.Disabled {
			b.mcp(policy.Deny, rule+".disabled_tools", name, t)
		}
		switch {
		case s.Approval != "approve":
			b.drop(rule, "its tools are asked about")
		case s.Enabled == nil:
			b.mcp(policy.Allow, rule, name, "")
		}
		for _, t := range s.Enabled {
			if s.Approval == "approve" && !strings.Contains(t, "*") {
				b.mcp(policy.Allow, rule+".enabled_tools", name, t)
			}
		}
	}
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// codexEffects are the decisions of prefix_rule.
var codexEffects = map[string]policy.Effect{"allow": policy.Allow, "prompt": policy.Ask, "forbidden": policy.Deny}

// maxProduct bounds the entries that one rule with alternatives makes.
const maxProduct = 256

// codexRule adds a prefix_rule.
func (b *builder) codexRule(rule string, args map[string]any) error {
	e := policy.Allow // the default
	if d, given := args["decision"]; given {
		text, _ := d.(string)
		known := false
		if e, known = codexEffects[text]; !known {
			return b.invalid(nil, "rules: "+rule+" has no known decision")
		}
	}
	pattern, ok := args["pattern"].([]any)
	if !ok || len(pattern) == 0 {
		return b.invalid(nil, "rules: "+rule+" has no pattern")
	}
	lines := []string{""}
	for _, token := range pattern {
		var alternatives []string
		switch t := token.(type) {
		case string:
			alternatives = []string{t}
		case []any:
			for _, one := range t {
				text, ok := one.(string)
				if !ok {
					return b.invalid(nil, "rules: "+rule+" has a token that is not text")
				}
				alternatives = append(alternatives, text)
			}
		}
		var next []string
		for _, l := range lines {
			for _, a := range alternatives {
				next = append(next, l+command.Escape(a)+" ")
			}
		}
		if lines = next; len(lines) > maxProduct {
			b.refuse(commands, e, rule, "it stands for too many commands")
			return nil
		}
	}
	for _, l := range lines {
		b.add(commands, e, rule, l+"**")
	}
	return nil
}

// geminiRule is a rule of Gemini's policy engine.
type geminiRule struct {
	Tool     any      `toml:"toolName"`
	MCP      string   `toml:"mcpName"`
	Prefix   any      `toml:"commandPrefix"`
	Regex    string   `toml:"commandRegex"`
	Args     string   `toml:"argsPattern"`
	Decision string   `toml:"decision"`
	Priority int      `toml:"priority"`
	Modes    []string `toml:"modes"`
	Only     *bool    `toml:"interactive"`
}

// gemini reads a policy of Gemini CLI, in which the highest priority wins.
func (b *builder) gemini(src []byte) error {
	var f struct {
		Rules []geminiRule `toml:"rule"`
	}
	if err := toml.Unmarshal(src, &f); err != nil {
		return b.invalid(err, "TOML")
	}
	for i, r := range f.Rules {
		names, ok := oneOrMore(r.Tool)
		rule := fmt.Sprintf("rule[%d] %s", i, strings.TrimSpace(strings.Join(names, ",")+" "+r.Decision))
		e, known := map[string]policy.Effect{"allow": policy.Allow, "deny": policy.Deny, "ask_user": policy.Ask}[r.Decision]
		if !known || !ok {
			b.refuseAll(policy.Deny, rule, "its decision or tool is not known")
			continue
		}
		if e == policy.Allow && (len(r.Modes) > 0 || r.Only != nil) {
			b.drop(rule, "it is for some modes only")
			continue
		}
		if e == policy.Allow && slices.ContainsFunc(f.Rules, func(o geminiRule) bool { return o.Decision != "allow" && o.Priority >= r.Priority && o.covers(r) }) {
			b.drop(rule, "dead: a rule of a higher or the same priority refuses it")
			continue
		}
		if len(names) == 0 {
			names = []string{"*"}
		}
		for _, name := range names {
			b.geminiTool(e, rule, name, r)
		}
	}
	return nil
}

// covers reports whether a rule is for all calls of another one's tools.
func (r geminiRule) covers(o geminiRule) bool {
	if r.Prefix != nil || r.Regex != "" || r.Args != "" {
		return false
	}
	mine, _ := oneOrMore(r.Tool)
	theirs, _ := oneOrMore(o.Tool)
	if r.MCP != "" && r.MCP != o.MCP {
		return false
	}
	if len(mine) == 0 || slices.Contains(mine, "*") {
		return true
	}
	return slices.ContainsFunc(theirs, func(t string) bool { return slices.Contains(mine, t) })
}

func oneOrMore(v any) (list []string, ok bool) {
	switch v := v.(type) {
	case nil:
		return nil, true
	case string:
		return []string{v}, true
	case []any:
		for _, one := range v {
			s, ok := one.(string)
			if !ok {
				return nil, false
			}
			list = append(list, s)
		}
		return list, true
	}
	return nil, false
}

func (b *builder) geminiTool(e policy.Effect, rule, name string, r geminiRule) {
	if name == "run_shell_command" && r.MCP == "" {
		b.geminiCommand(e, rule, r)
		return
	}
	all := map[string]section{"read_file": reads, "read_many_files": reads, "write_file": writes, "replace": writes, "web_fetch": hosts}[name]
	server, tool, isMCP := strings.Cut(name, "__")
	switch {
	case r.MCP != "" || isMCP:
		if r.MCP != "" {
			server, tool = r.MCP, strings.TrimPrefix(name, "*")
		}
		if r.Args != "" {
			b.refuse(tools, e, rule, "it has a pattern of arguments")
			return
		}
		b.mcp(e, rule, server, tool)
	case name == "*":
		if e == policy.Allow {
			b.drop(rule, "it allows every tool")
			return
		}
		b.drop(rule, "what no rule allows is denied")
	case all == "":
		b.drop(rule, "a policy has no tool like %q", name)
	case r.Args != "":
		b.refuse(all, e, rule, "it has a pattern of arguments")
	case all == hosts && e == policy.Deny:
		b.add(hosts, e, rule, "*")
	case all == hosts:
		b.refuse(hosts, e, rule, "it does not name a host")
	case name != "read_file" && name != "write_file" && e == policy.Allow:
		b.drop(rule, "a policy has one rule for all such tools; read_file and write_file say it")
	default:
		b.add(all, e, rule, "**")
	}
}

func (b *builder) geminiCommand(e policy.Effect, rule string, r geminiRule) {
	prefixes, ok := oneOrMore(r.Prefix)
	switch {
	case !ok || r.Args != "":
		b.refuse(commands, e, rule, "it has a pattern of arguments")
	case r.Regex != "":
		b.regex(e, rule, r.Regex)
	case r.Prefix == nil && e == policy.Allow:
		b.drop(rule, "it allows every command; name the commands")
	case r.Prefix == nil:
		b.drop(rule, "what no rule of a higher priority allows is denied")
	}
	for _, p := range prefixes {
		if strings.Contains(p, "*") {
			b.refuse(commands, e, rule, notWords)
			continue
		}
		b.prefix(e, rule, p)
	}
}

// invalidLine is the error for a line of rules.
func (b *builder) invalidLine(line int, want string) error {
	return fault.New(fault.Usage, "the rules cannot be read: expected %s", want).At(fault.Pos{File: b.file, Line: line}).
		WithHint("only calls with literal arguments can be translated")
}
