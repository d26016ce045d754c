package translate

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/document"
)

// codexNeutral are the keys of config.toml, and of a profile in it, that neither allow nor refuse
// a call.
const codexNeutral = "model review_model model_provider model_providers model_context_window model_auto_compact_token_limit model_reasoning_effort " +
	"model_reasoning_summary model_verbosity model_supports_reasoning_summaries model_catalog_json model_instructions_file model_max_output_tokens " +
	"oss_provider openai_base_url chatgpt_base_url plan_mode_reasoning_effort service_tier personality developer_instructions instructions " +
	"compact_prompt experimental_compact_prompt_file experimental_instructions_file project_doc_max_bytes project_doc_fallback_filenames " +
	"project_root_markers notify tui history file_opener hide_agent_reasoning show_raw_agent_reasoning check_for_update_on_startup " +
	"cli_auth_credentials_store mcp_oauth_credentials_store mcp_oauth_callback_port mcp_oauth_callback_url forced_login_method " +
	"forced_chatgpt_workspace_id disable_paste_burst otel analytics feedback log_dir sqlite_home tool_output_token_limit " +
	"background_terminal_max_timeout suppress_unstable_features_warning commit_attribution notice windows_wsl_setup_acknowledged ghost_snapshot " +
	"shell_environment_policy allow_login_shell web_search approvals_reviewer zsh_path js_repl_node_path skills memories marketplaces audio desktop windows"

// codexFeatures are the features that neither allow nor refuse a call.
const codexFeatures = "apply_patch_freeform unified_exec shell_snapshot multi_agent collab collaboration_modes undo ghost_commit web_search web_search_cached " +
	"web_search_request remote_models runtime_metrics view_image_tool fast_mode personality goals memories prevent_idle_sleep skill_mcp_dependency_install " +
	"enable_request_compression child_agents_md steer sqlite js_repl streamable_shell rmcp_client apps plugins image_generation tool_search voice_transcription " +
	"use_linux_sandbox_bwrap experimental_windows_sandbox elevated_windows_sandbox powershell_utf8 responses_websockets responses_websockets_v2"

// codexMode has the settings of Codex that allow calls without a question.
type codexMode struct {
	sandbox, approval *document.Node // nil: not set
	roots             []string
}

// codex reads Codex's config.toml, or the command rules of a .rules file.
func (b *builder) codex(src []byte) error {
	if strings.HasSuffix(b.file, ".rules") {
		return b.codexRules(string(src))
	}
	n, err := b.readTOML(src)
	if err != nil {
		return err
	}
	b.drop("rules/*.rules", "rules of commands are in files of their own; translate those, too")
	var base codexMode
	var profiles []codexMode
	known := b.codexKeys(&base)
	known["mcp_servers"] = b.codexServers
	known["projects"] = b.codexProjects
	known["agents"] = b.named("agents have files of their own; translate those, too")
	known["profile"] = nil // each profile is read
	known["profiles"] = func(rule string, v *document.Node) {
		b.table(rule, v, everything, nil, func(string) reader {
			return func(rule string, v *document.Node) {
				var m codexMode
				b.table(rule, v, everything, b.codexKeys(&m), nil)
				profiles = append(profiles, m)
			}
		})
	}
	b.table("", n, everything, known, nil)
	b.codexModes(base, profiles)
	return nil
}

// codexKeys are the keys that config.toml and a profile have.
func (b *builder) codexKeys(m *codexMode) keys {
	files := []section{reads, writes, commands}
	return without(codexNeutral, keys{
		"sandbox_mode":    func(_ string, v *document.Node) { m.sandbox = v },
		"approval_policy": func(_ string, v *document.Node) { m.approval = v },
		"sandbox_workspace_write": func(rule string, v *document.Node) {
			b.table(rule, v, files, without("exclude_slash_tmp exclude_tmpdir_env_var", keys{
				"writable_roots": func(rule string, v *document.Node) {
					m.roots = b.texts(v, rule, func(rule string) { b.refuseEach(files, rule, "it is not a list of folders") })
				},
				"network_access": b.flag([]section{hosts}, func(rule string, on bool) {
					if on {
						b.drop(rule, "it allows every host; name the hosts")
					}
				}),
			}), nil)
		},
		"features": func(rule string, v *document.Node) {
			b.table(rule, v, everything, without(codexFeatures, keys{"shell_tool": b.flag([]section{commands}, func(rule string, on bool) {
				if !on {
					b.add(commands, policy.Deny, rule, "**")
				}
			})}), nil)
		},
		"tools": func(rule string, v *document.Node) {
			b.table(rule, v, everything, without("web_search view_image", nil), nil)
		},
		"apps":    b.named("a policy has no tools like these; none is allowed"),
		"plugins": b.named("a policy has no tools like these; none is allowed"),
		"hooks":   b.hooks,
	})
}

// hooks reads the hooks of an agent. A hook before a call can refuse the call.
func (b *builder) hooks(rule string, v *document.Node) {
	b.table(rule, v, everything, without("PostToolUse PostToolUseFailure Notification Stop StopFailure SubagentStart SubagentStop SessionStart SessionEnd PreCompact "+
		"PostCompact Setup ConfigChange WorktreeCreate WorktreeRemove InstructionsLoaded TeammateIdle TaskCompleted state", keys{
		"PreToolUse":        func(rule string, _ *document.Node) { b.refuseEach(everything, rule, "a hook can refuse every call") },
		"PermissionRequest": func(rule string, _ *document.Node) { b.refuseEach(everything, rule, "a hook can refuse every call") },
		"UserPromptSubmit":  nil,
	}), nil)
}

