package command

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// fileWords says which arguments of a program are files. Options are named without dashes. Only
// arguments that are certain become actions: the sandbox decides about the others.
type fileWords struct {
	read  string // options whose value is a file that is read
	write string // options whose value is a file that is written
	sent  string // options whose value names a file behind @

	first, rest, last use    // of the operands; first and last: noUse where they are like the rest
	unless            string // options that take the place of the first operand
	tree              string // options that make it walk folders; "*": it always does
	other             string // options with which the rest is used as with says
	with              use
	into              string // options whose value is the folder that takes the place of the last operand
}

// use is how a program uses a file.
type use uint8

const (
	noUse   use = iota
	ignored     // it is not a file
	reads
	writes
	changes // reads and writes
	deletes
	takes   // reads and deletes
	renames // takes, without following a link
)

// useKinds are the actions of a use.
var useKinds = map[use][]tool.ActionKind{
	reads:   {tool.FileRead},
	writes:  {tool.FileWrite},
	changes: {tool.FileRead, tool.FileWrite},
	deletes: {tool.FileDelete},
	takes:   {tool.FileRead, tool.FileDelete},
	renames: {tool.FileRead, tool.FileDelete},
}

// oneOf reports whether one of the given options is in a list, whose long ones are
// words and whose short ones are letters of words.
func oneOf(words []given, list string) bool {
	return slices.ContainsFunc(words, func(w given) bool { return named(w.option, list) })
}

func named(option, list string) bool {
	return option != "" && slices.Contains(strings.Fields(list), option)
}

// files adds the files that a command's arguments name.
func (d *deriver) files(name string, f *fileWords, r *parsed, args []string) {
	was := d.dir
	switch name {
	case "dd":
		d.ddFiles(args)
	case "tar":
		d.tarFiles(r.given)
	}
	words := slices.Clone(r.given)
	for _, w := range r.rest {
		words = append(words, given{"", w})
	}
	d.optionFiles(f, words)
	d.operandFiles(f, name, words)
	d.dir = was
}

// optionFiles adds the files that options name.
func (d *deriver) optionFiles(f *fileWords, words []given) {
	for _, w := range words {
		switch {
		case named(w.option, f.read):
			d.argument(reads, w.text, tool.FileArgument)
		case named(w.option, f.write):
			d.argument(writes, w.text, tool.FileArgument)
		case named(w.option, f.sent):
			// curl -d @FILE, -F NAME=@FILE
			_, form, isForm := strings.Cut(w.text, "=")
			for _, text := range []string{w.text, form} {
				if name, ok := strings.CutPrefix(text, "@"); ok && (text == w.text || isForm) {
					name, _, _ = strings.Cut(name, ";")
					d.argument(reads, name, tool.FileArgument)
				}
			}
		}
	}
}

// operandFiles adds the files that operands name.
func (d *deriver) operandFiles(f *fileWords, name string, words []given) {
	first, rest, last, into := f.first, f.rest, f.last, ""
	if oneOf(words, f.other) {
		rest = f.with
	}
	if oneOf(words, f.unless) {
		first = noUse
	}
	var operands []string
	for _, w := range words {
		if w.option == "" {
			operands = append(operands, w.text)
		} else if named(w.option, f.into) {
			into = w.text
		}
	}
	if into == "" && last != noUse && len(operands) > 1 {
		into, operands = operands[len(operands)-1], operands[:len(operands)-1]
	}
	if name == "rsync" && strings.Contains(into, ":") {
		into = ""
	}
	mode := tool.FileArgument
	if f.tree == "*" || oneOf(words, f.tree) {
		mode = tool.TreeArgument
	}
	for i, w := range operands {
		u := rest
		if i == 0 && first != noUse {
			u = first
		}
		if i == 0 && first != noUse && isMany(w) {
			continue // there may be none of these words
		}
		local, _, remote := strings.Cut(w, ":")
		switch {
		case name == "curl":
			if file, ok := strings.CutPrefix(w, "file://"); ok {
				d.argument(reads, file, mode)
			}
		case remote && name == "rsync" && !strings.Contains(local, "/"), strings.HasSuffix(name, "awk") && assignment.MatchString(w):
		default:
			d.argument(u, w, mode)
		}
	}
	d.destination(last, into, operands, mode)
}

// destination adds what cp and its like write. A file that is put into a folder keeps
// its name.
func (d *deriver) destination(u use, into string, from []string, mode tool.Argument) {
	if into == "" || nonLiteral(into) && d.argumentPath(into) == "" {
		return
	}
	d.argument(u, into, mode)
	if base := path.Base(into); !strings.HasSuffix(into, "/") && base != "." && base != ".." {
		return
	}
	for _, w := range from {
		if !nonLiteral(w) && w != "" {
			d.argument(u, strings.TrimSuffix(into, "/")+"/"+path.Base(w), mode)
		}
	}
}

// tarFiles adds tar's archive and the folder that it extracts to, which also becomes
// the folder of its operands.
func (d *deriver) tarFiles(words []given) {
	archive := reads
	if oneOf(words, "c create r append u update A catenate delete") {
		archive = writes
	}
	for _, w := range words {
		if named(w.option, "f file") && !strings.Contains(w.text, ":") {
			d.argument(archive, w.text, tool.FileArgument)
		}
	}
	for _, w := range words {
		if named(w.option, "C directory") {
			d.dir = d.argumentPath(w.text)
		}
	}
	if oneOf(words, "x extract get") && !oneOf(words, "O to-stdout") {
		d.argument(writes, ".", tool.TreeArgument)
	}
}

// ddFiles reads the operands of dd.
func (d *deriver) ddFiles(args []string) {
	for _, w := range args {
		if name, ok := strings.CutPrefix(w, "if="); ok {
			d.argument(reads, name, tool.FileArgument)
		} else if name, ok := strings.CutPrefix(w, "of="); ok {
			d.argument(writes, name, tool.FileArgument)
		}
	}
}

// argument adds the actions of a file that a program is given by name.
func (d *deriver) argument(u use, word string, mode tool.Argument) {
	full := d.argumentPath(word)
	if u <= ignored || full == "" || strings.HasPrefix(full, "/dev/") {
		return
	}
	if inHome(word) && !d.env.Foreign {
		if u == writes || u == deletes {
			return // the sandbox has a home of its own
		}
		u, mode = reads, tool.HomeArgument
	}
	followed := strings.HasSuffix(word, "/") || strings.HasSuffix(word, "/.") // a slash at the end follows a link
	for _, k := range useKinds[u] {
		a := tool.Action{Kind: k, Path: full, Argument: mode, Entry: !followed && (u == renames || k == tool.FileDelete)}
		if !slices.ContainsFunc(d.actions, func(b tool.Action) bool { return same(a, b) }) {
			d.add(a)
		}
	}
}

func inHome(w string) bool { return strings.HasPrefix(w, shapeHome) || strings.HasPrefix(w, anyHome) }

// argumentPath gives the absolute path that an argument certainly names, or "".
// A path with .. in it is read as if no folder of it were a link.
func (d *deriver) argumentPath(w string) string {
	from := d.dir
	switch {
	case inHome(w):
		from, w = d.env.Home, "."+w[len(shapeHome):]
	case strings.HasPrefix(w, shapeHere), strings.HasPrefix(w, anyHere):
		w = "." + w[len(shapeHere):]
	}
	switch {
	case w == "", w == "-", nonLiteral(w), strings.Contains(w, "://"):
		return ""
	case w[0] == '/':
		return path.Clean(w)
	case from == "":
		return ""
	}
	return path.Join(from, w)
}
