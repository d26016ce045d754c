package profile

import (
	"slices"
	"strconv"
	"strings"
)

// How the ready profiles begin the lists that are added to.
const (
	pathList = "\n  path: ["
	readList = "\n  read: {allow: [\"**\""
)

// AddPrograms returns a profile's source with a folder in commands.path, and with root, if it is not "", in
// files.read. home is the person's home folder. It returns false if the source has not both lists, or has the folder.
func AddPrograms(source, dir, root, home string) (string, bool) {
	_, list, ok := strings.Cut(source, pathList)
	list, _, _ = strings.Cut(list, "]")
	short := shorten(dir, home)
	if !ok || !isPlain(dir) || slices.Contains(strings.Split(list, ", "), short) || !strings.Contains(source, readList) {
		return "", false
	}
	added := strings.Replace(source, pathList, pathList+strconv.Quote(short)+", ", 1)
	if root == "" {
		return added, true
	}
	return AddReadable(added, root, home)
}

// AddReadable returns a profile's source with the files of a folder in files.read, or false if the
// source has no such list.
func AddReadable(source, dir, home string) (string, bool) {
	if !isPlain(dir) || !strings.Contains(source, readList) {
		return "", false
	}
	return strings.Replace(source, readList, readList+", "+strconv.Quote(shorten(dir, home)+"/**"), 1), true
}

// Entry is an entry of a list, with a comment.
type Entry struct{ Pattern, About string }

// AddQuestions returns a profile's source with entries in network.ask, each once, below a comment. It returns false if the
// source has a network section.
func AddQuestions(source, about string, entries []Entry) (string, bool) {
	if strings.Contains(source, "\nnetwork:") {
		return "", false
	}
	var list strings.Builder
	seen := map[string]bool{}
	for _, e := range entries {
		if !seen[e.Pattern] {
			list.WriteString("    - " + e.Pattern + " # " + e.About + "\n")
			seen[e.Pattern] = true
		}
	}
	if list.Len() == 0 {
		return source, true
	}
	return strings.TrimRight(source, "\n") + "\n\n# " + about + "\nnetwork:\n  ask:\n" + list.String(), true
}

// shorten writes a path below the person's home folder with ~.
func shorten(dir, home string) string {
	if rest, ok := strings.CutPrefix(dir, home+"/"); ok && home != "" {
		return "~/" + rest
	}
	return dir
}

// isPlain reports whether a path is a pattern that matches no other path.
func isPlain(dir string) bool { return !strings.ContainsAny(dir, "*?[]{}\\!,") }
