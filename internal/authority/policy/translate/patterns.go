package translate

import (
	"net/url"
	"regexp/syntax"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
)

// special are characters of the shell: a rule with them does not name plain words.
const special = "|&;<>()$`\\\"'\n\r\t~#!{}[]?"

// notWords is the reason for a rule that does not name plain words.
const notWords = "it has characters that a shell reads"

// words cuts plain words. ok is false if a shell would read more in them.
func words(text string) (list []string, ok bool) {
	if strings.ContainsAny(text, special) || strings.TrimSpace(text) == "" {
		return nil, false
	}
	list = strings.Fields(text)
	return list, !strings.Contains(list[0], "=") // an assignment
}

// prefix adds commands that begin with plain words.
func (b *builder) prefix(e policy.Effect, rule, text string) {
	b.commandWords(e, rule, text, true)
}

// commandWords adds commands of plain words, with open also those with more words behind them.
func (b *builder) commandWords(e policy.Effect, rule, text string, open bool) {
	list, ok := words(text)
	if !ok {
		b.refuse(commands, e, rule, notWords)
		return
	}
	for i, w := range list {
		list[i] = command.Escape(w)
	}
	if open {
		list = append(list, "**")
	}
	b.add(commands, e, rule, strings.Join(list, " "))
}

// wildcard adds a command pattern in which * stands for any text, spaces included. A space and *
// at its end also match nothing.
func (b *builder) wildcard(e policy.Effect, rule, text string) {
	body, open := strings.CutSuffix(text, " *")
	if !strings.Contains(body, "*") {
		b.commandWords(e, rule, body, open)
		return
	}
	list, ok := words(body)
	switch {
	case !ok:
		b.refuse(commands, e, rule, notWords)
		return
	case strings.Contains(list[0], "*"):
		b.refuse(commands, e, rule, "its program is a wildcard")
		return
	}
	var out []string
	for _, w := range list {
		before, _, star := strings.Cut(w, "*")
		switch {
		case !star:
			out = append(out, command.Escape(w))
			continue
		case e != policy.Allow && w == "*":
			out = append(out, "**")
		case e != policy.Allow: // whatever follows a wildcard within a word
			b.drop(rule, "widened: it refuses every command that begins like it")
			if before != "" {
				out = append(out, command.Escape(before)+"*")
			}
			b.add(commands, e, rule, strings.Join(append(out, "**"), " "))
			return
		default: // within this word only
			parts := strings.Split(w, "*")
			for i, p := range parts {
				if p != "" {
					parts[i] = command.Escape(p)
				}
			}
			out = append(out, strings.Join(parts, "*"))
		}
	}
	if open {
		out = append(out, "**")
	}
	b.add(commands, e, rule, strings.Join(out, " "))
}

// regex adds a regular expression over command lines, if it is a text at the beginning and
// little more.
func (b *builder) regex(e policy.Effect, rule, expr string) {
	text, whole, ok := literal(expr)
	switch {
	case !ok:
		b.refuse(commands, e, rule, "it is a regular expression")
	case e == policy.Allow:
		b.commandWords(e, rule, text, !whole)
	default: // it matches longer words, too
		list, ok := words(text)
		if !ok || strings.Contains(text, "*") {
			b.refuse(commands, e, rule, notWords)
			return
		}
		for i, w := range list {
			list[i] = command.Escape(w)
		}
		b.add(commands, e, rule, strings.Join(list, " ")+"* **")
	}
}

