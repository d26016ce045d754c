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

// shorten writes a path below the person's home folder with ~.
func shorten(dir, home string) string {
	if rest, ok := strings.CutPrefix(dir, home+"/"); ok && home != "" {
		return "~/" + rest
	}
	return dir
}

// isPlain reports whether a path is a pattern that matches no other path.
func isPlain(dir string) bool { return !strings.ContainsAny(dir, "*?[]{}\\!,") }
