package translate

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// readJSON reads JSON with comments, in the order of the file.
func (b *builder) readJSON(src []byte) (*document.Node, error) {
	r := document.NewReader(b.file, document.Options{Code: fault.Usage, Noun: "settings", MaxBytes: MaxSource, AnyText: true})
	n := r.ReadJSON(document.StripComments(src))
	if err := r.Err(); err != nil {
		return nil, err
	}
	if n == nil || n.Kind != document.Mapping {
		return nil, fault.New(fault.Usage, "not valid settings; expected a JSON object").At(fault.Pos{File: b.file})
	}
	return n, nil
}

// at finds a value by its keys, or nil.
func at(n *document.Node, keys ...string) *document.Node {
	for _, k := range keys {
		if n == nil {
			return nil
		}
		n = n.Lookup(k)
	}
	return n
}

// texts are the strings of a list. Other values are dropped, or refused where they refuse.
func (b *builder) texts(n *document.Node, key string, other func(rule string)) []string {
	if n == nil {
		return nil
	}
	var out []string
	items := n.Items
	if n.Kind != document.List {
		items = []*document.Node{n}
	}
	for _, item := range items {
		if item.Kind == document.String && n.Kind == document.List {
			out = append(out, item.Text)
		} else {
			other(key)
		}
	}
	return out
}

// claudeNeutral are the keys of settings.json that neither allow nor refuse a call.
const claudeNeutral = "$schema agent advisorModel allowManagedHooksOnly allowManagedMcpServersOnly allowManagedPermissionRulesOnly allowedChannelPlugins allowedHttpHookUrls " +
	"alwaysThinkingEnabled apiKeyHelper attribution autoConnectIde autoMemoryDirectory autoMemoryEnabled autoScrollEnabled autoUpdates autoUpdatesChannel " +
	"availableModels awsAuthRefresh awsCredentialExport blockedMarketplaces channelsEnabled claudeMdExcludes cleanupPeriodDays companyAnnouncements " +
	"defaultShell disableAllHooks disableDeepLinkRegistration editorMode effortLevel enableAllProjectMcpServers enabledMcpjsonServers enabledPlugins env " +
	"extraKnownMarketplaces fastMode fastModePerSessionOptIn feedbackSurveyRate fileSuggestion forceLoginMethod forceLoginOrgUUID gcpAuthRefresh gitAttribution " +
	"httpHookAllowedEnvVars includeCoAuthoredBy includeGitInstructions keepTranscripts language minimumVersion model modelOverrides onFailure otelHeadersHelper outputStyle " +
	"plansDirectory pluginConfigs pluginTrustMessage pluginSuggestionMarketplaces preferredNotifChannel prefersReducedMotion promptSuggestionEnabled respectGitignore " +
	"showClearContextOnPlanAccept showThinkingSummaries showTurnDuration skipDangerousModePermissionPrompt skipWebFetchPreflight skippedMarketplaces " +
	"skippedPlugins spinnerTipsEnabled spinnerTipsOverride spinnerVerbs sshConfigs statusLine strictKnownMarketplaces strictPluginOnlyCustomization subagentStatusLine " +
	"syntaxHighlightingDisabled teammateMode terminalProgressBarEnabled theme tui verbose viewMode voice voiceEnabled wheelScrollAccelerationEnabled worktree"

// claude reads the permissions of Claude Code's settings.json.
func (b *builder) claude(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	b.drop("other settings files", "each scope refuses by itself (managed, user, project, local); translate those, too")
	var mode *document.Node
	b.table("", n, everything, without(claudeNeutral, keys{
		"permissions": func(rule string, v *document.Node) { mode = b.claudePermissions(rule, v) },
		"sandbox":     b.claudeSandbox,
		"hooks":       b.hooks,
		"disabledMcpjsonServers": func(rule string, v *document.Node) {
			for _, name := range b.texts(v, rule, func(rule string) { b.refuse(tools, policy.Ask, rule, "it is not a list of servers") }) {
				b.denyServer(rule, name)
			}
		},
		"deniedMcpServers": func(rule string, v *document.Node) {
			for _, name := range b.claudeServers(rule, v) {
				b.denyServer(rule, name)
			}
		},
		"allowedMcpServers": func(rule string, v *document.Node) {
			b.claudeServers(rule, v)
			b.refuse(tools, policy.Ask, rule, "it refuses all other servers")
		},
	}), nil)
	b.add(reads, policy.Allow, "reading in the workspace", "**") // needs no rule in the source
	b.claudeMode(mode)
	return nil
}

// claudeServers returns the servers that a list names by their names.
func (b *builder) claudeServers(rule string, v *document.Node) (names []string) {
	if v.Kind != document.List {
		b.refuse(tools, policy.Ask, rule, "it is not a list of servers")
	}
	for _, item := range v.Items {
		if len(item.Pairs) == 1 && item.Pairs[0].Key.Text == "serverName" && item.Pairs[0].Value.Kind == document.String {
			names = append(names, item.Pairs[0].Value.Text)
			continue
		}
		b.refuse(tools, policy.Ask, rule, "it does not name a server by its name")
	}
	return names
}

