package overview

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
)

const (
	python   = "Python and its programs"
	called   = "executable"
	looked   = "unknown kind"
	named    = "a tool (hidden file)"
	compile  = "Python, in place of its source"
	packages = "programs that load packages"
	git      = "Git"
	ci       = "a build service"
	agents   = "coding agents"
	config   = "a tool's settings"
)

// kinds knows which files programs run, or follow, without being told. In doubt, they do: only sources, documents,
// pictures and, in folders, data are known to do nothing by themselves. A name that programs document counts whatever
// its kind. Case does not, as on some file systems.
type kinds struct {
	folders, files map[string]string // the programs, by names
	patterns       [][2]string       // a pattern and its program
	still, data    map[string]bool   // ends of names
	plain          map[string]bool   // names without an end
}

func newKinds() *kinds {
	k := &kinds{folders: map[string]string{}, files: map[string]string{}, still: set(sources, others), data: set(data), plain: set(plain)}
	for _, f := range folders {
		for n := range strings.FieldsSeq(f.names) {
			k.folders[n] = f.who
		}
	}
	for _, n := range policy.PackageFolders() {
		k.folders[strings.ToLower(n)] = packages
	}
	for _, f := range files {
		for n := range strings.FieldsSeq(f.names) {
			k.files[n] = f.who
		}
	}
	for _, p := range patterns {
		for n := range strings.FieldsSeq(p.names) {
			k.patterns = append(k.patterns, [2]string{n, p.who})
		}
	}
	return k
}

func set(lists ...string) map[string]bool {
	out := map[string]bool{}
	for _, l := range lists {
		for n := range strings.FieldsSeq(l) {
			out[n] = true
		}
	}
	return out
}

// file names the program that runs the code in a file, or follows its settings, by the file's path in the project; "":
// none does without being told.
func (k *kinds) file(file string) string {
	name := strings.ToLower(path.Base(file))
	if who := k.files[name]; who != "" && (who != agents || path.Base(file) != name || !strings.HasSuffix(name, ".md")) { // a page about agents
		return who
	}
	for _, p := range k.patterns {
		if ok, _ := path.Match(p[0], name); ok { // the patterns are valid
			return p[1]
		}
	}
	end := strings.TrimPrefix(path.Ext(name), ".")
	switch {
	case strings.HasPrefix(name, "."):
		return named
	case k.still[end], k.plain[strings.TrimSuffix(name, "."+end)], k.data[end] && strings.Contains(file, "/"):
		return ""
	}
	return looked
}

// folder is file for all in a folder, by the folder's name.
func (k *kinds) folder(name string) string {
	name = strings.ToLower(name)
	if strings.LastIndex(name, ".") > 0 && k.files[name] != "" { // gulpfile.js/index.js
		return k.files[name]
	}
	if who := k.folders[name]; who != "" || !strings.HasPrefix(name, ".") || name == ".git" {
		return who
	}
	return named
}

// inGit is file for a name in a .git folder.
func (k *kinds) inGit(name string) string {
	if slices.Contains([]string{"config", "config.worktree", "attributes", "exclude", "commondir", "gitdir", "git-rebase-todo", "strategy", "opts", "apply-opt", "strategy_opts"}, name) {
		return git
	}
	return ""
}
