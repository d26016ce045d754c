package plan

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/document"
)

// expr is a parsed condition.
type expr struct {
	op   string // "lit", "ref", "success", "failure", "always", "!", "==", "<", "&&", ...
	val  any
	ref  *ref
	kids []*expr
}

// ref is a reference to a value.
type ref struct {
	text  string // as written
	root  string // "inputs" or "steps"
	name  string // of the input or step
	part  string // of a step: "output", "status", "error"
	path  []segment
	step  int            // index of the step, once linked
	at    *document.Node // the string that holds it
	field string
}

// segment is one .FIELD, ['FIELD'] or [INDEX].
type segment struct {
	key   string
	index int // -1 for a key
}

const (
	maxNesting   = 50
	maxCondition = 64 << 10
)

// scanner reads expressions. The first problem ends it.
type scanner struct {
	s     string
	at    int
	depth int
	refs  []*ref
	err   error
}

func (p *scanner) fail(format string, args ...any) {
	if p.err == nil {
		p.err = fmt.Errorf("%s (at byte %d)", fmt.Sprintf(format, args...), p.at+1)
		p.at = len(p.s)
	}
}

func (p *scanner) space() {
	for p.at < len(p.s) && strings.IndexByte(" \t\r\n", p.s[p.at]) >= 0 {
		p.at++
	}
}

// take reads a token after spaces, if it is there.
func (p *scanner) take(token string) bool {
	p.space()
	if strings.HasPrefix(p.s[p.at:], token) {
		p.at += len(token)
		return true
	}
	return false
}

