package learn

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// seenCommand is a command line that was started.
type seenCommand struct {
	seen
	words []string // the pattern's words
	plain bool     // nothing in it must be left out
}

func (b *builder) sawCommand(u Use) {
	if b.argvs == nil {
		b.argvs = map[string]*seenCommand{}
	}
	a := u.Action
	asked := tool.Action{Kind: tool.Command, Argv: a.Argv, Dir: a.Dir, Typed: a.Typed}
	effect := b.effect(asked)
	if effect == policy.Deny || len(a.Argv) == 0 {
		b.refuse(Use{Action: asked, Count: u.Count, Why: "the policies do not allow it"})
		return
	}
	name := b.commandName(a)
	if name == "" {
		b.leave(tool.Command, asked.Subject(), "one policy speaks of its name, and another of its place", u.times())
		return
	}
	key := strings.Join(append([]string{name}, a.Argv[1:]...), "\x01")
	c := b.argvs[key]
	if c == nil {
		c = &seenCommand{seen: seen{example: asked.Subject(), effect: effect}, plain: true}
		c.words = append(c.words, name)
		for _, w := range a.Argv[1:] {
			text, plain := b.word(w)
			c.words, c.plain = append(c.words, text), c.plain && plain
		}
		b.argvs[key] = c
	}
	c.count += u.times()
}

// sawUntold notes a command that cannot be determined before it runs. The entry
// that allows any command is the only one that allows it.
func (b *builder) sawUntold(u Use) {
	switch b.effect(u.Action) {
	case policy.Allow:
		b.add("commands", policy.Allow, strconv.Quote("**"), u.times(), u.Action.Subject())
	case policy.Ask:
		b.leave(tool.Command, u.Action.Subject(), "it cannot be determined before it runs, so commands.untold decides", u.times())
	default:
		b.refuse(Use{Action: u.Action, Count: u.Count, Why: "the policies do not allow it"})
	}
}

// commandName writes a command's first word as a pattern. A bare name stays as it
// is. A path becomes the program's place; or its bare name on the trusted PATH, if
// only patterns of names allow it.
func (b *builder) commandName(a tool.Action) string {
	first := a.Argv[0]
	if !strings.Contains(first, "/") {
		return command.Escape(first)
	}
	full := first
	if !path.IsAbs(first) {
		full = path.Join(a.Dir, first)
	}
	place := command.Escape(full)
	if rel, ok := strings.CutPrefix(full, strings.TrimSuffix(b.opt.Workspace, "/")+"/"); ok {
		place = "./" + command.Escape(rel)
	}
	bare := command.Escape(path.Base(first))
	if all, some := b.placed(place + rest(a.Argv)); path.IsAbs(first) && len(b.opt.Chain) > 0 && !all {
		if some && b.effect(tool.Action{Kind: a.Kind, Argv: a.Argv, Dir: a.Dir}) == policy.Ask {
			return "" // one policy means the name, another the place
		}
		return bare
	}
	return place
}

// placed reports whether all policies of the chain that decide commands, or
// some, have an entry that names a command by its place.
func (b *builder) placed(text string) (all, some bool) {
	this, err := command.ParsePattern(text)
	if err != nil {
		return false, false
	}
	all = true
	for _, r := range b.opt.Chain {
		if r == nil || r.Policy() == nil || r.Policy().Inherited("commands") {
			continue
		}
		has := slices.ContainsFunc(r.Policy().Entries(), func(e policy.Entry) bool {
			if e.Section != "commands" || e.Effect == policy.Deny {
				return false
			}
			wide, err := command.ParsePattern(e.Pattern)
			return err == nil && wide.Includes(this)
		})
		all, some = all && has, some || has
	}
	return all && some, some
}

func rest(argv []string) string {
	out := ""
	for _, w := range argv[1:] {
		out += " " + literalWord(w)
	}
	return out
}

// literalWord writes a word of a command line as a pattern's word.
func literalWord(w string) string {
	switch {
	case w == command.NonLiteral:
		return "*"
	case strings.IndexByte(w, 0) >= 0:
		return "**"
	}
	return command.Escape(w)
}

