package translate

import (
	"slices"
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
			b.table(key, p.Value, []section{commands}, nil, func(name string) reader {
				return func(_ string, v *document.Node) { b.vsCodeCommand(name, v) }
			})
		case key == "chat.tools.urls.autoApprove":
			b.table(key, p.Value, []section{hosts}, nil, func(name string) reader {
				return func(_ string, v *document.Node) { b.vsCodeURL(name, v) }
			})
		case key == "chat.tools.terminal.enableAutoApprove":
			b.flag([]section{commands}, func(rule string, on bool) {
				if !on {
					b.refuse(commands, policy.Ask, rule, "it asks about every command")
				}
			})(key, p.Value)
		case key == "chat.tools.global.autoApprove" || key == "chat.tools.edits.autoApprove" || key == "chat.tools.autoApprove":
			b.drop(key, "it is not about single commands or URLs")
		case slices.Contains(vsCodeNeutral, key):
		case vsCodeDecides(key):
			b.refuseEach([]section{commands, hosts}, key, "unknown key, which could be a refusal")
		}
	}
	return nil
}

// vsCodeNeutral are keys about tools that neither allow nor refuse a command or a URL.
var vsCodeNeutral = strings.Fields("chat.tools.terminal.autoReplyToPrompts chat.tools.terminal.ignoreDefaultAutoApproveRules chat.tools.terminal.outputLocation " +
	"chat.tools.terminal.shellIntegrationTimeout chat.tools.terminal.terminalProfile.linux chat.tools.terminal.terminalProfile.osx chat.tools.terminal.terminalProfile.windows " +
	"chat.tools.renderGroup chat.tools.todos.showWidget chat.mcp.discovery.enabled chat.mcp.autostart chat.mcp.gallery.enabled chat.mcp.gallery.serviceUrl")

// vsCodeDecides reports whether a key of the editor may allow or refuse calls of an agent.
func vsCodeDecides(key string) bool {
	if strings.HasPrefix(key, "chat.tools.") || strings.HasPrefix(key, "chat.mcp.") {
		return true
	}
	chat := strings.HasPrefix(key, "chat.") || strings.HasPrefix(key, "github.copilot.chat.")
	return chat && slices.ContainsFunc(strings.Fields("approv sandbox permission deny denied block allow trust"), func(w string) bool { return strings.Contains(strings.ToLower(key), w) })
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
		b.table(rule, v, []section{commands}, without("approve matchCommandLine", nil), nil)
		if approve := at(v, "approve"); approve != nil && approve.Kind == document.Bool && approve.Text == "true" {
			e = policy.Allow
		}
		m := at(v, "matchCommandLine")
		line = m != nil && (m.Kind != document.Bool || m.Text != "false")
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
		b.table(rule, v, []section{hosts}, without("approveRequest approveResponse", nil), nil)
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
	if agent := at(n, "agent"); agent != nil {
		b.zedAgent(agent)
	}
	if servers := at(n, "context_servers"); servers != nil {
		b.table("context_servers", servers, []section{tools}, nil, func(name string) reader {
			return func(rule string, v *document.Node) {
				b.table(rule, v, []section{tools}, without("settings command args env url headers source timeout remote", keys{"enabled": b.enabled(name)}), nil)
			}
		})
	}
	return nil
}

// zedNeutral are the keys of agent in Zed's settings that neither allow nor refuse a call.
const zedNeutral = "enabled button dock default_width default_height default_view default_model inline_assistant_model commit_message_model thread_summary_model " +
	"inline_alternatives inline_assistant_use_streaming_tools model_parameters notify_when_agent_waiting play_sound_when_agent_done expand_edit_card expand_terminal_card " +
	"use_modifier_to_send enable_feedback message_editor_min_lines single_file_review stream_edits preferred_completion_mode version thinking_display show_turn_stats " +
	"cancel_generation_on_terminal_stop favorite_models flexible sidebar_side default_profile subagent_model show_onboarding compaction_model"

func (b *builder) zedAgent(n *document.Node) {
	b.table("agent", n, everything, without(zedNeutral, keys{
		"always_allow_tool_actions": b.named("it allows everything"),
		"profiles":                  b.zedProfiles,
		"tool_permissions": func(_ string, v *document.Node) {
			b.table("tool_permissions", v, everything, keys{
				"default": func(rule string, v *document.Node) { b.drop(rule+": "+v.Text, "what no rule allows is denied") },
				"tools":   func(rule string, v *document.Node) { b.table(rule, v, everything, nil, b.zedRules) },
			}, nil)
		},
	}), nil)
}

// zedProfiles reads the tools of each profile. A policy does not know the chosen one.
func (b *builder) zedProfiles(rule string, v *document.Node) {
	switches := func(kind func(name string) []section) reader {
		return func(rule string, v *document.Node) {
			b.table(rule, v, everything, nil, func(name string) reader {
				return b.flag(everything, func(rule string, on bool) {
					if !on {
						b.refuseEach(kind(name), rule, "one profile's refusal")
					}
				})
			})
		}
	}
	b.table(rule, v, everything, nil, func(string) reader {
		return func(rule string, v *document.Node) {
			b.table(rule, v, everything, without("name enable_all_context_servers default_model", keys{
				"tools": switches(zedKinds),
				"context_servers": func(rule string, v *document.Node) {
					b.table(rule, v, []section{tools}, nil, func(string) reader {
						return func(rule string, v *document.Node) {
							b.table(rule, v, []section{tools}, keys{"tools": switches(func(string) []section { return []section{tools} })}, nil)
						}
					})
				},
			}), nil)
		}
	})
}

