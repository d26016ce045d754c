package command

import (
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/regex"
)

// grammar describes the options of a program. Options that it does not list are unknown: they
// may start a program, or shift what the words behind them mean.
//
// The text known lists them as words: -a; -abc for three flags; -xy= for two with a value,
// attached or the next word; -i=? for one whose value is always attached; --name, --name=,
// --name=? in the same way. --name== takes two words, of which the second is its value. With
// single, a word of one dash is one option, as -name= or -name, and -O* is any word that begins
// with -O.
type grammar struct {
	known  string
	single bool // -name is one option, not five
	lead   bool // options end before the first operand
	stop   int  // options end behind so many operands; 0: they can stand anywhere
	digits bool // -5 is an option
	bundle bool // the first word is short options, also without a dash
	behind bool // short options take their values from the words behind theirs: -oa FILE is -o FILE -a
	lists  bool // a word @FILE is a file of options
	negate bool // --no-name is known if --name is
	// harmless: no option of the program starts anything, known or not. So a word that is
	// not literal can be any option.
	harmless bool

	once sync.Once
	set  optionSet
}

// valueKind says whether an option has a value.
type valueKind uint8

const (
	unlisted valueKind = iota
	flagOnly           // without a value
	valued             // with one, attached or the next word
	attached           // with one only if it is attached
	second             // with two words behind it, the second of which is the value
)

// optionSet is a grammar's text, read.
type optionSet struct {
	kinds    map[string]valueKind // by the option with its dashes
	prefixes []string             // with single: beginnings, the value attached; "=" behind it: or the next word
}

// options reads the text known once.
func (s *grammar) options() *optionSet {
	s.once.Do(func() {
		s.set.kinds = map[string]valueKind{}
		for w := range strings.FieldsSeq(s.known) {
			s.set.add(w, s.single)
		}
	})
	return &s.set
}

func (o *optionSet) add(w string, single bool) {
	kind := flagOnly
	if name, ok := strings.CutSuffix(w, "=?"); ok {
		w, kind = name, attached
	} else if name, ok := strings.CutSuffix(w, "=="); ok {
		w, kind = name, second
	} else if name, ok := strings.CutSuffix(w, "="); ok {
		w, kind = name, valued
	}
	switch begin, prefix := strings.CutSuffix(w, "*"); {
	case prefix && kind == valued:
		o.kinds[begin] = valued
		o.prefixes = append(o.prefixes, begin)
	case prefix:
		o.prefixes = append(o.prefixes, begin)
	case single || strings.HasPrefix(w, "--"):
		o.kinds[w] = kind
	default:
		for i := 1; i < len(w); i++ {
			o.kinds["-"+w[i:i+1]] = kind
		}
	}
}

// given is an option with its value, or an operand, where option is "".
type given struct{ option, text string }

// parsed is what a program's words say.
type parsed struct {
	given []given
	rest  []string // the words behind the operand that ends the options
	// problem is the reason why the program's effect is unknown; "" if every option is known.
	problem string
	unknown bool // the problem is a literal option that is not known

	grammar *grammar
	args    []string // not read yet
	old     bool     // letters take their values from the words behind: as in tar's first word without a dash
}

// read reads a program's words. It goes on behind a problem, as if an unknown option had no
// value, so that the files are still found that the words certainly name.
func (s *grammar) read(args []string) *parsed {
	r := &parsed{grammar: s, args: args, old: s.behind}
	if s.bundle && len(args) > 0 && !nonLiteral(args[0]) && !strings.HasPrefix(args[0], "-") {
		r.args, r.old = args[1:], true
		r.letters(args[0])
		r.old = s.behind
	}
	operands := 0
	for len(r.args) > 0 {
		w := r.args[0]
		switch {
		case s.stop > 0 && operands == s.stop:
			r.rest = r.args
			return r
		case w == "--" && !s.lead && s.stop == 0:
			for _, w := range r.args[1:] {
				r.given = append(r.given, given{"", w})
			}
			return r
		case w == "--" && s.lead:
			r.rest = r.args[1:]
			return r
		case w == "--": // ssh reads options behind its host all the same
			r.args = r.args[1:]
		case s.lead && (w == "" || w[0] != '-' || w == "-") && !(nonLiteral(w) && mayBeOption(w)):
			r.rest = r.args
			return r
		case nonLiteral(w) && mayBeOption(w):
			r.args = r.args[1:]
			if !r.open(w) {
				r.given = append(r.given, given{"", w})
				operands++
			}
		case w == "-" || !strings.HasPrefix(w, "-"):
			r.args = r.args[1:]
			if s.lists && strings.HasPrefix(w, "@") {
				r.fail("its word " + w + " is a file of options; write them out")
			}
			r.given = append(r.given, given{"", w})
			operands++
		default:
			r.args = r.args[1:]
			r.option(w)
		}
	}
	return r
}

func (r *parsed) fail(why string) {
	if r.problem == "" {
		r.problem = why
	}
}

// strange notes a literal option that is not known.
func (r *parsed) strange(name string) {
	r.fail(unknownOption(name))
	r.unknown = true
}