// word is literalWord; plain is false for a word that is not to be written down.
func (b *builder) word(w string) (text string, plain bool) {
	if strings.IndexByte(w, 0) >= 0 {
		return literalWord(w), true
	}
	_, _, ok := b.looks.volatile(w)
	return literalWord(w), !ok
}

func (b *builder) allCommands() {
	b.varying()
	for _, key := range sorted(b.argvs) {
		c := b.argvs[key]
		text := strings.Join(c.words, " ")
		// A command can be spelled by its name and by its place, and a script may
		// leave words open: each spelling must be shown to be allowed.
		open := strings.Contains(key, "\x00") || len(b.opt.Chain) > 0 && c.effect == policy.Allow
		switch {
		case c.plain && (!open || b.covers(tool.Command, text)):
		case c.effect == policy.Allow:
			if text = b.withoutSecrets(key, c); text != "" {
				break
			}
			fallthrough
		default:
			b.leave(tool.Command, c.example, "it contains a secret or a value that will not recur, and no covered pattern matches it", c.count)
			continue
		}
		b.add("commands", c.effect, strconv.Quote(text), c.count, c.example)
	}
}

// withoutSecrets writes a command with * for the words that are not to be
// written down, or else an original entry that allows it.
func (b *builder) withoutSecrets(key string, c *seenCommand) string {
	argv := strings.Split(key, "\x01")
	words := slices.Clone(c.words)
	for i := range words[1:] {
		if _, plain := b.word(argv[i+1]); !plain {
			words[i+1] = "*"
		}
	}
	if text := strings.Join(words, " "); b.covers(tool.Command, text) {
		return text
	}
	this, err := command.ParsePattern(strings.Join(c.words, " "))
	if err != nil {
		return ""
	}
	for _, text := range b.originals(tool.Command, policy.Allow) {
		if wide, err := command.ParsePattern(text); err == nil && wide.Includes(this) && b.covers(tool.Command, text) {
			return text
		}
	}
	return ""
}

// varying folds several command lines of one program and subcommand into one
// pattern, if the chain covers it: with * for the words that differ, or ** behind
// the equal words.
func (b *builder) varying() {
	groups := map[string][]string{}
	for _, key := range sorted(b.argvs) {
		c := b.argvs[key]
		if c.effect != policy.Allow || strings.Contains(key, "\x00") {
			continue
		}
		head := c.words[:1]
		if len(c.words) > 2 && !strings.HasPrefix(c.words[1], "-") {
			head = c.words[:2]
		}
		h := strings.Join(head, " ")
		groups[h] = append(groups[h], key)
	}
	for _, h := range sorted(groups) {
		keys := groups[h]
		if len(keys) < several {
			continue
		}
		for _, text := range b.shapes(h, keys) {
			if !b.covers(tool.Command, text) {
				continue
			}
			n := 0
			example := b.argvs[keys[0]].example
			for _, k := range keys {
				n += b.argvs[k].count
				delete(b.argvs, k)
			}
			b.add("commands", policy.Allow, strconv.Quote(text), n, example)
			b.widenEntry(tool.Command, text, n, example)
			break
		}
	}
}

// shapes are the patterns that could stand for command lines, narrowest first.
func (b *builder) shapes(head string, keys []string) []string {
	first := b.argvs[keys[0]].words
	same, alike := true, len(first)
	words := slices.Clone(first)
	for _, k := range keys {
		o := b.argvs[k].words
		same = same && len(o) == len(first)
		for i := 0; i < len(o) && i < len(words); i++ {
			if o[i] != first[i] {
				words[i] = "*"
				alike = min(alike, i)
			}
		}
		alike = min(alike, len(o))
	}
	heads := len(strings.Split(head, " "))
	if alike < heads {
		return nil
	}
	var out []string
	if same {
		out = append(out, strings.Join(words, " "))
	}
	return append(out, strings.Join(append(slices.Clone(first[:alike]), "**"), " "))
}