// zedKinds are the kinds of calls that a tool of Zed makes; none for tools without a counterpart.
func zedKinds(name string) []section {
	switch {
	case name == "terminal":
		return []section{commands}
	case slices.Contains(zedWriting, name):
		return []section{writes}
	case name == "read_file":
		return []section{reads}
	case name == "fetch":
		return []section{hosts}
	case slices.Contains(zedOther, name):
		return nil
	}
	return everything
}

var (
	zedWriting = strings.Fields("edit_file write_file save_file delete_path move_path create_directory copy_path restore_file_from_disk streaming_edit_file")
	zedOther   = strings.Fields("diagnostics find_path grep list_directory now open thinking web_search spawn_agent update_plan project_notifications create_file skill")
)

// zedRules reads the permissions of one tool.
func (b *builder) zedRules(name string) reader {
	return func(rule string, v *document.Node) {
		switch {
		case name == "terminal":
			b.zedTerminal(rule, v)
		case strings.HasPrefix(name, "mcp:"):
			server, tool, _ := strings.Cut(strings.TrimPrefix(name, "mcp:"), ":")
			b.zedTool(tools, rule, v, func(e policy.Effect) { b.mcp(e, rule, server, tool) })
		case slices.Contains(zedWriting, name):
			b.zedTool(writes, rule, v, func(e policy.Effect) {
				if e == policy.Allow && name != "edit_file" {
					b.drop(rule, "a policy has one rule for all writing; edit_file says it")
					return
				}
				b.add(writes, e, rule, "**")
			})
		case name == "read_file":
			b.zedTool(reads, rule, v, func(e policy.Effect) { b.add(reads, e, rule, "**") })
		case name == "fetch":
			b.zedTool(hosts, rule, v, func(e policy.Effect) {
				if e != policy.Deny {
					b.refuse(hosts, e, rule, "it does not name a host")
					return
				}
				b.add(hosts, e, rule, "*")
			})
		case slices.Contains(zedOther, name):
			b.drop(rule, "a policy has no tool like this")
		default:
			b.refuseEach(everything, rule, "the tool is not known")
		}
	}
}

var zedEffects = map[string]policy.Effect{"allow": policy.Allow, "confirm": policy.Ask, "deny": policy.Deny}

// zedTool adds the default of a tool. Its patterns of arguments cannot be expressed.
func (b *builder) zedTool(s section, rule string, n *document.Node, add func(policy.Effect)) {
	known := keys{"default": func(_ string, d *document.Node) {
		e, ok := zedEffects[d.Text]
		if !ok {
			e = policy.Deny
		}
		add(e)
	}}
	for _, list := range zedLists {
		known[list.key] = func(rule string, l *document.Node) {
			if l.Kind != document.List || len(l.Items) > 0 {
				b.refuse(s, list.e, rule, "it has regular expressions over arguments")
			}
		}
	}
	b.table(rule, n, []section{s}, known, nil)
}

var zedLists = []struct {
	key string
	e   policy.Effect
}{{"always_allow", policy.Allow}, {"always_confirm", policy.Ask}, {"always_deny", policy.Deny}}

func (b *builder) zedTerminal(rule string, n *document.Node) {
	known := keys{"default": func(rule string, d *document.Node) {
		switch {
		case d.Is("allow"):
			b.drop(rule+": allow", "it allows every command; name the commands")
		case !d.Is("confirm"):
			b.drop(rule+": "+d.Describe(), "what no rule allows is denied")
		}
	}}
	for _, list := range zedLists {
		known[list.key] = func(rule string, l *document.Node) { b.zedPatterns(rule, list.e, l) }
	}
	b.table(rule, n, []section{commands}, known, nil)
}

// zedPatterns reads a list of regular expressions over commands.
func (b *builder) zedPatterns(rule string, e policy.Effect, l *document.Node) {
	if l.Kind != document.List {
		b.refuse(commands, e, rule, "it is not a list of rules")
	}
	for _, item := range l.Items {
		expr, sensitive := at(item, "pattern"), at(item, "case_sensitive")
		if expr == nil || expr.Kind != document.String {
			b.refuse(commands, e, rule, "a rule has no pattern")
			continue
		}
		one := rule + ": " + expr.Text
		if slices.ContainsFunc(item.Pairs, func(p document.Pair) bool { return p.Key.Text != "pattern" && p.Key.Text != "case_sensitive" }) {
			b.refuse(commands, e, one, "it has an unknown key, which could be a condition")
			continue
		}
		// Case does not matter to the source; a policy's deny ignores it, too, its ask does not.
		if e == policy.Ask && (sensitive == nil || sensitive.Text != "true") {
			b.refuse(commands, e, one, "it ignores case")
			continue
		}
		b.regex(e, one, expr.Text)
	}
}