// codexModes adds the calls that the configuration allows under each of its profiles: a policy
// does not know the chosen one.
func (b *builder) codexModes(base codexMode, profiles []codexMode) {
	variants := []codexMode{base}
	for _, p := range profiles {
		for _, dir := range p.roots {
			b.drop("writable_roots: "+dir, "it is for one profile only")
		}
		v := base
		if p.sandbox != nil {
			v.sandbox = p.sandbox
		}
		if p.approval != nil {
			v.approval = p.approval
		}
		variants = append(variants, v)
	}
	reading, writing, running := true, true, true
	for _, v := range variants {
		switch {
		case v.sandbox == nil:
			b.drop("sandbox_mode", "there is none; nothing is allowed")
			return
		case v.sandbox.Is("read-only"):
			writing = false
		case v.sandbox.Is("workspace-write"):
		case v.sandbox.Is("danger-full-access"):
			b.drop("sandbox_mode: danger-full-access", "it allows everything")
			return
		default:
			b.drop("sandbox_mode: "+v.sandbox.Describe(), "it is not a known mode; nothing is allowed")
			return
		}
		if a := v.approval; a == nil || !slices.ContainsFunc([]string{"never", "on-request", "on-failure"}, a.Is) {
			text := "untrusted"
			if a != nil {
				text = a.Describe()
			}
			b.drop("approval_policy: "+text, "it asks about commands; name those that are allowed")
			running = false
		}
	}
	if reading {
		b.add(reads, policy.Allow, "sandbox_mode", "**")
	}
	if writing {
		b.add(writes, policy.Allow, "sandbox_mode", "**")
		for _, dir := range base.roots {
			b.folder(writes, "writable_roots: "+dir, dir)
			b.folder(reads, "writable_roots: "+dir, dir)
		}
	}
	if running {
		b.add(commands, policy.Allow, "approval_policy", "**") // they run in the sandbox without a question
	}
}

// codexProjects reads which projects the person trusts.
func (b *builder) codexProjects(rule string, v *document.Node) {
	b.table(rule, v, everything, nil, func(string) reader {
		return func(rule string, v *document.Node) {
			b.table(rule, v, everything, keys{"trust_level": func(rule string, v *document.Node) {
				if !v.Is("trusted") {
					b.refuseEach(everything, rule, "the project is not trusted")
				}
			}}, nil)
		}
	})
}

// codexServers reads MCP servers. Of a server only approved tools are allowed, except tools with a
// mode of their own.
func (b *builder) codexServers(rule string, v *document.Node) {
	b.table(rule, v, []section{tools}, nil, func(name string) reader {
		return func(rule string, v *document.Node) { b.codexServer(rule, name, v) }
	})
}

func (b *builder) codexServer(rule, name string, n *document.Node) {
	kind := []section{tools}
	approved, only, listed := false, []string(nil), false
	bad := func(rule string) { b.refuseEach(kind, rule, "it is not a list of tools") }
	b.table(rule, n, kind, without("command args env env_vars cwd url bearer_token_env_var http_headers env_http_headers startup_timeout_sec startup_timeout_ms "+
		"tool_timeout_sec required scopes oauth oauth_resource name supports_parallel_tool_calls", keys{
		"enabled":                     b.enabled(name),
		"default_tools_approval_mode": func(_ string, v *document.Node) { approved = v.Is("approve") },
		"enabled_tools":               func(rule string, v *document.Node) { only, listed = b.texts(v, rule, bad), true },
		"disabled_tools": func(rule string, v *document.Node) {
			for _, t := range b.texts(v, rule, bad) {
				b.mcp(policy.Deny, rule, name, t)
			}
		},
		"tools": func(rule string, v *document.Node) {
			b.table(rule, v, kind, nil, func(tool string) reader {
				return func(rule string, v *document.Node) { b.codexTool(rule, name, tool, v) }
			})
		},
	}), nil)
	switch {
	case !approved:
		b.drop(rule, "its tools are asked about")
	case !listed:
		b.mcp(policy.Allow, rule, name, "")
	}
	for _, t := range only {
		if approved && !strings.Contains(t, "*") {
			b.mcp(policy.Allow, rule+".enabled_tools", name, t)
		}
	}
}

// codexTool reads the settings of one tool. Approval of one tool is not carried over: whether its
// server offers it is decided elsewhere.
func (b *builder) codexTool(rule, server, tool string, n *document.Node) {
	b.table(rule, n, []section{tools}, keys{
		"approval_mode": func(rule string, v *document.Node) {
			if v.Is("approve") {
				b.drop(rule, "only default_tools_approval_mode is carried over")
				return
			}
			b.mcp(policy.Ask, rule, server, tool)
		},
		"enabled": b.flag([]section{tools}, func(rule string, on bool) {
			if !on {
				b.mcp(policy.Deny, rule, server, tool)
			}
		}),
	}, nil)
}

// codexEffects are the decisions of prefix_rule.
var codexEffects = map[string]policy.Effect{"allow": policy.Allow, "prompt": policy.Ask, "forbidden": policy.Deny}

// maxProduct bounds the entries that one rule with alternatives makes.
const maxProduct = 256

// codexRule adds a prefix_rule.
func (b *builder) codexRule(rule string, args map[string]any) error {
	for _, key := range sortedKeys(args) {
		if !slices.Contains([]string{"pattern", "decision", "justification", "match", "not_match"}, key) {
			return b.invalid(nil, "rules: "+rule+" has the unknown argument "+key)
		}
	}
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
