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
	texts             string // options behind which only the first operand can be a file
	puts              string // options whose value is the folder or prefix of new files; "." without one
	quiet             string // options with which it makes no new files
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
	words := slices.Clone(r.given)
	for _, w := range r.rest {
		words = append(words, given{"", w})
	}
	switch name {
	case "dd":
		d.ddFiles(args)
	case "tar":
		d.tarFiles(words)
	case "patch":
		for _, w := range words {
			if named(w.option, "d directory") {
				d.dir = d.argumentPath(w.text)
			}
		}
	case "yq":
		words = slices.DeleteFunc(words, func(w given) bool { return w.option == "" && yqCommands[w.text] })
	case "split":
		if len(r.operands()) < 2 {
			d.argument(writes, "xaa", tool.FileArgument) // the first of the files that it makes
		}
	}
	d.optionFiles(f, words)
	d.operandFiles(f, name, words)
	d.dir = was
}

// yqCommands are the subcommands of yq. Each may be left out.
var yqCommands = words("e eval ea eval-all")

// optionFiles adds the files that options name, and the folder of new files.
func (d *deriver) optionFiles(f *fileWords, words []given) {
	if f.puts != "" && !oneOf(words, f.quiet) {
		place := "."
		for _, w := range words {
			if named(w.option, f.puts) {
				place = w.text
			}
		}
		d.argument(writes, place, tool.FileArgument)
	}
	for _, w := range words {
		switch {
		case named(w.option, f.read):
			d.argument(reads, w.text, tool.FileArgument)
		case named(w.option, f.write):
			d.argument(writes, w.text, tool.FileArgument)
		case named(w.option, f.sent):
			for _, name := range sentFiles(w) {
				d.argument(reads, name, tool.FileArgument)
			}
		}
	}
}

// sentFiles are the files that an option's value names behind @: curl -d @FILE, -F NAME=@FILE,
// -F NAME=<FILE, --data-urlencode NAME@FILE, -b FILE.
func sentFiles(w given) (out []string) {
	name, form, isForm := strings.Cut(w.text, "=")
	if file, ok := strings.CutPrefix(w.text, "@"); ok {
		out = append(out, file)
	}
	if isForm && form != "" && strings.Contains("@<", form[:1]) {
		for file := range strings.SplitSeq(form[1:], ",") {
			out = append(out, strings.Trim(file, `"`))
		}
	}
	if _, file, ok := strings.Cut(name, "@"); ok && named(w.option, "data-urlencode url-query variable") {
		out = append(out, file)
	}
	if named(w.option, "b cookie") && !isForm {
		out = append(out, w.text)
	}
	if file, ok := fileURL(w.text); ok && w.option == "url" {
		out = append(out, file)
	}
	for i, file := range out {
		out[i], _, _ = strings.Cut(file, ";")
	}
	return out
}

// fileURL gives the path of a URL of a file.
func fileURL(w string) (string, bool) {
	const scheme = "file:"
	if len(w) < len(scheme) || !strings.EqualFold(w[:len(scheme)], scheme) {
		return "", false
	}
	file := strings.TrimPrefix(w[len(scheme):], "//")
	if i := strings.IndexByte(file, '/'); i > 0 {
		file = file[i:] // behind the name of this host
	}
	return file, true
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
	mode := tool.FileArgument
	if f.tree == "*" || oneOf(words, f.tree) {
		mode = tool.TreeArgument
	}
	var operands []string
	for texts := false; len(words) > 0; words = words[1:] {
		switch w := words[0]; {
		case w.option == "" && (!texts || len(operands) == 0):
			operands = append(operands, w.text)
		case named(w.option, f.into):
			into = w.text
		case named(w.option, f.texts):
			texts = true
		}
	}
	if into == "" && last != noUse && len(operands) > 1 {
		into, operands = operands[len(operands)-1], operands[:len(operands)-1]
	}
	if (name == "rsync" || name == "scp") && strings.Contains(into, ":") {
		into = ""
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
			if file, ok := fileURL(w); ok {
				d.argument(reads, file, mode)
			}
		case name == "man" && strings.Contains(w, "/"):
			d.argument(reads, w, mode) // a page's name has no slash
		case remote && (name == "rsync" || name == "scp") && !strings.Contains(local, "/"), strings.HasSuffix(name, "awk") && assignment.MatchString(w):
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

// tarFiles adds tar's archive, its operands and the folders that it extracts to. The option -C
// changes the folder of the operands behind it.
func (d *deriver) tarFiles(words []given) {
	was := d.dir
	defer func() { d.dir = was }()
	archive, operand := reads, ignored
	switch {
	case oneOf(words, "c create"):
		archive, operand = writes, reads
	case oneOf(words, "r append u update A catenate concatenate"):
		archive, operand = changes, reads
	case oneOf(words, "delete"):
		archive = changes
	}
	if operand == reads && oneOf(words, "remove-files") {
		operand = takes
	}
	extracts := oneOf(words, "x extract get") && !oneOf(words, "O to-stdout")
	if extracts && oneOf(words, "P absolute-names") {
		d.argument(writes, "/", tool.FileArgument)
	}
	for _, w := range words {
		if named(w.option, "f file") && (oneOf(words, "force-local") || !otherHost(w.text)) {
			d.argument(archive, w.text, tool.FileArgument)
		}
	}
	all := extracts // no operand says what to extract
	for _, w := range words {
		switch {
		case named(w.option, "C directory"):
			d.dir = d.argumentPath(w.text)
		case w.option == "add-file":
			d.argument(operand, w.text, tool.TreeArgument)
		case w.option == "one-top-level" && extracts:
			d.argument(writes, w.text, tool.FileArgument)
		case w.option != "":
		case extracts:
			all = false
			d.argument(writes, ".", tool.FileArgument)
		default:
			d.argument(operand, w.text, tool.TreeArgument)
		}
	}
	if all {
		d.argument(writes, ".", tool.FileArgument)
	}
}

// otherHost reports whether the name of tar's archive is HOST:FILE.
func otherHost(archive string) bool {
	host, _, remote := strings.Cut(archive, ":")
	return remote && !nonLiteral(host) && !strings.Contains(host, "/")
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
		if k == tool.FileWrite && !strings.HasPrefix(word, "/") && d.beside(full) {
			mode = tool.NoArgument
		}
		a := tool.Action{Kind: k, Path: full, Argument: mode, Entry: !followed && (u == renames || k == tool.FileDelete)}
		if !slices.ContainsFunc(d.actions, func(b tool.Action) bool { return same(a, b) }) {
			d.add(a)
		}
	}
}

// beside reports whether a path is in a folder around the workspace, where that is in one that
// sandboxes have of their own. A relative path there means a file of the machine, and the
// sandbox's file would be lost.
func (d *deriver) beside(full string) bool {
	root := strings.TrimSuffix(ownFolder.FindString(d.env.Workspace), "/")
	if root == "" || d.env.Foreign || d.within(full) {
		return false
	}
	around, _, deeper := strings.Cut(strings.TrimPrefix(d.env.Workspace, root+"/"), "/")
	return deeper && strings.HasPrefix(full+"/", root+"/"+around+"/")
}

// within reports whether a clean path is the workspace, or in it.
func (d *deriver) within(full string) bool {
	return strings.HasPrefix(full+"/", strings.TrimSuffix(d.env.Workspace, "/")+"/")
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