// claudePermissions reads the rules and returns the default mode.
func (b *builder) claudePermissions(rule string, n *document.Node) (mode *document.Node) {
	rules := func(e policy.Effect) reader {
		return func(rule string, v *document.Node) {
			for _, r := range b.texts(v, rule, func(rule string) { b.refuseAll(e, rule, "it is not a list of rules") }) {
				b.claudeRule(e, r)
			}
		}
	}
	b.table(rule, n, everything, without("disableBypassPermissionsMode disableAutoMode", keys{
		"allow": rules(policy.Allow), "ask": rules(policy.Ask), "deny": rules(policy.Deny),
		"defaultMode": func(_ string, v *document.Node) { mode = v },
		"additionalDirectories": func(rule string, v *document.Node) {
			for _, dir := range b.texts(v, rule, func(rule string) { b.drop(rule, "it is not a list of folders") }) {
				b.folder(reads, rule+": "+dir, dir)
			}
		},
	}), nil)
	return mode
}

// refuseAll drops a rule of every kind.
func (b *builder) refuseAll(e policy.Effect, rule, reason string) {
	if e == policy.Allow {
		b.drop(rule, "%s", reason)
		return
	}
	for _, s := range sections {
		b.refuse(s, e, rule, reason)
	}
}

func (b *builder) claudeMode(mode *document.Node) {
	switch {
	case mode == nil || mode.Is("default") || mode.Is("dontAsk"):
	case mode.Is("acceptEdits"):
		b.add(writes, policy.Allow, "permissions.defaultMode: acceptEdits", "**")
	case mode.Is("plan"):
		b.add(writes, policy.Deny, "permissions.defaultMode: plan", "**")
		b.drop("permissions.defaultMode: plan", "writing is denied; commands keep their rules")
		b.refuse(commands, policy.Ask, "permissions.defaultMode: plan", "planning allows no changes")
	case mode.Is("bypassPermissions") || mode.Is("auto"):
		b.drop("permissions.defaultMode: "+mode.Text, "it allows without rules")
	default:
		b.refuseEach(everything, "permissions.defaultMode: "+mode.Describe(), "it is not a known mode")
	}
	if l := b.lists[writes]; len(l[policy.Allow])+len(l[policy.Ask]) == 0 && !slices.Contains(l[policy.Deny], "/**") {
		b.add(writes, policy.Ask, "writing in the workspace", "**")
	}
}

// claudeRule reads one rule, as Bash(git *).
func (b *builder) claudeRule(e policy.Effect, rule string) {
	name, arg, has := strings.Cut(rule, "(")
	if has {
		var closed bool
		if arg, closed = strings.CutSuffix(arg, ")"); !closed {
			b.refuseAll(e, rule, "its parentheses do not match")
			return
		}
	}
	if arg == "*" || arg == "" {
		has = false
	}
	switch {
	case strings.HasPrefix(name, "mcp__"):
		b.claudeMCP(e, rule, name, has)
	case name == "Bash":
		b.claudeBash(e, rule, arg, has)
	case slices.Contains([]string{"Read", "Glob", "Grep", "LS", "NotebookRead"}, name):
		b.claudeFiles(reads, e, rule, name, arg, has)
	case slices.Contains([]string{"Edit", "Write", "MultiEdit", "NotebookEdit"}, name):
		b.claudeFiles(writes, e, rule, name, arg, has)
	case name == "WebFetch":
		b.claudeFetch(e, rule, arg, has)
	case name == "*" || strings.ContainsAny(name, "*?"):
		b.refuseAll(e, rule, "it names tools by a wildcard")
	case e == policy.Allow || slices.Contains(claudeOther, name):
		b.drop(rule, "a policy has no tool like %q", name)
	default:
		b.refuseAll(e, rule, "the tool is not known")
	}
}

// claudeOther are tools of Claude Code that a policy has no counterpart of, and allows nothing for.
var claudeOther = strings.Fields("Agent AskUserQuestion BashOutput CronCreate CronDelete CronList EnterPlanMode EnterWorktree ExitPlanMode ExitWorktree KillBash KillShell " +
	"ListMcpResourcesTool LSP ReadMcpResourceTool SendMessage Skill SlashCommand Task TaskCreate TaskGet TaskList TaskOutput TaskStop TaskUpdate TeamCreate TeamDelete TodoRead TodoWrite ToolSearch WebSearch")

