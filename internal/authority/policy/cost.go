package policy

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/document"
)

// The bounds of what a policy costs in memory, whoever wrote it. A part takes
// about 2 KiB while the policy is read and bound, an instruction about 150 bytes.
const (
	// MaxParts bounds the parts of one policy: its values, its mappings once more,
	// and what the braces of its patterns expand to.
	MaxParts = 4000
	// MaxProgram bounds the instructions of all regular expressions of one policy.
	MaxProgram = 20000
	// MaxChainProgram bounds the instructions of all policies of one chain. A chain
	// with more denies every call.
	MaxChainProgram = 2 * MaxProgram

	maxMarks   = 2 * MaxParts // characters in one document that can begin a value
	roleParts  = 5            // further parts of a role, which is a policy of its own
	classSize  = 100          // instructions that a Unicode class counts as
	globPart   = 16           // bytes of expanded patterns that count as a part
	rangeRunes = 32           // ends of the ranges of a class that count as an instruction
)

// Parts is how many parts the policy has, its roles included: at most [MaxParts].
func (p *Policy) Parts() int { return p.parts }

// Program is the size of the policy's regular expressions, its roles included: at
// most [MaxProgram].
func (p *Policy) Program() int { return p.program }

// Size is about how many bytes the policy takes in memory once its expressions are compiled.
func (p *Policy) Size() int { return 2*len(p.src) + 1024*p.parts + 64*p.program }

// Size is [Policy.Size] of all policies of the chain.
func (c Chain) Size() int {
	n := 0
	for _, r := range c {
		n += r.policy.Size()
	}
	return n
}

// charge counts further parts. It reports a problem, once, and false if the policy
// has too many.
func (p *parser) charge(n *document.Node, path string, parts int) bool {
	if p.parts += parts; p.parts <= MaxParts {
		return true
	}
	if !p.full {
		p.full = true
		p.Fail(n, path, "the policy has more than %d parts (values, mappings and what braces expand to)", MaxParts).Hint = "use wildcards, or split the policy"
	}
	return false
}

// countParts counts the values and keys of a document.
func countParts(n *document.Node) int {
	count := 1
	for _, item := range n.Items {
		count += countParts(item)
	}
	for _, pair := range n.Pairs {
		count += 1 + countParts(pair.Value)
	}
	return count
}

// marks counts the characters of a document that can begin a YAML value, before
// memory is spent on reading it: YAML's reader takes over 1 KiB for each.
func marks(src []byte) int {
	n := 0
	for i, c := range src {
		switch c {
		case ',', '[', '{':
			n++
		case ':', '-', '?':
			// Within a word they are text, except after a quoted key.
			if i+1 == len(src) || bytes.IndexByte([]byte(" \t\r\n,[]{}"), src[i+1]) >= 0 || i > 0 && (src[i-1] == '"' || src[i-1] == '\'') {
				n++
			}
		}
	}
	return n
}

// expression is a regular expression that is compiled when it is first used: most
// policies that are read decide few calls. It is safe for concurrent use.
type expression struct {
	source  string
	compile func() (*regexp.Regexp, error)
}

// match reports whether the whole text matches.
func (x *expression) match(s string) truth {
	re, err := x.compile()
	if err != nil {
		return unknown
	}
	return truthOf(re.MatchString(s))
}

// expression reads a regular expression and counts its program, without making it.
func (p *parser) expression(n *document.Node, path string) *expression {
	s, ok := p.Text(n, path)
	if !ok || p.program > MaxProgram {
		return nil
	}
	if p.program += readSize(s); p.program <= MaxProgram {
		re, err := syntax.Parse(s, syntax.Perl)
		if err != nil {
			p.Fail(n, path, "%v", err)
			return nil
		}
		p.program += programSize(re)
	}
	if p.program > MaxProgram {
		p.Fail(n, path, "the regular expressions of the policy come to more than %d instructions", MaxProgram).Hint = "repeat less; x{1000} counts as 1000"
		return nil
	}
	return &expression{source: s, compile: sync.OnceValues(func() (*regexp.Regexp, error) { return regexp.Compile(`\A(?:` + s + `)\z`) })}
}

// readSize estimates the cost of reading an expression before it is read: Unicode classes
// are large, and so is any class if case is ignored.
func readSize(s string) int {
	classes := strings.Count(s, `\p`) + strings.Count(s, `\P`)
	if i := strings.Index(s, "(?"); i >= 0 && strings.Contains(s[i:], "i") {
		classes += strings.Count(s, "[")
	}
	return len(s) + classSize*classes
}

// programSize is at least the number of instructions that an expression compiles to.
func programSize(re *syntax.Regexp) int {
	n := 0
	for _, sub := range re.Sub {
		n = min(n+programSize(sub), MaxProgram+1)
	}
	switch re.Op {
	case syntax.OpLiteral:
		n += len(re.Rune)
	case syntax.OpCharClass:
		n += 1 + len(re.Rune)/rangeRunes
	case syntax.OpAlternate, syntax.OpCapture:
		n += len(re.Sub) + 1
	case syntax.OpRepeat:
		n = (n + 1) * max(re.Min+1, re.Max)
	default:
		n++
	}
	return n
}

// program is the size of the regular expressions of all policies.
func (c Chain) program() int {
	n := 0
	for _, r := range c {
		if r != nil {
			n += r.program
		}
	}
	return n
}
