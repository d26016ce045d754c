package command

import (
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// runSed judges sed's script: its commands e and s///e start programs. With
// --sandbox sed itself refuses them.
func runSed(d *deriver, r *parsed) {
	safe := r.has("sandbox")
	if r.problem != "" && (!safe || r.unknown) {
		d.unknownStart("sed", r.problem+"; or add --sandbox")
		return
	}
	var scripts []string
	for _, g := range r.given {
		switch g.option {
		case "e", "expression":
			scripts = append(scripts, g.text)
		case "f", "file":
			if !safe {
				d.unknownStart("sed", "its script is in a file; write it out, or add --sandbox")
				return
			}
		}
	}
	if operands := r.operands(); !r.has("e", "expression", "f", "file") && len(operands) > 0 {
		scripts = operands[:1]
	}
	for _, s := range scripts {
		switch {
		case safe:
		case nonLiteral(s):
			d.unknownStart("sed", "its script is not literal, and e in it starts a program; write it out, or add --sandbox")
			return
		default:
			files, ok := readSed(s)
			if !ok {
				d.unknownStart("sed", "its script may hold the command e, or is not simple enough to tell; write it in parts behind -e, or add --sandbox")
				return
			}
			for _, f := range files {
				d.argument(f.use, f.name, tool.FileArgument)
			}
		}
	}
}

// scriptFile is a file that a program's script names.
type scriptFile struct {
	use  use
	name string
}

// readSed reads a script, and gives the files of its commands r, R, w, W and s///w. ok: it
// certainly starts nothing.
func readSed(s string) (files []scriptFile, ok bool) {
	for s = strings.TrimLeft(s, " \t\n;{}"); s != ""; s = strings.TrimLeft(s, " \t\n;{}") {
		if s, ok = sedAddress(s); !ok || s == "" {
			return nil, false
		}
		c := s[0]
		s = s[1:]
		switch {
		case strings.IndexByte("=dDgGhHnNpPxzF", c) >= 0:
		case c == '{' || c == '}':
		case c == 'q' || c == 'Q' || c == 'l' || c == 'L':
			s = strings.TrimLeft(s, " 0123456789")
		case c == ':' || c == 'b' || c == 't' || c == 'T':
			s = strings.TrimLeft(strings.TrimLeft(s, " "), "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
		case strings.IndexByte("aicrRwW#", c) >= 0: // texts, names of files and comments go on to the end of the line
			var line string
			line, s, _ = sedLine(s, strings.IndexByte("aic", c) >= 0)
			files = sedFile(files, c, line)
			continue
		case c == 'y':
			if s, ok = sedParts(s, 2); !ok {
				return nil, false
			}
		case c == 's':
			if s, ok = sedParts(s, 2); !ok {
				return nil, false
			}
			rest := strings.TrimLeft(s, "gpiImM0123456789")
			if rest != "" && rest[0] == 'w' {
				var line string
				line, rest, _ = sedLine(rest[1:], false)
				files = sedFile(files, 'w', line)
			} else if rest != "" && strings.IndexByte(" \t\n;}#", rest[0]) < 0 {
				return nil, false // e, or a flag that is not known
			}
			s = rest
		default:
			return nil, false // e, or a command that is not known
		}
		if t := strings.TrimLeft(s, " \t"); t != "" && strings.IndexByte("\n;}#", t[0]) < 0 && c != '{' && c != '}' {
			return nil, false
		}
	}
	return files, true
}

// sedFile adds the file that a command of sed names on the rest of its line.
func sedFile(files []scriptFile, command byte, line string) []scriptFile {
	line = strings.TrimLeft(line, " \t\r\f\v")
	switch command {
	case 'r', 'R':
		return append(files, scriptFile{reads, line})
	case 'w', 'W':
		return append(files, scriptFile{writes, line})
	}
	return files
}

// sedLine gives the rest of a line, and what follows it. In a text a backslash
// at a line's end has it go on.
func sedLine(s string, text bool) (line, rest string, more bool) {
	for i := 0; i < len(s); i++ {
		if text && s[i] == '\\' {
			i++
		} else if s[i] == '\n' {
			return s[:i], s[i+1:], true
		}
	}
	return s, "", false
}

// sedAddress skips a command's addresses.
func sedAddress(s string) (string, bool) {
	for {
		s = strings.TrimLeft(s, " \t")
		switch {
		case s == "":
			return s, false
		case s[0] >= '0' && s[0] <= '9' || strings.IndexByte("$,~+!", s[0]) >= 0:
			s = s[1:]
		case s[0] == '/':
			var ok bool
			if s, ok = sedParts(s, 1); !ok {
				return s, false
			}
			s = strings.TrimLeft(s, "IM")
		default:
			return s, s[0] != '\\' // another delimiter is not read
		}
	}
}

// sedParts skips a delimiter and so many parts that end with it.
func sedParts(s string, parts int) (string, bool) {
	if s == "" || s[0] >= 0x80 || s[0] == '\n' || s[0] == '\\' || s[0] == '[' {
		return s, false
	}
	delimiter := s[0]
	s = s[1:]
	for range parts {
		end := -1
		for i := 0; i < len(s) && end < 0; i++ {
			switch s[i] {
			case '\\':
				i++
			case delimiter:
				end = i
			case '[':
				n := bracket(s[i:], delimiter)
				if n < 0 {
					return s, false
				}
				i += n
			}
		}
		if end < 0 {
			return s, false
		}
		s = s[end+1:]
	}
	return s, true
}

// bracket gives where the bracket expression ends that s begins with; -1 if seds
// do not agree on that: it holds the delimiter or a backslash, or is an odd one.
func bracket(s string, delimiter byte) int {
	for i := 1; i < len(s); i++ {
		switch {
		case s[i] == delimiter, s[i] == '\\', s[i] == '\n':
			return -1
		case s[i] == '[' && strings.HasPrefix(s[i:], "[:"):
			n := strings.Index(s[i:], ":]")
			if n < 0 || strings.Trim(s[i+2:i+n], "abcdefghijklmnopqrstuvwxyz") != "" {
				return -1
			}
			i += n + 1
		case s[i] == '[':
			return -1
		case s[i] == ']' && i > 1 && s[1:i] != "^":
			return i
		}
	}
	return -1
}

// runAwk judges awk's program: system() and pipes start commands. With --sandbox
// gawk itself refuses them.
func runAwk(d *deriver, args []string) {
	safe := false
	for i := 0; i < len(args); i++ {
		w := args[i]
		switch {
		case w == "--":
			i++
		case (w == "-F" || w == "-v") && i+1 < len(args) && !isMany(args[i+1]):
			i++
			continue
		case w == "-S" || w == "--sandbox":
			safe = safe || base(d.argv[0]) == "gawk" // others may read it as something else
			continue
		case !nonLiteral(w) && (strings.HasPrefix(w, "-F") || strings.HasPrefix(w, "-v")) && len(w) > 2:
			continue
		case strings.HasPrefix(w, "-") && w != "-" || nonLiteral(w) && !safe:
			d.unknownStart("awk", "its option "+show(w)+" is not one that is known to be harmless")
			return
		}
		switch {
		case i >= len(args), safe:
		case !harmlessAwk(args[i]):
			d.unknownStart("awk", "its program may hold system() or a pipe to a command, which start programs; write it without |, or use gawk --sandbox")
		default:
			d.awkFiles(args[i])
		}
		return
	}
}

// awkPrints is an output to a file that awk's program names, awkReads an input from one.
var (
	awkPrints = regex.Lazy(`\bprintf?\b([^;{}\n]*?)>>?[ \t]*"([^"\\]*)"`)
	awkReads  = regex.Lazy(`\bgetline\b[ \t]*[A-Za-z0-9_$]*(?:\[[^]]*\])?[ \t]*<[ \t]*"([^"\\]*)"`)
)

// awkFiles adds the files that an awk program names in full: print > "FILE", getline < "FILE".
// Within parentheses, > compares.
func (d *deriver) awkFiles(s string) {
	for _, m := range awkPrints.FindAllStringSubmatch(s, -1) {
		if strings.Count(m[1], "(") == strings.Count(m[1], ")") {
			d.argument(writes, m[2], tool.FileArgument)
		}
	}
	for _, m := range awkReads.FindAllStringSubmatch(s, -1) {
		d.argument(reads, m[1], tool.FileArgument)
	}
}

func show(w string) string {
	if nonLiteral(w) {
		return "or its program is not literal and"
	}
	return w
}

// harmlessAwk reports whether a program certainly starts nothing. A command needs
// system, an indirect call (@), a pipe behind print, or one with getline.
func harmlessAwk(s string) bool {
	if nonLiteral(s) || strings.Contains(s, "system") || strings.Contains(s, "@") || strings.Contains(s, "\\\n") {
		return false
	}
	if bare, ok := bareAwk(s); ok {
		s = bare
	}
	plain := strings.ReplaceAll(s, "||", "  ")
	if strings.Contains(s, "|||") {
		plain = s
	}
	pipe := strings.LastIndexByte(plain, '|')
	if pipe < 0 {
		return true
	}
	print := strings.Index(s, "print")
	return !strings.Contains(s, "getline") && (print < 0 || print > pipe)
}
