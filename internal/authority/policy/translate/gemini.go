package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// geminiRule is a rule of Gemini's policy engine.
type geminiRule struct {
	tools     []string // nil: all
	mcp       string
	prefixes  []string
	prefixed  bool // prefixes were given
	regex     string
	args      string
	decision  string
	priority  float64
	condition bool // it holds in some modes only, or under a condition that is not known
	wrong     bool // a value that matters cannot be read
}

// gemini reads a policy of Gemini CLI, in which the highest priority wins.
func (b *builder) gemini(src []byte) error {
	n, err := b.readTOML(src)
	if err != nil {
		return err
	}
	var rules []geminiRule
	list := at(n, "rule")
	if list != nil && list.Kind != document.List {
		return b.invalid(nil, "policy: rule is "+list.Kind.String()+"; expected [[rule]]")
	}
	b.table("", n, everything, keys{
		"rule": func(_ string, v *document.Node) {
			for _, item := range v.Items {
				rules = append(rules, readGeminiRule(item))
			}
		},
		"safety_checker": func(rule string, _ *document.Node) { b.refuseEach(everything, rule, "a checker can refuse every call") },
	}, nil)
	for i, r := range rules {
		b.geminiRule(fmt.Sprintf("rule[%d] %s", i, strings.TrimSpace(strings.Join(r.tools, ",")+" "+r.decision)), r, rules)
	}
	return nil
}

// readGeminiRule reads one rule. A key that is not known could be a condition.
func readGeminiRule(n *document.Node) (r geminiRule) {
	r.wrong = n.Kind != document.Mapping
	text := func(v *document.Node, into *string) { *into, r.wrong = v.Text, r.wrong || v.Kind != document.String }
	list := func(v *document.Node, into *[]string) {
		for _, item := range append([]*document.Node{v}, v.Items...) {
			switch {
			case item.Kind == document.String:
				*into = append(*into, item.Text)
			case item != v || v.Kind != document.List:
				r.wrong = true
			}
		}
	}
	for _, p := range n.Pairs {
		switch v := p.Value; p.Key.Text {
		case "toolName":
			list(v, &r.tools)
		case "mcpName":
			text(v, &r.mcp)
		case "commandPrefix":
			r.prefixed = true
			list(v, &r.prefixes)
		case "commandRegex":
			text(v, &r.regex)
		case "argsPattern":
			text(v, &r.args)
		case "decision":
			text(v, &r.decision)
		case "priority":
			_, err := fmt.Sscanf(v.Text, "%g", &r.priority)
			r.wrong = r.wrong || v.Kind != document.Number || err != nil
		case "name", "description", "denyMessage", "deny_message", "source", "allowRedirection", "allow_redirection":
		default: // modes, interactive, subagent, toolAnnotations and unknown keys
			r.condition = true
		}
	}
	return r
}

func (b *builder) geminiRule(rule string, r geminiRule, all []geminiRule) {
	e, known := map[string]policy.Effect{"allow": policy.Allow, "deny": policy.Deny, "ask_user": policy.Ask}[r.decision]
	switch {
	case !known || r.wrong:
		b.refuseAll(policy.Deny, rule, "a value is not known")
		return
	case e == policy.Allow && r.condition:
		b.drop(rule, "it is for some modes only, or has a condition that is not known")
		return
	case e == policy.Allow && slices.ContainsFunc(all, func(o geminiRule) bool { return o.decision != "allow" && o.priority >= r.priority && o.covers(r) }):
		b.drop(rule, "dead: a rule of a higher or the same priority refuses it")
		return
	}
	names := r.tools
	if len(names) == 0 {
		names = []string{"*"}
	}
	for _, name := range names {
		b.geminiTool(e, rule, name, r)
	}
}

// covers reports whether a rule is for all calls of another one's tools.
func (r geminiRule) covers(o geminiRule) bool {
	if r.prefixed || r.regex != "" || r.args != "" || r.mcp != "" && r.mcp != "*" && r.mcp != o.mcp {
		return false
	}
	if len(r.tools) == 0 || slices.Contains(r.tools, "*") {
		return true
	}
	return len(o.tools) == 0 || slices.ContainsFunc(o.tools, func(t string) bool { return slices.Contains(r.tools, t) })
}

func (b *builder) geminiTool(e policy.Effect, rule, name string, r geminiRule) {
	if name == "run_shell_command" && r.mcp == "" {
		b.geminiCommand(e, rule, r)
		return
	}
	all := map[string]section{"read_file": reads, "read_many_files": reads, "write_file": writes, "replace": writes, "web_fetch": hosts}[name]
	server, tool, isMCP := strings.Cut(name, "__")
	switch {
	case r.mcp != "" || isMCP:
		if r.mcp != "" {
			server, tool = r.mcp, strings.TrimPrefix(name, "*")
		}
		if r.args != "" {
			b.refuse(tools, e, rule, "it has a pattern of arguments")
			return
		}
		b.mcp(e, rule, server, tool)
	case name == "*":
		if e == policy.Allow {
			b.drop(rule, "it allows every tool")
			return
		}
		if r.args != "" || r.prefixed || r.regex != "" {
			b.refuseEach(everything, rule, "it has a pattern of arguments, for every tool")
			return
		}
		b.drop(rule, "what no rule of a higher priority allows is denied")
	case all == "" && (e == policy.Allow || slices.Contains(geminiOther, name)):
		b.drop(rule, "a policy has no tool like %q", name)
	case all == "":
		b.refuseEach(everything, rule, "its tools are not known")
	case r.args != "":
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

// geminiOther are tools of Gemini CLI that a policy has no counterpart of, and allows nothing for.
var geminiOther = strings.Fields("glob list_directory search_file_content grep_search google_web_search save_memory write_todos activate_skill ask_user enter_plan_mode " +
	"exit_plan_mode codebase_investigator delegate_to_agent get_internal_docs cli_help list_background_processes read_background_output complete_task")

func (b *builder) geminiCommand(e policy.Effect, rule string, r geminiRule) {
	switch {
	case r.args != "":
		b.refuse(commands, e, rule, "it has a pattern of arguments")
		return
	case r.regex != "":
		b.regex(e, rule, r.regex)
	case !r.prefixed && e == policy.Allow:
		b.drop(rule, "it allows every command; name the commands")
	case !r.prefixed:
		b.drop(rule, "what no rule of a higher priority allows is denied")
	}
	for _, p := range r.prefixes {
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
