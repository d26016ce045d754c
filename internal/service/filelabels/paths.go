package filelabels

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strings"
)

// isWithin reports whether a path is a folder or in it.
func isWithin(folder, p string) bool { return p == folder || strings.HasPrefix(p, slashed(folder)) }

// slashed is a folder's path with a slash at its end.
func slashed(folder string) string { return strings.TrimSuffix(folder, "/") + "/" }

// mayExist reports whether there is something at a path, or that cannot be told.
func mayExist(path string) bool {
	_, err := os.Lstat(path)
	return !errors.Is(err, fs.ErrNotExist)
}

func sorted(labels []string) []string {
	slices.Sort(labels)
	return slices.Compact(labels)
}
