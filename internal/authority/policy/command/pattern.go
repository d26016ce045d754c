// Package command derives the commands that a command line or a shell script
// starts, and matches them against the command patterns of a policy. It is pure:
// it parses text and never looks at the machine. Start at [ParsePattern],
// [Actions] and [Script].
//
// It knows only the commands that a call itself starts. The files, network and
// limits of the sandbox bound the programs that these start in turn.
package command

import (
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Words of [tool.Action].Argv whose text is known only when they run. Both hold a
// NUL byte, which no real argument can. In allow and ask lists they match only
// wildcard words. In deny lists they match any text that they could become.
const (
	// NonLiteral stands for exactly one word: "$x" in quotes, a `{}` of find.
	NonLiteral = "\x00word"
	// NonLiteralMany stands for any number of words, also none: an unquoted
	// $x, a glob, what xargs appends.
	NonLiteralMany = "\x00words"
)

// Bounds of one pattern. maxWords fits the states of [Pattern.run] in 64 bits.
const (
	maxPattern = 4096
	maxWords   = 63
)

// Pattern is one entry of a commands list.
//
// Words are separated by spaces. `*` stands for any run of characters within
// one word, the word `*` for exactly one word, the word `**` for any number of
// words, also none. A backslash takes the next character as it is, and so do
// quotes: 'single' for everything in them, "double" for everything but a
// backslash. `?`, `[` and `{` mean themselves.
//
// The first word is a bare name (git), which means what that name resolves to
// on the trusted PATH; an absolute path (/opt/x/bin/tool); or a path in the
// workspace (./scripts/build), which never matches before [Pattern.Bind]. In
// the paths `*` stays within one folder.
//
// Flags of known programs match in any spelling and order: rm -rf is rm -r -f. So do
// subcommands behind options of their program: git -C d push is git push.
type Pattern struct {
	words     []word
	dir       []word // the first word's components, if it is a path
	workspace string // "" before Bind
	flat      *flagged
	before    []*Pattern // of a pipeline, the commands before
}

// word is one word of a pattern: literals with `*` between them.
type word struct {
	lits []string
	fold []string // lits in lower case
	many bool     // the word **
}

func (w *word) any() bool { return len(w.lits) == 2 && w.lits[0] == "" && w.lits[1] == "" }

// ParsePattern reads a pattern. Errors have the code fault.PolicyInvalid.
func ParsePattern(s string) (*Pattern, error) {
	switch {
	case len(s) > maxPattern:
		return nil, invalid(s[:40]+"…", "is longer than %d bytes", maxPattern)
	case !utf8.ValidString(s) || strings.ContainsRune(s, 0):
		return nil, invalid(s, "is not text: it contains a NUL byte or is not UTF-8")
	}
	words, err := splitPattern(s)
	if err != nil {
		return nil, err
	}
	p := &Pattern{words: words}
	switch {
	case len(words) == 0:
		return nil, invalid(s, "names no command").WithHint("write ** for any command")
	case len(words) > maxWords:
		return nil, invalid(s, "has more than %d words", maxWords)
	}
	if err := p.parseFirst(s); err != nil {
		return nil, err
	}
	p.flat = newFlagged(p)
	return p, nil
}

func invalid(s, format string, args ...any) *fault.Error {
	return fault.New(fault.PolicyInvalid, "command pattern %q "+format, append([]any{s}, args...)...)
}

// splitPattern reads the words of a pattern.
func splitPattern(s string) ([]word, error) {
	var (
		words []word
		lits  []string
		lit   strings.Builder
		in    bool // within a word
	)
	end := func() {
		if !in {
			return
		}
		words = append(words, newWord(append(lits, lit.String())))
		lits, in = nil, false
		lit.Reset()
	}
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == ' ':
			end()
			continue
		case c == '*' && i > 0 && s[i-1] == '*' && len(lits) > 0 && lit.Len() == 0:
			if rest := s[i+1:]; len(lits) > 1 || lits[0] != "" || rest != "" && rest[0] != ' ' {
				return nil, invalid(s, "has ** within a word").WithHint("** is a word of its own; within a word write *")
			}
			words = append(words, word{many: true})
			lits, in = nil, false
			continue
		case c == '*':
			lits = append(lits, lit.String())
			lit.Reset()
		case c == '\\':
			i++
			if i == len(s) {
				return nil, invalid(s, "ends with a backslash")
			}
			lit.WriteByte(s[i])
		case c == '\'' || c == '"':
			n, ok := quoted(s[i:], &lit)
			if !ok {
				return nil, invalid(s, "has a quote that is not closed")
			}
			i += n
		case c < ' ' || c == 0x7f:
			return nil, invalid(s, "has a control character outside quotes").WithHint("separate words with spaces")
		default:
			lit.WriteByte(c)
		}
		in = true
	}
	end()
	return words, nil
}

// quoted reads a quoted part that s begins with; n is the closing quote's index.
func quoted(s string, lit *strings.Builder) (n int, ok bool) {
	q := s[0]
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == q:
			return i, true
		case s[i] == '\\' && q == '"':
			i++
			if i == len(s) {
				return 0, false
			}
		}
		lit.WriteByte(s[i])
	}
	return 0, false
}