// literal reads ^TEXT, ^TEXT\b, ^TEXT(\s|$), ^TEXT\s, ^TEXT.* and ^TEXT$. Whole: no text follows.
func literal(expr string) (text string, whole, ok bool) {
	for _, end := range []string{`(\s|$)`, `(?:\s|$)`, `( |$)`, `(\s.*)?$`, `( .*)?$`, `\b.*$`, `\b.*`, `\b`, `\s+.*`, `\s+`, `\s`, `.*$`, `.*`} {
		if cut, found := strings.CutSuffix(expr, end); found {
			expr = cut
			break
		}
	}
	body, whole := strings.CutSuffix(expr, "$")
	body, anchored := strings.CutPrefix(body, "^")
	re, err := syntax.Parse(body, syntax.Perl)
	if err != nil || !anchored || re.Op != syntax.OpLiteral || re.Flags&syntax.FoldCase != 0 || strings.TrimSpace(string(re.Rune)) == "" {
		return "", false, false
	}
	return string(re.Rune), whole, true
}

// path adds a pattern of files as .gitignore reads them: one without a slash matches at any
// depth, and a folder with all that is in it.
func (b *builder) path(s section, e policy.Effect, rule, text string) {
	switch {
	case text == "" || strings.ContainsAny(text, "[]!\\\n\r\t") || text != strings.TrimSpace(text):
		b.refuse(s, e, rule, "the pattern has characters that a policy reads differently")
		return
	case strings.HasPrefix(text, "//"):
		text = text[1:]
	case strings.HasPrefix(text, "/"): // relative to where the rules are kept
		if e == policy.Allow {
			b.refuse(s, e, rule, "it is relative to the folder of the settings file; write it relative to the workspace")
			return
		}
		text = "**" + text
	case strings.HasPrefix(text, "~/"):
	default:
		text = strings.TrimPrefix(text, "./")
		if !strings.Contains(strings.TrimSuffix(text, "/"), "/") && text != "**" {
			text = "**/" + text
		}
	}
	text = strings.NewReplacer("{", `\{`, "}", `\}`).Replace(strings.TrimSuffix(text, "/"))
	list := []string{text}
	if e == policy.Allow && !strings.HasSuffix(text, "/**") && text != "**" {
		list = append(list, text+"/**")
	}
	b.add(s, e, rule, list...)
}

// folder adds a folder with all that is in it.
func (b *builder) folder(s section, rule, dir string) {
	if !strings.HasPrefix(dir, "/") && !strings.HasPrefix(dir, "~/") || strings.Contains(dir+"/", "/../") {
		b.drop(rule, "the folder is neither absolute nor below ~/")
		return
	}
	dir = strings.TrimSuffix(dir, "/")
	if dir == "" || dir == "~" {
		b.drop(rule, "it is too wide: the whole file system, or the whole home folder")
		return
	}
	b.add(s, policy.Allow, rule, glob.Escape(dir)+"/**")
}

// host adds a host, or *.host. Allowed are requests of this method; refused is every one.
func (b *builder) host(e policy.Effect, rule, method, host string) {
	name := strings.TrimPrefix(host, "*.")
	u, err := url.Parse("https://" + name)
	if err != nil || u.Host != name || name == "" || strings.ContainsAny(name, "*?{}[]@ /") {
		b.refuse(hosts, e, rule, "it does not name a host")
		return
	}
	if e != policy.Deny {
		host = "https://" + host
	}
	if method != "" && e != policy.Deny {
		host = method + " " + host + "/**"
	}
	b.add(hosts, e, rule, host)
}

// mcp adds the tools of an MCP server; tool "": all of them.
func (b *builder) mcp(e policy.Effect, rule, server, tool string) {
	if tool == "" {
		tool = "*"
	}
	if server == "" || strings.ContainsAny(server+tool, ":/ \n?[]{}\\") || strings.Contains(server, "*") || e == policy.Allow && strings.Contains(strings.TrimSuffix(tool, "*"), "*") {
		b.refuse(tools, e, rule, "it does not name an MCP server and a tool")
		return
	}
	b.add(tools, e, rule, "mcp:"+server+":"+tool)
}

// invalid is the error for a source that cannot be read.
func (b *builder) invalid(err error, want string) error {
	return fault.Wrap(fault.Usage, err, "not valid %s", want).At(fault.Pos{File: b.file})
}
