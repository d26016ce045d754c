package hook

import (
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/base/regex"
)

// Bounds of the search for names of files.
const (
	maxTexts     = 100_000 // texts that may be names of existing files
	maxSpellings = 32      // ways to read one path
)

// Text is a text in an argument of an unknown tool that may be the name of a file.
type Text struct {
	Argument string // as files[0].path
	Path     string // absolute, or it begins with ~ or $HOME
}

// cutFileURL gives the path of a URL of a file.
func cutFileURL(text string) (path string, ok bool) {
	if !strings.HasPrefix(strings.ToLower(text), "file:") {
		return "", false
	}
	path, host := strings.CutPrefix(text[len("file:"):], "//")
	if i := strings.IndexByte(path, '/'); host && i > 0 {
		path = path[i:]
	}
	return path, path != ""
}

// fileURL adds calls for a URL of a file.
func (n *namer) fileURL(p place, text string) {
	file, ok := cutFileURL(text)
	if !ok || p.excluded {
		return
	}
	path, _, _ := strings.Cut(file, "#")
	path, _, _ = strings.Cut(path, "?")
	for _, f := range []string{file, path, unescape(path)} {
		n.paths(p, f, p.path != named && (!filepath.IsAbs(f) || strings.ContainsFunc(f, isBlank)))
	}
}

// unescape decodes the valid percent escapes of a text, and leaves the others.
func unescape(text string) string {
	if !strings.Contains(text, "%") {
		return text
	}
	var out strings.Builder
	for text != "" {
		if plain, err := url.PathUnescape(text[:min(3, len(text))]); err == nil && text[0] == '%' {
			out.WriteString(plain)
			text = text[3:]
			continue
		}
		out.WriteByte(text[0])
		text = text[1:]
	}
	return out.String()
}

var (
	otherURL  = regex.Lazy(`^[A-Za-z][A-Za-z0-9+.-]*:(//[^/]*)?`)
	homeStart = regex.Lazy(`^(~[A-Za-z0-9_.-]*|\$HOME|\$\{HOME\})/`)
)

// pathText adds calls for a text that is or may be a path.
func (n *namer) pathText(p place, full string) {
	if p.excluded {
		return
	}
	n.texts(p, full)
	starts := slices.ContainsFunc([]string{"/", "~/", "./", "../", `.\`, `..\`}, func(s string) bool { return strings.HasPrefix(full, s) })
	prose := strings.ContainsAny(full, "\n\r") || strings.ContainsFunc(full, unicode.IsSpace) && !starts && !(p.path == hinted && strings.Contains(full, "/"))
	up := slices.Contains(strings.Split(full, "/"), "..")
	switch {
	case p.path == named && p.url == named && webURL.MatchString(full) && !up:
	case p.path == named && strings.Contains(full, "://"): // a tool may read it as a path all the same, as x://../.env
		n.paths(p, full, !up)
	case p.path != named && (len(full) > maxGuessed || strings.Contains(full, "://") || p.path == unnamed && !starts || prose):
	case p.path != named:
		n.paths(p, full, true)
	default:
		odd := strings.HasPrefix(full, "@") || strings.Contains(full, `\`) || drive.MatchString(full)
		n.paths(p, full, odd)
	}
}

// paths adds reading a path, in each way in which a tool may read it.
func (n *namer) paths(p place, full string, guess bool) {
	for i, s := range readings(full) {
		for _, one := range spellings(n.absolute(s)) {
			n.add(p, "fs.read", "path", one, guess || i > 0)
		}
	}
}

// absolute is a path below the event's folder, unless it is absolute or begins with a home folder.
func (n *namer) absolute(path string) string {
	if n.e.Dir == "" || filepath.IsAbs(path) || homeStart.MatchString(path) && !strings.HasPrefix(path, "$") {
		return path
	}
	return n.e.Dir + "/" + path
}

// readings are the paths that tools may read in a text, first the plain one.
func readings(full string) []string {
	list := []string{full}
	add := func(s string) {
		if s != "" && len(list) < maxSpellings && !slices.Contains(list, s) {
			list = append(list, s)
		}
	}
	withoutControls := func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}
	if i := strings.IndexFunc(full, unicode.IsControl); i >= 0 {
		list[0] = strings.TrimFunc(full[:i], isBlank) // as C reads it
		add(strings.Map(withoutControls, full))
	}
	add(visible(full))
	for i := 0; i < len(list); i++ {
		s := list[i]
		add(strings.ReplaceAll(s, `\`, "/"))
		add(strings.TrimPrefix(s, "@"))
		add(unescape(s))
		if c := strings.IndexFunc(s, unicode.IsControl); c >= 0 {
			add(strings.TrimFunc(s[:c], isBlank))
			add(strings.Map(withoutControls, s))
		}
	}
	return list
}

// texts notes a text and its pieces as possible names of existing files. In a path's argument, and in a text without blanks,
// the pieces are those of a list, a place in a file, a flag, quotes, and the path of a URL.
func (n *namer) texts(p place, full string) {
	if n.e.Phase == After || p.path != named && (len(full) > maxGuessed || strings.ContainsAny(full, "\n\r")) {
		return
	}
	n.note(p, full)
	if p.path != named && strings.ContainsFunc(full, isBlank) {
		return
	}
	n.note(p, strings.TrimFunc(full, isAroundPath))
	for _, one := range strings.FieldsFunc(full, isAroundPath) {
		n.note(p, one)
	}
	if at := otherURL.FindString(full); at != "" && !webURL.MatchString(full) {
		path, _, _ := strings.Cut(full[len(at):], "#")
		path, _, _ = strings.Cut(path, "?")
		n.note(p, path)
	}
}

// isAroundPath reports whether a character can stand before or behind a path in a text.
func isAroundPath(r rune) bool { return isBlank(r) || strings.ContainsRune("\"'`<>()[]{},;:|=#?&", r) }

// note notes a text as the possible name of an existing file. A single word of letters is plain text, except in a path's argument.
func (n *namer) note(p place, text string) {
	key, word := "noted "+text, !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsLetter(r) })
	if word && p.path != named || len(text) > maxGuessed || n.seen[key] || len(n.e.Texts) >= maxTexts {
		return
	}
	n.seen[key] = true
	for _, s := range readings(text) {
		if n.e.Dir == "" && !filepath.IsAbs(s) && !homeStart.MatchString(s) {
			continue
		}
		if !homeStart.MatchString(s) {
			s = n.absolute(s)
		}
		for _, one := range spellings(s) {
			if key := "text " + one; !n.seen[key] && len(n.e.Texts) < maxTexts {
				n.seen[key] = true
				n.e.Texts = append(n.e.Texts, Text{p.name, one})
			}
		}
	}
}

// Pattern reports whether a path in an argument of an unknown tool is a pattern that matches some names only.
func (c Call) Pattern() bool {
	path, ok := c.Args["path"].(string)
	last := path[strings.LastIndex(path, "/")+1:]
	return ok && c.Argument != "" && staticPart(path) != path && strings.Trim(last, "*?") != ""
}