// newWord makes a word; nothing between two `*` is one `*`.
func newWord(lits []string) word {
	for i := len(lits) - 2; i > 0; i-- {
		if lits[i] == "" {
			lits = append(lits[:i:i], lits[i+1:]...)
		}
	}
	w := word{lits: lits, fold: make([]string, len(lits))}
	for i, l := range lits {
		w.fold[i] = strings.ToLower(l)
	}
	return w
}

// parseFirst checks the first word and takes it apart if it is a path.
func (p *Pattern) parseFirst(s string) error {
	first := p.words[0]
	if first.many {
		return nil
	}
	if len(first.lits) == 1 && first.lits[0] == "" {
		return invalid(s, "has an empty command name")
	}
	comps := components(first)
	if len(comps) == 1 {
		return nil
	}
	lead := comps[0]
	if len(lead.lits) != 1 || lead.lits[0] != "" && lead.lits[0] != "." {
		return invalid(s, "names a command by a relative path").
			WithHint("write a bare name, an absolute path, or a path in the workspace that begins with ./")
	}
	for _, c := range comps[1:] {
		if l := c.lits; len(l) == 1 && (l[0] == "" || l[0] == "." || l[0] == "..") {
			return invalid(s, "names a command by a path that is not clean").WithHint("leave out //, . and ..")
		}
	}
	p.dir = comps
	return nil
}

// components splits a word at its slashes.
func components(w word) []word {
	var out []word
	cur := []string{""}
	for i, l := range w.lits {
		if i > 0 {
			cur = append(cur, "")
		}
		for {
			before, after, more := strings.Cut(l, "/")
			cur[len(cur)-1] += before
			if !more {
				break
			}
			out, cur, l = append(out, newWord(cur)), []string{""}, after
		}
	}
	return append(out, newWord(cur))
}

// Program is the name of the program that a command must have to be matched. ok is
// false if the pattern does not begin with a literal name.
func (p *Pattern) Program() (name string, ok bool) {
	first := p.words[0]
	if p.dir != nil || first.many || len(first.lits) != 1 {
		return "", false
	}
	return first.lits[0], true
}

// Bind gives the pattern anchored at a workspace (absolute and clean): ./x is
// then the x in it, and a bare name never means something inside it.
func (p *Pattern) Bind(workspace string) *Pattern {
	c := *p
	c.workspace = strings.TrimSuffix(workspace, "/")
	c.before = nil
	for _, stage := range p.before {
		c.before = append(c.before, stage.Bind(workspace))
	}
	return &c
}

// String prints the pattern in canonical form; parsing that gives p again.
func (p *Pattern) String() string {
	var b strings.Builder
	for _, stage := range p.before {
		b.WriteString(stage.String() + " | ")
	}
	for i, w := range p.words {
		if i > 0 {
			b.WriteByte(' ')
		}
		switch {
		case w.many:
			b.WriteString("**")
		case len(w.lits) == 1 && w.lits[0] == "":
			b.WriteString(`""`)
		}
		for j, l := range w.lits {
			if j > 0 {
				b.WriteByte('*')
			}
			for _, r := range l {
				if strings.ContainsRune(" '\"\\*|", r) || r < ' ' || r == 0x7f {
					b.WriteByte('\\')
				}
				b.WriteRune(r)
			}
		}
	}
	return b.String()
}

// Match reports whether an allow entry covers the command, whatever its
// non-literal words turn out to be, as it is written or without bounded options before its
// subcommand: git -C d status is git status. trusted is the trusted PATH: absolute, clean
// folders. Without facts (Exe is empty) only the requested name is judged. With
// them, a bare name must also have been found in a folder of the trusted PATH.
func (p *Pattern) Match(a *tool.Action, trusted []string) bool { return p.match(a, trusted, false) }

// MatchAsk is Match for an ask entry. It also covers the other forms of the command, with any
// options before its subcommand.
func (p *Pattern) MatchAsk(a *tool.Action, trusted []string) bool { return p.match(a, trusted, true) }

func (p *Pattern) match(a *tool.Action, trusted []string, loose bool) bool {
	if a.Kind != tool.Command || a.Unknown != "" || len(a.Argv) == 0 {
		return false
	}
	asked := a.Argv[0]
	if asked == "" || strings.IndexByte(asked, 0) >= 0 {
		return false
	}
	if p.dir != nil {
		return p.matches("", a.Argv[1:], false, loose) && slices.ContainsFunc(p.places(a, trusted), func(place string) bool {
			full, ok := resolve(place, a.Dir)
			return ok && p.matchPath(full, false)
		})
	}
	name := asked
	if strings.IndexByte(asked, '/') >= 0 {
		if !inFolder(asked, trusted) {
			return false
		}
		name = base(asked)
	}
	return p.trusted(a, trusted) && p.matches(name, a.Argv[1:], false, loose)
}