func unknownOption(w string) string {
	return "its option " + w + " is not one that is known to be harmless; leave it out, or write it out in full"
}

// signedNumber is a number of nice: -5, --5 and -+5.
var signedNumber = regex.Lazy(`^-[-+][0-9]+$`)

// option reads a literal word that begins with a dash.
func (r *parsed) option(w string) {
	name, value, has := strings.Cut(w, "=")
	long := strings.HasPrefix(w, "--")
	set := r.grammar.options()
	kind := set.kinds[name]
	if kind == unlisted && r.grammar.negate {
		if rest, no := strings.CutPrefix(name, "--no-"); no && set.kinds["--"+rest] != unlisted && !has {
			kind = flagOnly
		}
	}
	switch {
	case r.grammar.digits && strings.Trim(w[1:], "0123456789") == "", r.grammar.digits && r.grammar.lead && signedNumber.MatchString(w):
	case kind == flagOnly && !has && (long || r.grammar.single):
		r.add(name, "")
	case kind == second && !has && (long || r.grammar.single):
		r.next(name)
		r.add(name, r.next(name))
	case (kind == valued || kind == attached) && has && (long || r.grammar.single), kind == attached && (long || r.grammar.single):
		r.add(name, value)
	case kind == valued && (long || r.grammar.single):
		r.add(name, r.next(name))
	case r.grammar.single && r.prefixed(w):
	case long || r.grammar.single:
		r.strange(name)
		r.add(name, value)
	default:
		r.letters(w[1:])
	}
}

// prefixOf reports whether a word begins with one of the listed beginnings.
func (s *grammar) prefixOf(w string) bool {
	return slices.ContainsFunc(s.options().prefixes, func(p string) bool { return strings.HasPrefix(w, p) })
}

// prefixed reads an option of which only the beginning is listed.
func (r *parsed) prefixed(w string) bool {
	for _, p := range r.grammar.options().prefixes {
		if value, ok := strings.CutPrefix(w, p); ok {
			r.add(p, value)
			return true
		}
	}
	return false
}

// letters reads short options in one word.
func (r *parsed) letters(w string) {
	for i := range len(w) {
		name := "-" + w[i:i+1]
		switch kind := r.grammar.options().kinds[name]; {
		case kind == flagOnly:
			r.add(name, "")
		case kind == attached, kind == valued && i+1 < len(w) && (!r.old || r.grammar.behind && number(w[i+1:])):
			r.add(name, w[i+1:])
			return
		case kind == valued:
			r.add(name, r.next(name))
		default:
			r.strange(name)
			r.add(name, "")
		}
	}
}

func number(s string) bool { return s != "" && strings.Trim(s, "0123456789") == "" }

// next takes the word that is an option's value.
func (r *parsed) next(name string) string {
	if len(r.args) == 0 {
		r.fail("its option " + name + " lacks a value")
		return ""
	}
	w := r.args[0]
	r.args = r.args[1:]
	// There may be none of the words of a glob, so that the word behind them is the value.
	if isMany(w) && !r.grammar.harmless && (mayBeOption(w) || len(r.args) > 0 && mayBeOption(r.args[0])) {
		r.fail("the value of its option " + name + " may be several words")
	}
	return w
}

func (r *parsed) add(name, value string) {
	r.given = append(r.given, given{strings.TrimLeft(name, "-"), value})
}

// open reads a word that is not literal and could be an option. It reports false for one that
// may be an operand.
func (r *parsed) open(w string) bool {
	b := begins(w)
	if name := r.nameOf(b); name != "" && !isMany(w) {
		r.add(name, NonLiteral)
		return true
	}
	if !r.grammar.harmless {
		r.fail("a word is not literal and could be an option that starts a program; put -- before it, or write it out")
	}
	return b != ""
}

// nameOf gives the option whose value an unknown text behind b certainly is, or "".
func (r *parsed) nameOf(b string) string {
	set := r.grammar.options()
	if name, _, has := strings.Cut(b, "="); has && (strings.HasPrefix(b, "--") || r.grammar.single) && (set.kinds[name] == valued || set.kinds[name] == attached) {
		return name
	}
	if r.grammar.single {
		i := slices.IndexFunc(set.prefixes, func(p string) bool { return strings.HasPrefix(b, p) })
		if i < 0 {
			return ""
		}
		return set.prefixes[i]
	}
	if len(b) < 2 || strings.HasPrefix(b, "--") {
		return ""
	}
	for _, c := range strings.Split(b[1:], "") {
		switch set.kinds["-"+c] {
		case valued, attached:
			return "-" + c
		case unlisted:
			return ""
		}
	}
	return ""
}

// has reports whether an option was given.
func (r *parsed) has(names ...string) bool {
	return slices.ContainsFunc(r.given, func(g given) bool { return g.option != "" && slices.Contains(names, g.option) })
}

// value gives the last value of an option.
func (r *parsed) value(name string) string {
	for _, g := range slices.Backward(r.given) {
		if g.option == name {
			return g.text
		}
	}
	return ""
}

// operands are the words that are not options.
func (r *parsed) operands() (out []string) {
	for _, g := range r.given {
		if g.option == "" {
			out = append(out, g.text)
		}
	}
	return out
}
