package translate

import (
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
)

// vsCode reads the approvals of VS Code's settings.json.
func (b *builder) vsCode(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	for _, p := range n.Pairs {
		switch key := p.Key.Text; {
		case key == "chat.tools.terminal.autoApprove":
			for _, r := range p.Value.Pairs {
				b.vsCodeCommand(r.Key.Text, r.Value)
			}
		case key == "chat.tools.urls.autoApprove":
			for _, r := range p.Value.Pairs {
				b.vsCodeURL(r.Key.Text, r.Value)
			}
		case strings.HasPrefix(key, "chat.tools."):
			b.drop(key, "it is not about single commands or URLs")
		}
	}
	return nil
}

func (b *builder) vsCodeCommand(key string, v *document.Node) {
	rule := "chat.tools.terminal.autoApprove: " + key
	line := false
	e := policy.Ask // false asks
	switch {
	case v.Kind == document.Null:
		b.drop(rule, "null: it is not set")
		return
	case v.Kind == document.Mapping:
		if approve := at(v, "approve"); approve != nil && approve.Kind == document.Bool && approve.Text == "true" {
			e = policy.Allow
		}
		m := at(v, "matchCommandLine")
		line = m != nil && m.Text == "true"
	case v.Kind == document.Bool && v.Text == "true":
		e = policy.Allow
	}
	expr, re := strings.CutPrefix(key, "/")
	end := strings.LastIndexByte(expr, '/')
	switch {
	case line:
		b.refuse(commands, e, rule, "it is for whole command lines, of which a policy decides each command")
	case re && end >= 0 && expr[end+1:] == "":
		b.regex(e, rule, expr[:end])
	case re && end >= 0:
		b.refuse(commands, e, rule, "it is a regular expression with flags")
	case strings.Contains(key, "*"):
		b.refuse(commands, e, rule, notWords)
	default:
		b.prefix(e, rule, key)
	}
}

func (b *builder) vsCodeURL(key string, v *document.Node) {
	rule := "chat.tools.urls.autoApprove: " + key
	e := policy.Ask
	if v.Kind == document.Bool && v.Text == "true" {
		e = policy.Allow
	}
	if v.Kind == document.Mapping {
		q, r := at(v, "approveRequest"), at(v, "approveResponse")
		if q != nil && r != nil && q.Text == "true" && r.Text == "true" {
			e = policy.Allow
		}
	}
	host, ok := strings.CutPrefix(key, "https://")
	host = strings.TrimSuffix(strings.TrimSuffix(host, "/*"), "/")
	if !ok || strings.ContainsAny(host, "/") {
		b.refuse(hosts, e, rule, "it is not the URL of one https host")
		return
	}
	b.host(e, rule, "GET", host)
}

// zed reads agent.tool_permissions of Zed's settings.json.
func (b *builder) zed(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	p := at(n, "agent", "tool_permissions")
	if d := at(p, "default"); d != nil {
		b.drop("tool_permissions.default: "+d.Text, "what no rule allows is denied")
	}
	list := at(p, "tools")
	if list == nil {
		return nil
	}
	for _, t := range list.Pairs {
		name := t.Key.Text
		rule := "tool_permissions.tools." + name
		switch {
		case name == "terminal":
			b.zedTerminal(rule, t.Value)
		case strings.HasPrefix(name, "mcp:"):
			server, tool, _ := strings.Cut(strings.TrimPrefix(name, "mcp:"), ":")
			b.zedTool(tools, rule, t.Value, func(e policy.Effect) { b.mcp(e, rule, server, tool) })
		case name == "edit_file" || name == "write_file" || name == "save_file" || name == "delete_path" || name == "move_path" || name == "create_directory" || name == "copy_path":
			b.zedTool(writes, rule, t.Value, func(e policy.Effect) {
				if e == policy.Allow && name != "edit_file" {
					b.drop(rule, "a policy has one rule for all writing; edit_file says it")
					return
				}
				b.add(writes, e, rule, "**")
			})
		case name == "read_file":
			b.zedTool(reads, rule, t.Value, func(e policy.Effect) { b.add(reads, e, rule, "**") })
		case name == "fetch":
			b.zedTool(hosts, rule, t.Value, func(e policy.Effect) {
				if e != policy.Deny {
					b.refuse(hosts, e, rule, "it does not name a host")
					return
				}
				b.add(hosts, e, rule, "*")
			})
		default:
			b.drop(rule, "a policy has no tool like this")
		}
	}
	return nil
}

var zedEffects = map[string]policy.Effect{"allow": policy.Allow, "confirm": policy.Ask, "deny": policy.Deny}

// zedTool adds the default of a tool. Its patterns of arguments cannot be expressed.
func (b *builder) zedTool(s section, rule string, n *document.Node, add func(policy.Effect)) {
	if d := at(n, "default"); d != nil {
		e, ok := zedEffects[d.Text]
		if !ok {
			e = policy.Deny
		}
		add(e)
	}
	for _, list := range zedLists {
		if l := at(n, list.key); l != nil && len(l.Items) > 0 {
			b.refuse(s, list.e, rule+"."+list.key, "it has regular expressions over arguments")
		}
	}
}

var zedLists = []struct {
	key string
	e   policy.Effect
}{{"always_allow", policy.Allow}, {"always_confirm", policy.Ask}, {"always_deny", policy.Deny}}

func (b *builder) zedTerminal(rule string, n *document.Node) {
	if d := at(n, "default"); d.Is("allow") {
		b.drop(rule+".default: allow", "it allows every command; name the commands")
	} else if d.Is("deny") {
		b.drop(rule+".default: deny", "what no rule allows is denied")
	}
	for _, list := range zedLists {
		l := at(n, list.key)
		if l == nil {
			continue
		}
		for _, item := range l.Items {
			expr, sensitive := at(item, "pattern"), at(item, "case_sensitive")
			if expr == nil || expr.Kind != document.String {
				b.refuse(commands, list.e, rule+"."+list.key, "a rule has no pattern")
				continue
			}
			one := rule + "." + list.key + ": " + expr.Text
			if list.e != policy.Allow && (sensitive == nil || sensitive.Text != "true") {
				// Case does not matter to the source; a policy's deny ignores it, too, its ask does not.
				if list.e == policy.Ask {
					b.refuse(commands, list.e, one, "it ignores case")
					continue
				}
			}
			b.regex(list.e, one, expr.Text)
		}
	}
}