// MatchDeny reports whether a deny entry covers the command under any name it has
// (as asked, the base name of that, of every link to it and of what would run)
// and for any text that its non-literal words could become, in all its forms. Names are compared
// without regard to case.
func (p *Pattern) MatchDeny(a *tool.Action, _ []string) bool {
	if a.Kind != tool.Command || len(a.Argv) == 0 || !p.reads(a) {
		return false
	}
	asked, rest := a.Argv[0], a.Argv[1:]
	if p.denyName(asked, a.Dir, rest) || a.Exe != "" && p.denyName(a.Exe, a.Dir, rest) {
		return true
	}
	for _, n := range a.Names {
		if p.denyName(n, a.Dir, rest) {
			return true
		}
	}
	return false
}

func (p *Pattern) denyName(name, dir string, rest []string) bool {
	if p.dir != nil {
		if strings.IndexByte(name, 0) >= 0 {
			return p.matches("", rest, true, true)
		}
		full, ok := resolve(path.Clean(name), dir)
		return ok && p.matchPath(full, true) && p.matches("", rest, true, true)
	}
	if p.matches(name, rest, true, true) {
		return true
	}
	b := base(name)
	return b != name && p.matches(b, rest, true, true)
}

// resolve gives the absolute path that a command's first word spells. A bare
// name spells none, and neither does a path that is not clean.
func resolve(asked, dir string) (string, bool) {
	switch {
	case strings.IndexByte(asked, '/') < 0:
		return "", false
	case asked[0] == '/':
		return asked, path.Clean(asked) == asked
	}
	rel := strings.TrimPrefix(asked, "./")
	if dir == "" || dir[0] != '/' || path.Clean(rel) != rel || rel == ".." || strings.HasPrefix(rel, "../") {
		return "", false
	}
	return strings.TrimSuffix(dir, "/") + "/" + rel, true
}

// matchPath compares an absolute path with the pattern's first word.
func (p *Pattern) matchPath(full string, fold bool) bool {
	if p.dir[0].lits[0] == "." {
		if p.workspace == "" || !strings.HasPrefix(full, p.workspace+"/") {
			return false
		}
		full = full[len(p.workspace):]
	}
	rest := full[1:]
	for i := 1; i < len(p.dir); i++ {
		comp, after, more := strings.Cut(rest, "/")
		if more != (i < len(p.dir)-1) || !p.dir[i].match(comp, fold) {
			return false
		}
		rest = after
	}
	return true
}

// run compares the words with the pattern, all ways at once: bit i of the state
// set means that the first i words of the pattern can already be matched. That
// takes len(argv) steps of at most 64 words each, whatever the pattern. A name of
// "" stands for a first word that has matched already.
func (p *Pattern) run(name string, rest []string, deny bool) bool {
	states := p.skip(1)
	if name == "" {
		states = p.skip(1 << 1)
	} else {
		states = p.step(states, name, deny, deny)
	}
	for _, w := range rest {
		if states == 0 {
			return false
		}
		states = p.step(states, w, deny, false)
	}
	return states&(1<<len(p.words)) != 0
}

// skip adds the states behind every ** that can match no word.
func (p *Pattern) skip(states uint64) uint64 {
	for i := range p.words {
		if states&(1<<i) != 0 && p.words[i].many {
			states |= 1 << (i + 1)
		}
	}
	return states
}

// step gives the states after one more word of the command line.
func (p *Pattern) step(states uint64, s string, deny, fold bool) uint64 {
	one, many := s == NonLiteral, s != NonLiteral && strings.IndexByte(s, 0) >= 0
	var next uint64
	for i := range p.words {
		if states&(1<<i) == 0 {
			continue
		}
		w := &p.words[i]
		switch {
		case many && deny:
			return ^uint64(0) << i // it may match the whole rest of the pattern
		case w.many:
			next |= 1 << i
		case many:
		case one && (deny || w.any()), !one && w.match(s, fold):
			next |= 1 << (i + 1)
		}
	}
	if many && deny {
		return states // only the final state is left
	}
	return p.skip(next)
}

// match compares one word: the first literal at its beginning, the last at its
// end, those between from left to right.
func (w *word) match(s string, fold bool) bool {
	lits := w.lits
	if fold {
		lits, s = w.fold, strings.ToLower(s)
	}
	last := len(lits) - 1
	if w.many || last < 0 {
		return w.many
	}
	if last == 0 {
		return s == lits[0]
	}
	if len(s) < len(lits[0])+len(lits[last]) || !strings.HasPrefix(s, lits[0]) || !strings.HasSuffix(s, lits[last]) {
		return false
	}
	s = s[len(lits[0]) : len(s)-len(lits[last])]
	for _, l := range lits[1:last] {
		i := strings.Index(s, l)
		if i < 0 {
			return false
		}
		s = s[i+len(l):]
	}
	return true
}

// inFolder reports whether p lies directly in one of the folders.
func inFolder(p string, folders []string) bool {
	i := strings.LastIndexByte(p, '/')
	if i < 0 {
		return false
	}
	name := p[i+1:]
	if name == "" || name == "." || name == ".." {
		return false
	}
	for _, f := range folders {
		if p[:i] == strings.TrimSuffix(f, "/") && f != "" && f[0] == '/' {
			return true
		}
	}
	return false
}

func base(p string) string { return p[strings.LastIndexByte(p, '/')+1:] }