func (b *builder) claudeBash(e policy.Effect, rule, arg string, has bool) {
	switch {
	case !has && e == policy.Allow:
		b.drop(rule, "it allows every command; name the commands")
	case !has && e == policy.Deny:
		b.add(commands, e, rule, "**")
	case !has:
		b.refuse(commands, e, rule, "it asks about every command")
	case strings.HasSuffix(arg, ":*"):
		b.wildcard(e, rule, strings.TrimSuffix(arg, ":*")+" *")
	case strings.Contains(arg, ":*"):
		b.refuse(commands, e, rule, "dead: \":*\" in the middle is not a wildcard in the source")
	case strings.HasSuffix(arg, "*") && !strings.HasSuffix(arg, " *"):
		b.wildcard(e, rule, arg+" *") // ls* goes on behind the word
	default:
		b.wildcard(e, rule, arg)
	}
}

func (b *builder) claudeFiles(s section, e policy.Effect, rule, name, arg string, has bool) {
	if has && name != "Read" && name != "Edit" {
		if e == policy.Allow {
			b.drop(rule, "dead: the source does not consult paths of %s; write Read(…) or Edit(…)", name)
			return
		}
		b.drop(rule, "dead: the source does not consult paths of %s; applied to %s here", name, s)
	}
	if !has {
		if e != policy.Allow && name != "Read" && name != "Edit" && name != "Write" {
			b.drop(rule, "applied to %s, for all tools", s)
		}
		arg = "**"
	}
	if !has && e == policy.Deny {
		b.add(s, e, rule, "/**")
		return
	}
	b.path(s, e, rule, arg)
	if s == reads && e != policy.Allow { // a file that must not be read is not written either
		b.path(writes, e, rule, arg)
	}
}

func (b *builder) claudeFetch(e policy.Effect, rule, arg string, has bool) {
	host, domain := strings.CutPrefix(arg, "domain:")
	switch {
	case !has && e == policy.Allow:
		b.drop(rule, "it allows every host; name the hosts")
	case !has && e == policy.Deny:
		b.add(hosts, e, rule, "*")
	case !has || !domain:
		b.refuse(hosts, e, rule, "it does not name a host")
	default:
		b.host(e, rule, "GET", host)
	}
}

func (b *builder) claudeMCP(e policy.Effect, rule, name string, has bool) {
	server, tool, _ := strings.Cut(strings.TrimPrefix(name, "mcp__"), "__")
	switch {
	case has:
		b.refuse(tools, e, rule, "its arguments are not consulted in the source")
	case server == "*" && e == policy.Allow:
		b.drop(rule, "dead: the source ignores mcp__* in allow")
	case server == "*" && e == policy.Deny:
		b.add(tools, e, rule, "mcp:**")
	default:
		b.mcp(e, rule, server, tool)
	}
}

// claudeSandbox reads the files and hosts of the sandbox for commands.
func (b *builder) claudeSandbox(rule string, n *document.Node) {
	kinds := []section{reads, writes, hosts, commands}
	list := func(each func(rule, text string)) reader {
		return func(rule string, v *document.Node) {
			for _, text := range b.texts(v, rule, func(rule string) { b.refuseEach(kinds, rule, "it is not a list") }) {
				each(rule+": "+text, text)
			}
		}
	}
	deny := func(s section) func(rule, text string) {
		return func(rule, text string) { b.path(s, policy.Deny, rule, text) }
	}
	alone := func(rule, _ string) { b.drop(rule, "it is for commands alone; a policy has one rule for all") }
	b.table(rule, n, kinds, without("enabled autoAllowBashIfSandboxed allowUnsandboxedCommands excludedCommands failIfUnavailable ignoreViolations enableWeakerNestedSandbox "+
		"enableWeakerNetworkIsolation bwrapPath socatPath ripgrep enabledPlatforms", keys{
		"network": func(rule string, v *document.Node) {
			b.table(rule, v, kinds, without("allowUnixSockets allowAllUnixSockets allowLocalBinding allowMachLookup allowManagedDomainsOnly httpProxyPort socksProxyPort", keys{
				"deniedDomains":  list(func(rule, host string) { b.host(policy.Deny, rule, "", host) }),
				"allowedDomains": list(func(rule, host string) { b.claudeDomain(rule, host, n) }),
			}), nil)
		},
		"filesystem": func(rule string, v *document.Node) {
			b.table(rule, v, kinds, without("allowManagedReadPathsOnly disabled", keys{
				"denyRead": list(deny(reads)), "denyWrite": list(deny(writes)),
				"allowRead": list(alone), "allowWrite": list(alone),
			}), nil)
		},
	}), nil)
}

// claudeDomain adds a host that the sandbox n allows to commands that it runs without a question.
func (b *builder) claudeDomain(rule, host string, n *document.Node) {
	on, auto := at(n, "enabled"), at(n, "autoAllowBashIfSandboxed")
	switch {
	case on == nil || on.Kind != document.Bool || on.Text != "true":
		b.drop(rule, "dead: the sandbox is not enabled")
	case auto != nil && (auto.Kind != document.Bool || auto.Text != "true"):
		b.drop(rule, "it is for commands alone; a policy has one rule for all")
	default:
		b.host(policy.Allow, rule, "", host)
	}
}
