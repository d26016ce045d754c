package translate

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
)

// action is a rule of a list in which the last match wins.
type action struct {
	pattern, rule string
	e             policy.Effect
}

// openCodeNeutral are the keys of opencode.json that neither allow nor refuse a call.
const openCodeNeutral = "$schema theme model small_model default_agent provider disabled_providers enabled_providers autoupdate share autoshare keybinds tui server " +
	"command instructions formatter lsp plugin snapshot watcher compaction username logLevel layout enterprise skills shell"

// openCodeExperimental are keys of experimental that neither allow nor refuse a call.
const openCodeExperimental = "chatMaxRetries disable_paste_summary batch_tool openTelemetry mcp_timeout"

// openCode reads opencode.json.
func (b *builder) openCode(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	b.drop("other files of settings", "OpenCode merges them (global, project, agents as Markdown); translate the merged settings")
	if at(n, "permission") == nil {
		b.drop("permission", "there is none: the source allows everything by default, a policy nothing")
	}
	agents := func(rule string, v *document.Node) {
		b.table(rule, v, everything, nil, func(string) reader { return b.openCodeAgent })
	}
	b.table("", n, everything, without(openCodeNeutral, keys{
		"permission": b.openCodePermission, "tools": b.openCodeSwitches, "agent": agents, "mode": agents,
		"experimental": func(rule string, v *document.Node) {
			b.table(rule, v, everything, without(openCodeExperimental, nil), nil)
		},
		"mcp": func(rule string, v *document.Node) {
			b.table(rule, v, []section{tools}, nil, func(name string) reader {
				return func(rule string, v *document.Node) {
					b.table(rule, v, []section{tools}, without("type command url environment headers oauth timeout cwd", keys{"enabled": b.enabled(name)}), nil)
				}
			})
		},
	}), nil)
	return nil
}

// openCodePermission reads the permissions of all agents.
func (b *builder) openCodePermission(rule string, n *document.Node) {
	if n.Kind != document.Mapping {
		b.drop(rule, "it is for every tool alike; what no other rule allows is denied")
		return
	}
	for i, pair := range n.Pairs {
		key := pair.Key.Text
		list := b.lastWins(rule+"."+key, pair.Value)
		switch key {
		case "bash":
			for _, a := range list {
				b.wildcard(a.e, a.rule, a.pattern)
			}
		case "read":
			b.openCodeFiles(reads, list)
		case "edit":
			b.openCodeFiles(writes, list)
		case "webfetch":
			for _, a := range list {
				b.refuse(hosts, a.e, a.rule, "it does not name a host")
			}
		default:
			for _, before := range n.Pairs[:i] {
				kind, known := openCodeKinds[before.Key.Text]
				if fits, err := path.Match(key, before.Key.Text); known && (fits || err != nil) && openCodeRefuses(pair.Value) {
					b.refuse(kind, policy.Ask, rule+"."+key, "it replaces the rules before it")
				}
			}
			b.openCodeTool(rule+"."+key, key, openCodeEffect(pair.Value), list)
			continue
		}
		if b.catchesAll(pair.Value) {
			b.openCodeRest(rule+"."+key, key, pair.Value)
		} else if pair.Value.Kind != document.Mapping {
			b.refuse(openCodeKinds[key], policy.Ask, rule+"."+key, "it is not a known permission")
		}
	}
}

// openCodeKinds are the kinds of the tools that a policy has a counterpart of.
var openCodeKinds = map[string]section{"bash": commands, "read": reads, "edit": writes, "write": writes, "patch": writes, "multiedit": writes, "apply_patch": writes, "webfetch": hosts}

// openCodeOther are tools that a policy has no counterpart of, and allows nothing for.
var openCodeOther = []string{"glob", "grep", "list", "task", "skill", "external_directory", "doom_loop", "todowrite", "todoread", "websearch", "codesearch", "lsp", "question", "batch", "plan_enter", "plan_exit"}

// openCodeRefuses reports whether a permission refuses anything.
func openCodeRefuses(n *document.Node) bool {
	if n.Kind == document.Mapping {
		return slices.ContainsFunc(n.Pairs, func(p document.Pair) bool { return openCodeEffect(p.Value) != policy.Allow })
	}
	return openCodeEffect(n) != policy.Allow
}

// openCodeSwitches reads tools, the switches of single tools.
func (b *builder) openCodeSwitches(rule string, n *document.Node) {
	b.table(rule, n, everything, nil, func(name string) reader {
		kind, known := openCodeKinds[name]
		return b.flag(everything, func(rule string, on bool) {
			switch {
			case on:
				b.drop(rule, "it offers a tool, and allows no call")
			case known:
				b.add(kind, policy.Deny, rule, map[section]string{commands: "**", reads: "/**", writes: "/**", hosts: "*"}[kind])
			case slices.Contains(openCodeOther, name):
				b.drop(rule, "a policy has no counterpart")
			default:
				b.refuseEach(everything, rule, "its tools are not known")
			}
		})
	})
}

// openCodeAgent reads one agent. A policy is for all agents, so a refusal of one agent makes
// the calls of its kind ask.
func (b *builder) openCodeAgent(rule string, n *document.Node) {
	b.table(rule, n, everything, without("model variant temperature top_p prompt description color mode steps maxSteps hidden options disable name", keys{
		"tools": b.openCodeSwitches,
		"permission": func(rule string, v *document.Node) {
			if v.Kind != document.Mapping && openCodeRefuses(v) {
				b.refuseEach(everything, rule, "one agent's refusal")
			}
			for _, p := range v.Pairs {
				b.openCodeAgentRule(rule+"."+p.Key.Text, p.Key.Text, p.Value)
			}
		},
	}), nil)
}

