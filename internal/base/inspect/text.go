package inspect

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/glyph"
)

// Kind is the kind of a finding.
type Kind string

// The kinds of findings.
const (
	Hidden      Kind = "hidden"      // invisible characters, or text that is out of sight
	Instruction Kind = "instruction" // it instructs a model
	Secrets     Kind = "secrets"     // it names a place of secrets, or asks for data
	Reference   Kind = "reference"   // it speaks of a tool of another source
	Imitation   Kind = "imitation"   // a name that could be taken for another
)

// Finding is one thing to be wary of. It is a reason to read, no proof.
type Finding struct {
	Kind  Kind   `json:"kind"`
	Where string `json:"where"` // "title", "description", "input_schema.properties.path.description", ...
	Quote string `json:"quote"` // the text, with invisible characters as \u{200b}
	Why   string `json:"why"`
}

// maxFindings bounds the findings of one text: a text with more is not read anyway.
const maxFindings = 8

// rule is a pattern of texts that speak to a model. One of its words, in lower
// case, stands in every text that it matches, and one of also where there are any:
// looking for words is much faster.
type rule struct {
	kind        Kind
	why         string
	words, also []string
	find        func(s string) []int // where it matches, nil: nowhere
}

// pattern makes a rule of words, those after "+" being the also, and an expression.
func pattern(kind Kind, why, words, re string) rule {
	split := strings.Fields
	if strings.Contains(words, ",") {
		split = func(s string) []string { return strings.Split(s, ",") }
	}
	words, also, _ := strings.Cut(words, "+")
	compiled := sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`(?is)` + re) }) // most processes need few
	return rule{kind, why, split(words), strings.Fields(also), func(s string) []int { return compiled().FindStringIndex(s) }}
}

// rules match phrases of known attacks by MCP servers' descriptions.
var rules = []rule{
	pattern(Instruction, "it tells a model to set other instructions aside", "ignore disregard forget override bypass + instruction prompt rule message context direction guideline polic restriction tool",
		`\b(ignore|disregard|forget|override|bypass)\b.{0,40}\b(previous|prior|above|earlier|preceding|all|any|other|system|safety)\b.{0,30}\b(instructions?|prompts?|rules?|messages?|context|directions?|guidelines?|polic(y|ies)|restrictions?|tools?)\b`),
	pattern(Instruction, "it asks that people not be told", "not n't n’t never without secretly silently + tell inform mention reveal notify alert disclose ask show secretly silently",
		`(\b(do not|never|must not|should not|without)\b|n['’]t\b).{0,30}\b(tell|telling|inform|informing|mention|mentioning|reveal|revealing|notify|notifying|alert|alerting|disclose|ask|asking|show|showing)\b[^.]{0,40}\b(users?|humans?|person|people|anyone|anybody|operator|them|this)\b|\b(secretly|silently) (send|forward|copy|upload|add|include|read|call|run|append|pass)\b`),
	pattern(Instruction, "it is marked up as if it were no description", "<important <system <secret <instruction <admin <hidden <critical <assistant <user <prompt [system [inst [/inst <|",
		`<\s*/?\s*(important|system|secret|instructions?|admin|hidden|critical|assistant|user|prompt)\b[^<>]{0,40}>|\[/?(system|inst)\]|<\|[a-z_]{2,20}\|>`),
	pattern(Instruction, "it speaks to a model", "you must,you have,you need,you are,you should",
		`\byou (must|have to|need to|are required to|should)( also| now)? (always|never|first|before|call|invoke|run|execute|read|ignore|follow|obey|respond|answer|reply|tell|put|append|copy|pretend|act)\b`),
	pattern(Instruction, "it speaks to a model", "assistant language llm prompt jailbreak developer instructions sidenote",
		`\b(as|you are) an? (ai|assistant|language model|llm)\b|\b(ai|llm) (model|assistant|agent)s? (must|should|shall)\b|\bnew (system )?(instructions?|prompt)\b|\bsystem prompt\b|\bjailbreak|\bdeveloper mode\b|\bsidenote\b`),
	pattern(Instruction, "it wants a say in how other tools are used", "before after instead when whenever + tool",
		`\b(before|after|when|whenever|instead of) (you )?(using|use|calling|call|invoking|invoke|running|run|any)\b.{0,40}\b(other|another|any|every|all)\b.{0,20}\btools?\b`),
	pattern(Secrets, "it names a file that holds secrets", ".ssh .aws .gnupg .kube .docker .netrc .npmrc .pypirc .git-credentials .env id_rsa id_ed25519 id_ecdsa /etc/ mcp.json authorized_keys _history wallet keychain",
		`(^|[\s"'`+"`"+`/~(\\])\.(ssh|aws|gnupg|kube|docker/config|netrc|npmrc|pypirc|git-credentials|env)\b|\bid_(rsa|ed25519|ecdsa)\b|/etc/(passwd|shadow|sudoers)\b|\bmcp\.json\b|\bauthorized_keys\b|\.(bash|zsh)_history\b|\bwallet\.dat\b|\bkeychain\b`),
	pattern(Secrets, "it asks for keys that must not be handed over", "private,seed phrase,mnemonic",
		`\bprivate keys?\b|\bseed phrases?\b|\bmnemonic phrases?\b`),
	pattern(Secrets, "it asks for data to be handed over", "send upload forward exfiltrate append include pass attach + conversation chat prompt environment credentials key token password secrets content",
		`\b(send|upload|forward|exfiltrate|append|include|pass|attach)\b.{0,60}\b(conversations?|chat (history|logs?)|system prompt|environment variables|credentials|api[ _-]keys?|access tokens?|passwords?|secrets|(full|whole|entire|raw) contents? of)\b`),
	{kind: Hidden, why: "a long encoded text", find: encoded},
	{kind: Hidden, why: "a long gap, behind which text is not seen", find: gap},
}

