package translate

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
)

// codexRules reads a file of Codex's rules: calls with literal arguments. A file with anything
// else is an error, as what it computes could refuse.
func (b *builder) codexRules(src string) error {
	p := &ruleParser{src: src, line: 1}
	for n := 0; ; n++ {
		p.space()
		if p.src == "" {
			return nil
		}
		line := p.line
		name, args, want := p.call()
		if want != "" {
			return b.invalidLine(p.line, want)
		}
		rule := fmt.Sprintf("line %d: %s", line, name)
		switch name {
		case "prefix_rule":
			if err := b.codexRule(rule, args); err != nil {
				return err
			}
		case "network_rule":
			b.refuse(hosts, policy.Ask, rule, "rules of the network are not translated")
		case "host_executable":
			b.drop(rule, "a policy finds programs on the trusted PATH")
		default:
			return b.invalidLine(line, "prefix_rule, host_executable or network_rule")
		}
	}
}

// ruleParser reads calls. Its methods return what they expected, "" if they found it.
type ruleParser struct {
	src  string
	line int
}

// space skips white space and comments.
func (p *ruleParser) space() {
	for p.src != "" {
		switch p.src[0] {
		case '\n':
			p.line++
			p.src = p.src[1:]
		case ' ', '\t', '\r':
			p.src = p.src[1:]
		case '#':
			i := strings.IndexByte(p.src, '\n')
			if i < 0 {
				i = len(p.src)
			}
			p.src = p.src[i:]
		default:
			return
		}
	}
}

func (p *ruleParser) take(c byte) bool {
	p.space()
	if p.src == "" || p.src[0] != c {
		return false
	}
	p.src = p.src[1:]
	return true
}

func (p *ruleParser) word() string {
	p.space()
	i := 0
	for i < len(p.src) && (p.src[i] == '_' || p.src[i] >= 'a' && p.src[i] <= 'z' || p.src[i] >= 'A' && p.src[i] <= 'Z' || i > 0 && p.src[i] >= '0' && p.src[i] <= '9') {
		i++
	}
	w := p.src[:i]
	p.src = p.src[i:]
	return w
}

func (p *ruleParser) call() (name string, args map[string]any, want string) {
	if name = p.word(); name == "" || !p.take('(') {
		return "", nil, "a call"
	}
	args = map[string]any{}
	for !p.take(')') {
		key := p.word()
		if key == "" || !p.take('=') {
			return "", nil, "NAME = VALUE"
		}
		if _, twice := args[key]; twice {
			return "", nil, "each argument once"
		}
		if args[key], want = p.value(0); want != "" {
			return "", nil, want
		}
		if !p.take(',') {
			if !p.take(')') {
				return "", nil, "a comma or a closing parenthesis"
			}
			break
		}
	}
	return name, args, ""
}

// maxNesting bounds lists in lists.
const maxNesting = 8

func (p *ruleParser) value(depth int) (v any, want string) {
	p.space()
	switch {
	case p.src == "" || depth > maxNesting:
		return nil, "a value"
	case p.src[0] == '"' || p.src[0] == '\'':
		return p.text()
	case p.src[0] == '[':
		p.take('[')
		list := []any{}
		for !p.take(']') {
			one, want := p.value(depth + 1)
			if want != "" {
				return nil, want
			}
			list = append(list, one)
			if !p.take(',') {
				if !p.take(']') {
					return nil, "a comma or a closing bracket"
				}
				break
			}
		}
		return list, ""
	}
	switch w := p.word(); w {
	case "True", "False", "None":
		return w, ""
	}
	return nil, "a text or a list"
}

func (p *ruleParser) text() (string, string) {
	q := p.src[0]
	if strings.HasPrefix(p.src, strings.Repeat(string(q), 3)) {
		return "", "a text in single quotation marks, not triple ones"
	}
	var out strings.Builder
	for i := 1; i < len(p.src); i++ {
		switch c := p.src[i]; c {
		case q:
			p.src = p.src[i+1:]
			if s := out.String(); utf8.ValidString(s) {
				p.space()
				if p.src != "" && strings.IndexByte(",)]", p.src[0]) < 0 {
					return "", "one text, not an expression"
				}
				return s, ""
			}
			return "", "UTF-8"
		case '\n':
			return "", "the end of a text in its line"
		case '\\':
			if i++; i >= len(p.src) || strings.IndexByte(`\"'`, p.src[i]) < 0 {
				return "", "no other escapes than for quotation marks and backslashes"
			}
			out.WriteByte(p.src[i])
		default:
			out.WriteByte(c)
		}
	}
	return "", "the end of a text"
}
