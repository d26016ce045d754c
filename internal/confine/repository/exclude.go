package repository

import (
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/wholefile"
)

// Exclude has Git leave files alone that are not in the repository around a folder, so that `git add -A` does not add
// them. Files outside of that repository are left out, and without one nothing happens.
func Exclude(folder string, files []string) error {
	for dir := folder; ; dir = path.Dir(dir) {
		if git := gitFolder(dir); git != "" {
			at, _, _ := new(reads).shape(git)
			if err := exclude(at, dir, files); err != nil {
				return fault.Wrap(fault.Usage, err, "the files were written, but git add -A adds them, since %s/info/exclude cannot be changed: %v", at, wholefile.Cause(err))
			}
			return nil
		}
		if dir == path.Dir(dir) {
			return nil
		}
	}
}

func exclude(git, top string, files []string) error {
	root, err := os.OpenRoot(git) // a link does not lead out of it
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }() // it was only looked at
	const file = "info/exclude"
	was, err := root.ReadFile(file)
	if err != nil && !os.IsNotExist(err) {
		return err
	}
	var more strings.Builder
	if len(was) > 0 && !strings.HasSuffix(string(was), "\n") {
		more.WriteString("\n")
	}
	lines := strings.Split(string(was), "\n")
	for _, f := range files {
		in, err := filepath.Rel(top, f)
		line := "/" + special.Replace(in)
		if err != nil || !filepath.IsLocal(in) || strings.ContainsAny(in, "\r\n") || slices.Contains(lines, line) {
			continue
		}
		lines = append(lines, line)
		more.WriteString(line + "\n")
	}
	if strings.TrimSpace(more.String()) == "" {
		return nil
	}
	if err := root.MkdirAll(path.Dir(file), 0o755); err != nil {
		return err
	}
	f, err := root.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = f.WriteString(more.String())
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	return err
}

// special escapes the characters that have a meaning in lines of gitignore(5).
var special = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, " ", `\ `)
