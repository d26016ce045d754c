package sandbox

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// ToolFolder is a folder in which people usually have programs besides the trusted PATH.
type ToolFolder struct {
	Dir  string // as commands.path takes it
	Root string // the folder that its programs need to read; "" if it is Dir alone
}

// toolFolders are where languages and their version managers keep programs. A * is the
// newest version.
var toolFolders = []struct {
	pattern string
	up      int // how many folders above, the programs read
}{
	{"/usr/local/go/bin", 0}, {"~/go/bin", 0}, {"~/.local/bin", 0}, {"~/.cargo/bin", 0},
	{"~/.rustup/toolchains/*/bin", 1}, {"~/.nvm/versions/node/*/bin", 1}, {"~/.pyenv/versions/*/bin", 1}, {"~/.rbenv/versions/*/bin", 1},
	{"~/.asdf/installs/NAME/*/bin", 1}, {"~/.local/share/mise/installs/NAME/*/bin", 1},
}

// ToolFolders lists the usual tool folders that a person has.
func ToolFolders(home string) []ToolFolder {
	var out []ToolFolder
	for _, t := range toolFolders {
		pattern := t.pattern
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			if home == "" {
				continue
			}
			pattern = filepath.Join(home, rest)
		}
		for _, dir := range newest(pattern) {
			f := ToolFolder{Dir: dir}
			if t.up > 0 {
				f.Root = filepath.Dir(dir)
			}
			out = append(out, f)
		}
	}
	return out
}

// newest gives the folders of a pattern: of NAME all, of * the newest version.
func newest(pattern string) []string {
	if before, after, ok := strings.Cut(pattern, "/NAME/"); ok {
		var out []string
		for _, name := range folders(before) {
			out = append(out, newest(filepath.Join(before, name, after))...)
		}
		return out
	}
	before, after, ok := strings.Cut(pattern, "/*/")
	if !ok {
		if st, err := os.Stat(pattern); err != nil || !st.IsDir() {
			return nil
		}
		return []string{pattern}
	}
	versions := folders(before)
	slices.SortFunc(versions, func(a, b string) int { return compareVersions(b, a) })
	for _, v := range versions {
		if dirs := newest(filepath.Join(before, v, after)); len(dirs) > 0 {
			return dirs
		}
	}
	return nil
}

// folders names the folders of one, links left out.
func folders(dir string) []string {
	entries, err := Entries(dir)
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		if e.IsDir() {
			out = append(out, e.Name())
		}
	}
	return out
}

// compareVersions compares names by their numbers: v9.1 is before v10.0.
func compareVersions(a, b string) int {
	isDigit := func(r rune) bool { return r >= '0' && r <= '9' }
	numbers := func(s string) []string { return strings.FieldsFunc(s, func(r rune) bool { return !isDigit(r) }) }
	x, y := numbers(a), numbers(b)
	for i := range min(len(x), len(y)) {
		m, _ := strconv.Atoi(x[i]) // one that is too long counts as the largest
		n, _ := strconv.Atoi(y[i])
		if m != n {
			return cmp.Compare(m, n)
		}
	}
	return cmp.Or(cmp.Compare(len(x), len(y)), cmp.Compare(a, b))
}

// TellWhere adds the usual tool folder that has a program to the error that it was not found.
func TellWhere(err error, home, program string) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.NotFound || strings.Contains(program, "/") {
		return err
	}
	for _, f := range ToolFolders(home) {
		if _, _, err := Lookup(nil, []string{f.Dir}, program, "/"); err == nil {
			hint := "it is in " + f.Dir + ": add that folder to the policy's commands.path"
			if f.Root != "" {
				hint += ", and " + f.Root + "/** to files.read"
			}
			return e.WithHint("%s", hint)
		}
	}
	return err
}
