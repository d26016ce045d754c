package translate

import (
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

// openCode reads permission of opencode.json.
func (b *builder) openCode(src []byte) error {
	n, err := b.readJSON(src)
	if err != nil {
		return err
	}
	p := at(n, "permission")
	if p == nil {
		b.drop("permission", "there is none: the source allows everything by default, a policy nothing")
		return nil
	}
	if p.Kind != document.Mapping {
		b.drop("permission", "it is for every tool alike")
		return nil
	}
	for _, pair := range p.Pairs {
		key := pair.Key.Text
		list := b.lastWins(key, pair.Value)
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
			b.openCodeTool(key, openCodeEffect(pair.Value), list)
			continue
		}
		if b.catchesAll(pair.Value) {
			b.openCodeRest(key, pair.Value)
		}
	}
	return nil
}

// catchesAll reports whether a value has a rule for everything.
func (b *builder) catchesAll(n *document.Node) bool {
	return n.Kind == document.String || at(n, "*") != nil
}

// openCodeRest names what a rule for everything comes to.
func (b *builder) openCodeRest(key string, n *document.Node) {
	rule := "permission." + key
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

// lastWins reads the rules of one key. What a later rule for everything replaces is dead; that
// rule itself is not in the list, as a policy denies what no entry allows.
func (b *builder) lastWins(key string, n *document.Node) []action {
	if n.Kind != document.Mapping {
		return nil
	}
	var out []action
	for i, p := range n.Pairs {
		rule := "permission." + key + "." + p.Key.Text
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
func (b *builder) openCodeTool(key string, e policy.Effect, list []action) {
	rule := "permission." + key
	if slices.Contains([]string{"*", "glob", "grep", "list", "task", "skill", "external_directory", "doom_loop", "todowrite", "todoread", "websearch", "codesearch", "lsp", "question"}, key) {
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
