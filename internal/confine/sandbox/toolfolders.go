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
	"github.com/remitrun/remit/internal/base/wholefile"
)

// ToolFolder is a folder in which people usually have programs besides the trusted PATH.
type ToolFolder struct {
	Dir  string // as commands.path takes it
	Root string // the folder that its programs need to read; "" if it is Dir alone
}

// toolFolders are where languages and their version managers keep programs. A * is one version, see [chooser].
var toolFolders = []struct {
	pattern string
	up      int      // parent folders from the programs to Root
	project []string // files of a project that name its version
	person  string   // the person's file that does, below the home folder
}{
	{pattern: "/usr/local/go/bin"}, {pattern: "~/go/bin"}, {pattern: "~/.local/bin"}, {pattern: "~/.cargo/bin"},
	{"~/.rustup/toolchains/*/bin", 1, []string{"rust-toolchain.toml", "rust-toolchain"}, ".rustup/settings.toml"},
	{"~/.nvm/versions/node/*/bin", 1, []string{".nvmrc", ".node-version"}, ".nvm/alias/default"},
	{"~/.pyenv/versions/*/bin", 1, []string{".python-version"}, ".pyenv/version"},
	{"~/.rbenv/versions/*/bin", 1, []string{".ruby-version"}, ".rbenv/version"},
	{"~/.local/share/fnm/node-versions/*/installation/bin", 2, []string{".nvmrc", ".node-version"}, ".local/share/fnm/aliases/default"},
	{pattern: "~/.asdf/installs/NAME/*/bin", up: 1}, {pattern: "~/.local/share/mise/installs/NAME/*/bin", up: 1},
	{pattern: "~/.sdkman/candidates/NAME/*/bin", up: 1},
}

// ToolFolders lists the usual tool folders that a person has, for a project. Of several versions it takes the one that the
// project names, else the one on the person's PATH, else the one that the person has chosen, else the newest.
func ToolFolders(home, project string, path []string) []ToolFolder {
	real := slices.Clone(path)
	for _, dir := range path { // fnm and others have links there
		if to, err := filepath.EvalSymlinks(dir); err == nil {
			real = append(real, to)
		}
	}
	var out []ToolFolder
	for _, t := range toolFolders {
		pattern := t.pattern
		if rest, ok := strings.CutPrefix(pattern, "~/"); ok {
			if home == "" {
				continue
			}
			pattern = filepath.Join(home, rest)
		}
		c := chooser{path: real}
		if project != "" {
			for _, name := range t.project {
				c.project = cmp.Or(c.project, version(filepath.Join(project, name)))
			}
		}
		if home != "" && t.person != "" {
			c.person = version(filepath.Join(home, t.person))
		}
		for _, dir := range c.folders(pattern) {
			// No PATH and no pattern can hold these names, and a project can change its folders.
			if to, err := filepath.EvalSymlinks(dir); err != nil || strings.ContainsAny(dir, ":*?[]{}\\'\"\n") || project != "" && Within(to, project) {
				continue
			}
			f := ToolFolder{Dir: dir}
			if t.up > 0 {
				f.Root = dir
				for range t.up {
					f.Root = filepath.Dir(f.Root)
				}
			}
			out = append(out, f)
		}
	}
	return out
}

// chooser chooses one of several versions.
type chooser struct {
	project, person string   // version that a file of each names; "" if none does
	path            []string // the person's, with and without links
}

// folders expands a pattern: each NAME, and for * the chosen version.
func (c chooser) folders(pattern string) []string {
	if before, after, ok := strings.Cut(pattern, "/NAME/"); ok {
		var out []string
		for _, name := range folders(before) {
			out = append(out, c.folders(filepath.Join(before, name, after))...)
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
	slices.SortFunc(versions, func(a, b string) int {
		return cmp.Or(c.rank(filepath.Join(before, b, after), b)-c.rank(filepath.Join(before, a, after), a), compareVersions(b, a))
	})
	for _, v := range versions {
		if dirs := c.folders(filepath.Join(before, v, after)); len(dirs) > 0 {
			return dirs
		}
	}
	return nil
}

// rank orders versions. The highest is chosen.
func (c chooser) rank(dir, v string) int {
	switch {
	case isVersion(c.project, v):
		return 3
	case slices.Contains(c.path, dir):
		return 2
	case isVersion(c.person, v):
		return 1
	}
	return 0
}

// isVersion reports whether a name such as 20, v20.1 or stable means the version of a folder such as v20.1.0 or
// stable-x86_64-unknown-linux-gnu.
func isVersion(name, folder string) bool {
	name, folder = strings.TrimPrefix(strings.TrimPrefix(name, "ruby-"), "v"), strings.TrimPrefix(folder, "v")
	rest, ok := strings.CutPrefix(folder, name)
	return ok && name != "" && (rest == "" || rest[0] == '.' || rest[0] == '-')
}

// version reads the version that a file names: its first word, or in TOML the value of channel or default_toolchain. A link to a
// version's folder, as fnm has it, names that folder. "": it names none.
func version(file string) string {
	if to, err := os.Readlink(file); err == nil && filepath.Base(to) == "installation" {
		return filepath.Base(filepath.Dir(to))
	}
	b, err := wholefile.ReadRegular(file, 64<<10)
	if err != nil {
		return "" // there is none
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		key, value, ok := strings.Cut(line, "=")
		switch key = strings.TrimSpace(key); {
		case line == "" || line[0] == '#':
		case ok && (key == "channel" || key == "default_toolchain"):
			value, _, _ = strings.Cut(value, "#")
			return strings.Trim(value, " \t\"'")
		case !ok && line[0] != '[' && filepath.Ext(file) != ".toml":
			return strings.Fields(line)[0]
		}
	}
	return ""
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
	for _, f := range ToolFolders(home, "", nil) {
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
