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

// claude reads the permissions of Claude Code's settings.json.
func (b *builder) claude(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	p := at(n, "permissions")
	for _, list := range []struct {
		key string
		e   policy.Effect
	}{{"deny", policy.Deny}, {"ask", policy.Ask}, {"allow", policy.Allow}} {
		key := "permissions." + list.key
		for _, rule := range b.texts(at(p, list.key), key, func(rule string) { b.refuseAll(list.e, rule, "it is not a list of rules") }) {
			b.claudeRule(list.e, rule)
		}
	}
	b.add(reads, policy.Allow, "reading in the workspace", "**") // needs no rule in the source
	for _, dir := range b.texts(at(p, "additionalDirectories"), "permissions.additionalDirectories", func(rule string) { b.drop(rule, "it is not a list of folders") }) {
		b.folder(reads, "permissions.additionalDirectories: "+dir, dir)
	}
	b.claudeMode(at(p, "defaultMode"))
	b.claudeSandbox(at(n, "sandbox"))
	return nil
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
	default:
		b.drop("permissions.defaultMode: "+mode.Text, "it allows without rules")
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
	default:
		b.drop(rule, "a policy has no tool like %q", name)
	}
}

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
	if s == reads && e != policy.Allow { // what must not be read is not written either
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

// claudeSandbox reads what the sandbox of commands may reach.
func (b *builder) claudeSandbox(n *document.Node) {
	if n == nil {
		return
	}
	on := at(n, "enabled")
	for _, p := range n.Pairs {
		switch p.Key.Text {
		case "enabled", "network", "filesystem":
		default:
			b.drop("sandbox."+p.Key.Text, "Remit has a sandbox of its own")
		}
	}
	list := func(keys ...string) []string {
		key := "sandbox." + strings.Join(keys, ".")
		return b.texts(at(n, keys...), key, func(rule string) { b.refuseAll(policy.Ask, rule, "it is not a list") })
	}
	for _, h := range list("network", "deniedDomains") {
		b.host(policy.Deny, "sandbox.network.deniedDomains: "+h, "", h)
	}
	for _, h := range list("network", "allowedDomains") {
		if rule := "sandbox.network.allowedDomains: " + h; on == nil || on.Text != "true" {
			b.drop(rule, "dead: the sandbox is not enabled")
		} else if auto := at(n, "autoAllowBashIfSandboxed"); auto != nil && auto.Text != "true" {
			b.drop(rule, "it is for commands alone; a policy has one rule for all")
		} else {
			b.host(policy.Allow, rule, "", h)
		}
	}
	for _, f := range list("filesystem", "denyRead") {
		b.path(reads, policy.Deny, "sandbox.filesystem.denyRead: "+f, f)
	}
	for _, f := range list("filesystem", "denyWrite") {
		b.path(writes, policy.Deny, "sandbox.filesystem.denyWrite: "+f, f)
	}
	for _, key := range []string{"allowRead", "allowWrite"} {
		for _, f := range list("filesystem", key) {
			b.drop("sandbox.filesystem."+key+": "+f, "it is for commands alone; a policy has one rule for all")
		}
	}
}