// encoded finds a long run of base64 or similar characters. A long path has more
// separators.
func encoded(s string) []int {
	const long, parts = 120, 15 // at most one of so many parts
	from, parting := 0, 0
	for i := 0; i <= len(s); i++ {
		switch {
		case i == len(s):
		case s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z' || s[i] >= '0' && s[i] <= '9' || s[i] == '+' || s[i] == '=':
			continue
		case s[i] == '/' || s[i] == '_' || s[i] == '-':
			parting++
			continue
		}
		if n := i - from; n >= long && parting*parts <= n {
			return []int{from, i}
		}
		from, parting = i+1, 0
	}
	return nil
}

// gap finds text that follows so many spaces or empty lines that a reader of the text
// before them does not see it.
func gap(s string) []int {
	const blanks, lines = 60, 10
	from, ends := 0, 0
	for i := 0; i < len(s); i++ {
		switch s[i] {
		case '\n':
			ends++
			continue
		case ' ', '\t':
			continue
		}
		if i-from >= blanks || ends >= lines {
			return []int{from, min(i+maxQuote, len(s))}
		}
		from, ends = i+1, 0
	}
	return nil
}

// Text inspects a text; where names it in the findings.
func Text(where, s string) []Finding { return text(where, s, rules) }

// text is Text, by some of the rules.
func text(where, s string, rules []rule) []Finding {
	out := hidden(where, s)
	plain := latin(Clean(s))
	lower := strings.ToLower(plain)
	for _, r := range rules {
		if !r.possible(lower) {
			continue
		}
		if at := r.find(plain); at != nil && len(out) < maxFindings {
			out = append(out, Finding{r.kind, where, quote(plain[at[0]:at[1]]), r.why})
		}
	}
	return out
}

// possible reports whether a text in lower case has the words of a rule; one
// without any is quick by itself.
func (r *rule) possible(lower string) bool {
	in := func(w string) bool { return strings.Contains(lower, w) }
	return (len(r.words) == 0 || slices.ContainsFunc(r.words, in)) && (len(r.also) == 0 || slices.ContainsFunc(r.also, in))
}

// hidden finds invisible characters outside emoji.
func hidden(where, s string) []Finding {
	if clean(s) {
		return nil
	}
	count, from, to := 0, -1, 0
	for i := 0; i < len(s); {
		if n := glyph.Emoji(s[i:]); n > 0 {
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		if r == utf8.RuneError && n == 1 || Invisible(r) && r != '\r' {
			if count++; from < 0 {
				from = i
			}
			to = i + n
		}
		i += n
	}
	if count == 0 {
		return nil
	}
	f := Finding{Hidden, where, quote(excerpt(s, from, to)), strconv.Itoa(count) + " characters that cannot be seen"}
	if count == 1 {
		f.Why = "a character that cannot be seen"
	}
	if said := tagged(s); said != "" {
		f.Why += ", which spell " + strconv.Quote(said)
	}
	return []Finding{f}
}

// excerpt is a part of a text with a few characters on both sides of it.
func excerpt(s string, from, to int) string {
	const few = 16
	for n := 0; from > 0 && n < few; n++ {
		_, size := utf8.DecodeLastRuneInString(s[:from])
		from -= size
	}
	for n := 0; to < len(s) && n < few; n++ {
		_, size := utf8.DecodeRuneInString(s[to:])
		to += size
	}
	return s[from:to]
}

// tagged decodes text in tag characters, which mirror ASCII.
func tagged(s string) string {
	var b strings.Builder
	for _, r := range s {
		if r >= 0xE0020 && r <= 0xE007E && b.Len() < maxQuote {
			b.WriteRune(r - 0xE0000)
		}
	}
	return b.String()
}

// maxQuote bounds a quoted text, in bytes.
const maxQuote = 160

func quote(s string) string {
	return clip.Text(Visible(strings.Join(strings.Fields(s), " ")), maxQuote)
}

// Visible writes invisible characters as \u{200b}, and invalid UTF-8 as \x{ff}. Line
// ends, tabs and emoji ([glyph.Emoji]) stay.
func Visible(s string) string {
	if clean(s) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		if n := glyph.Emoji(s[i:]); n > 0 {
			b.WriteString(s[i : i+n])
			i += n
			continue
		}
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && n == 1:
			fmt.Fprintf(&b, `\x{%02x}`, s[i])
		case Invisible(r):
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}