func (b *builder) openCodeAgentRule(rule, key string, v *document.Node) {
	kind, known := openCodeKinds[key]
	switch {
	case !openCodeRefuses(v):
		b.drop(rule, "it allows for one agent only")
	case slices.Contains(openCodeOther, key):
		b.drop(rule, "a policy has no counterpart")
	case key == "bash" && v.Kind == document.Mapping:
		for _, p := range v.Pairs {
			if e := openCodeEffect(p.Value); e != policy.Allow && p.Key.Text != "*" {
				b.wildcard(e, rule+"."+p.Key.Text, p.Key.Text)
			} else if e != policy.Allow {
				b.refuse(commands, e, rule+".*", "one agent's refusal")
			}
		}
	case known:
		b.refuse(kind, policy.Ask, rule, "one agent's refusal")
		if kind == reads {
			b.refuse(writes, policy.Ask, rule, "one agent's refusal")
		}
	default:
		b.refuseEach(everything, rule, "one agent's refusal, of tools that are not known")
	}
}

// catchesAll reports whether a value has a rule for everything.
func (b *builder) catchesAll(n *document.Node) bool {
	return n.Kind == document.String || at(n, "*") != nil
}

// openCodeRest names what a rule for everything comes to.
func (b *builder) openCodeRest(rule, key string, n *document.Node) {
	value := n
	if n.Kind != document.String {
		rule, value = rule+".*", at(n, "*")
	}
	switch e := openCodeEffect(value); {
	case e == policy.Allow && key == "read":
		b.add(reads, e, rule, "**")
	case e == policy.Allow && key == "edit":
		b.add(writes, e, rule, "**")
	case e == policy.Allow:
		b.drop(rule, "it allows everything of its kind; name what is allowed")
	case e == policy.Ask:
		b.drop(rule, "what no other rule allows is denied")
	}
}

func openCodeEffect(n *document.Node) policy.Effect {
	switch {
	case n.Is("allow"):
		return policy.Allow
	case n.Is("ask"):
		return policy.Ask
	}
	return policy.Deny
}

// lastWins reads the rules of one key. A rule before a rule for everything is dead. The rule for
// everything is not in the list: a policy denies the rest anyway.
func (b *builder) lastWins(under string, n *document.Node) []action {
	if n.Kind != document.Mapping {
		return nil
	}
	var out []action
	for i, p := range n.Pairs {
		rule := under + "." + p.Key.Text
		later := slices.ContainsFunc(n.Pairs[i+1:], func(q document.Pair) bool { return q.Key.Text == "*" })
		switch {
		case p.Key.Text == "*":
		case later:
			b.drop(rule, "dead: a later rule \"*\" replaces it")
		default:
			out = append(out, action{p.Key.Text, rule, openCodeEffect(p.Value)})
		}
	}
	return out
}

// openCodeFiles adds rules of files, whose * stands for any text, slashes included.
func (b *builder) openCodeFiles(s section, list []action) {
	for _, a := range list {
		text := a.pattern
		switch {
		case strings.Contains(text, "?") || strings.Contains(text, ".."):
			b.refuse(s, a.e, a.rule, "its wildcards differ from a policy's")
		case a.e == policy.Allow: // within one name, or a whole folder
			b.add(s, a.e, a.rule, strings.NewReplacer("{", `\{`, "}", `\}`, "[", `\[`, "]", `\]`, `\`, `\\`).Replace(text))
		case !strings.Contains(text, "*"):
			b.path(s, a.e, a.rule, "./"+text)
			b.path(s, a.e, a.rule, text)
		default:
			b.openCodeRefusal(s, a)
		}
		if s == reads && a.e != policy.Allow {
			b.openCodeFiles(writes, []action{a})
		}
	}
}

// openCodeRefusal adds a refusing pattern with a wildcard, widened to all files that it could
// match: those below the folder before it, or with the ending behind it.
func (b *builder) openCodeRefusal(s section, a action) {
	before, _, _ := strings.Cut(a.pattern, "*")
	i := strings.LastIndexByte(before, '/')
	last := a.pattern[strings.LastIndexByte(a.pattern, '*')+1:]
	switch {
	case i > 0:
		b.add(s, a.e, a.rule, before[:i]+"/**")
	case strings.Count(a.pattern, "*") == 1 && before == "" && !strings.Contains(last, "/"):
		b.add(s, a.e, a.rule, "**/*"+last)
	default:
		b.refuse(s, a.e, a.rule, "its wildcard crosses folders")
	}
}

// openCodeTool adds the rules of a tool that is not of files or commands.
func (b *builder) openCodeTool(rule, key string, e policy.Effect, list []action) {
	if key == "*" || slices.Contains(openCodeOther, key) {
		b.drop(rule, "a policy has no counterpart; what it would allow is not allowed")
		return
	}
	for _, a := range list {
		b.refuse(tools, a.e, a.rule, "it does not name an MCP server and a tool")
	}
	if len(list) == 0 {
		b.refuse(tools, e, rule, "it does not name an MCP server and a tool")
	}
}