func isIdent(c byte) bool {
	return c == '_' || c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

func (p *scanner) ident() string {
	start := p.at
	for p.at < len(p.s) && isIdent(p.s[p.at]) {
		p.at++
	}
	return p.s[start:p.at]
}

// parseCondition reads a whole condition, with or without ${{ }} around it.
func parseCondition(s string) (*expr, []*ref, error) {
	if len(s) > maxCondition {
		return nil, nil, fmt.Errorf("a condition has at most %d bytes", maxCondition)
	}
	p := &scanner{s: s}
	e := p.or()
	if p.space(); p.at < len(p.s) {
		p.fail("unexpected %q", excerpt(p.s[p.at:]))
	}
	return e, p.refs, p.err
}

func excerpt(s string) string {
	if r := []rune(s); len(r) > 20 {
		return string(r[:20]) + "…"
	}
	return s
}

func (p *scanner) or() *expr {
	e := p.and()
	for p.take("||") {
		e = &expr{op: "||", kids: []*expr{e, p.and()}}
	}
	return e
}

func (p *scanner) and() *expr {
	e := p.equality()
	for p.take("&&") {
		e = &expr{op: "&&", kids: []*expr{e, p.equality()}}
	}
	return e
}

func (p *scanner) equality() *expr { return p.chain([]string{"==", "!="}, p.order) }
func (p *scanner) order() *expr    { return p.chain([]string{"<=", ">=", "<", ">"}, p.unary) }

// chain reads one comparison. a < b < c has no sensible meaning and is refused.
func (p *scanner) chain(ops []string, operand func() *expr) *expr {
	e := operand()
	for n := 0; ; n++ {
		op := ""
		for _, o := range ops {
			if p.take(o) {
				op = o
				break
			}
		}
		if op == "" {
			return e
		}
		if n > 0 {
			p.fail("comparisons cannot be chained; use && and parentheses")
			return e
		}
		e = &expr{op: op, kids: []*expr{e, operand()}}
	}
}

func (p *scanner) unary() *expr {
	if p.depth++; p.depth > maxNesting {
		p.fail("nested deeper than %d", maxNesting)
		return &expr{op: "lit"}
	}
	defer func() { p.depth-- }()
	p.space()
	switch {
	case p.at >= len(p.s):
		p.fail("a value is missing")
		return &expr{op: "lit"}
	case strings.HasPrefix(p.s[p.at:], "!="):
		p.fail("a value is missing before !=")
		return &expr{op: "lit"}
	case p.take("!"):
		return &expr{op: "!", kids: []*expr{p.unary()}}
	case p.take("("):
		return p.closed(")")
	case p.take("${{"):
		return p.closed("}}")
	}
	return p.primary()
}

func (p *scanner) closed(end string) *expr {
	e := p.or()
	if !p.take(end) {
		p.fail("%q is missing", end)
	}
	return e
}

func (p *scanner) primary() *expr {
	c := p.s[p.at]
	switch {
	case c == '\'':
		return &expr{op: "lit", val: p.quoted()}
	case c == '-' || c >= '0' && c <= '9':
		return &expr{op: "lit", val: p.number()}
	case c == '"':
		p.fail("text stands in single quotes")
		return &expr{op: "lit"}
	}
	start := p.at
	switch word := p.ident(); word {
	case "true", "false":
		return &expr{op: "lit", val: word == "true"}
	case "null":
		return &expr{op: "lit"}
	case "success", "failure", "always":
		if !p.take("(") || !p.take(")") {
			p.fail("%s() takes no arguments and needs its parentheses", word)
		}
		return &expr{op: word}
	case "inputs", "steps":
		p.at = start
		return &expr{op: "ref", ref: p.reference()}
	case "":
		p.fail("unexpected %q", excerpt(p.s[p.at:]))
	default:
		p.at = start
		p.fail("%q is not a valid value; expected inputs.NAME, steps.ID.output, 'text', a number, true, false, null, success(), failure() or always()", word)
	}
	return &expr{op: "lit"}
}

func (p *scanner) quoted() string {
	p.at++
	var b strings.Builder
	for p.at < len(p.s) {
		c := p.s[p.at]
		p.at++
		if c != '\'' {
			b.WriteByte(c)
			continue
		}
		if p.at >= len(p.s) || p.s[p.at] != '\'' {
			return b.String()
		}
		b.WriteByte('\'')
		p.at++
	}
	p.fail("the closing quote is missing")
	return ""
}

func (p *scanner) number() any {
	start := p.at
	for p.at < len(p.s) && (isIdent(p.s[p.at]) || p.s[p.at] == '.' || p.s[p.at] == '+') {
		p.at++
	}
	v, err := canon.Decode([]byte(p.s[start:p.at]))
	if err == nil {
		_, err = canon.Marshal(v)
	}
	if n, ok := v.(json.Number); ok && err == nil {
		return n
	}
	word := p.s[start:p.at]
	p.at = start
	p.fail("%q is not a number", word)
	return nil
}

// reference reads inputs.NAME… or steps.ID.PART….
func (p *scanner) reference() *ref {
	p.space()
	start := p.at
	r := &ref{root: p.ident()}
	if r.root != "inputs" && r.root != "steps" {
		p.at = start
		p.fail("a reference begins with inputs or steps, not %q", excerpt(p.s[start:]))
		return r
	}
	r.path = p.path()
	r.text = p.s[start:p.at]
	p.refs = append(p.refs, r)
	r.name = p.head(r, "a name")
	if r.root == "steps" && p.err == nil {
		r.part = p.head(r, "output, status or error")
	}
	return r
}

// head takes the first key off a reference's path.
func (p *scanner) head(r *ref, what string) string {
	if len(r.path) == 0 || r.path[0].index >= 0 {
		p.fail("%s must be followed by .%s", r.text, what)
		return ""
	}
	k := r.path[0].key
	r.path = r.path[1:]
	return k
}

func (p *scanner) path() []segment {
	var out []segment
	for p.at < len(p.s) {
		switch p.s[p.at] {
		case '.':
			p.at++
			key := p.ident()
			if key == "" {
				p.fail("a field's name is missing")
			}
			out = append(out, segment{key, -1})
		case '[':
			p.at++
			out = append(out, p.bracket())
		default:
			return out
		}
		if len(out) > maxDepth {
			p.fail("a reference has at most %d parts", maxDepth)
		}
	}
	return out
}

func (p *scanner) bracket() segment {
	p.space()
	seg := segment{index: -1}
	if p.at < len(p.s) && p.s[p.at] == '\'' {
		seg.key = p.quoted()
	} else {
		start := p.at
		word := p.ident()
		n, err := strconv.Atoi(word)
		if err != nil || n < 0 || strconv.Itoa(n) != word {
			p.at = start
			p.fail("[ ] holds an index or a 'field'")
		}
		seg.index = n
	}
	if !p.take("]") {
		p.fail("%q is missing", "]")
	}
	return seg
}
