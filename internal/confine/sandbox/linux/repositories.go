//go:build linux && (amd64 || arm64)

package linux

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Git runs programs that a repository names, and a repository is only a few
// names in a folder. The kernel cannot keep a command from making names that are
// not there yet; so whatever of a repository appeared while a command ran, and
// its policy does not let it write, is renamed when the command is over.

// maxNewNames bounds how many names are looked at after one command.
const maxNewNames = 1_000_000

// maxShown is how many bytes of a path are shown.
const maxShown = 1000

// repositories are what a command found of repositories when it was started.
type repositories map[string]bool

// repositoriesIn notes what surveys found, of the folders that the policy names
// and of the tool's own one.
func repositoriesIn(trees []*sandbox.Node, own *sandbox.Node) repositories {
	r := repositories{}
	for _, n := range trees {
		r.note(n, "")
	}
	if own != nil {
		r.note(own, "")
	}
	return r
}

// note adds a node and its children; git is the .git folder around it, if any.
func (r repositories) note(n *sandbox.Node, git string) {
	name := path.Base(n.Path)
	switch {
	case git == "" && strings.EqualFold(name, ".git"):
		r[n.Path] = true
		git = n.Path
	case git != "" || strings.EqualFold(name, "HEAD"):
		r[n.Path] = true
	}
	if git != "" && strings.Count(n.Path[len(git):], "/") > 1 {
		return // no steering name is deeper
	}
	for _, child := range n.Children {
		r.note(child, git)
	}
}

// sweeper looks through the folders that a command could write.
type sweeper struct {
	before repositories
	chain  policy.Chain
	closed map[string]bool // folders that the command could not write
	walk   walk.Walk       // Top: the folder that is looked through
	unseen map[string]int  // folders that were not looked into, by the reason
	notes  []string
}

// sweep renames what a command made of repositories without being allowed to,
// and says so. It takes at most as long as
// the command may.
func sweep(ctx context.Context, limit time.Duration, p sandbox.Profile, chain policy.Chain, before repositories) []string {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer stop()
	s := &sweeper{before: before, chain: chain, closed: map[string]bool{}, unseen: map[string]int{}}
	s.walk = walk.Walk{Names: maxNewNames, Visit: s.visit, Skipped: s.skipped}
	for _, m := range p.Mounts {
		if m.Folder && (m.System || m.Kind != sandbox.Bind || m.Access&sandbox.WriteOnly == 0) {
			s.closed[m.Path] = true
		}
	}
	for i, m := range p.Mounts {
		if s.closed[m.Path] || !m.Folder || m.From != "" {
			continue
		}
		if _, around := sandbox.Cover(p.Mounts[:i], m.Path); around == nil || s.closed[around.Path] {
			s.tree(ctx, m.Path)
		}
	}
	for _, why := range slices.Sorted(maps.Keys(s.unseen)) {
		s.notes = append(s.notes, fmt.Sprintf("the command could have made Git repositories in %d folders that were not looked into: %s", s.unseen[why], why))
	}
	if ctx.Err() != nil {
		s.notes = append(s.notes, fmt.Sprintf("the command could have made Git repositories: what it changed could not be looked through in its time limit, %v", limit))
	}
	return s.notes
}

// tree looks through one writable folder, never through a link.
func (s *sweeper) tree(ctx context.Context, dir string) {
	top, name := dir, "."
	if strings.EqualFold(path.Base(dir), ".git") {
		top, name = path.Dir(dir), path.Base(dir)
	}
	root, err := os.OpenRoot(top)
	if err != nil {
		return // it is gone
	}
	defer func() { _ = root.Close() }() // nothing is written to it
	if name != "." {
		s.git(root, top, name, true)
		return
	}
	s.walk.Top = top
	_ = s.walk.Down(ctx, root) // the only error is that the time is over
}

func (s *sweeper) skipped(_ string, why error) {
	switch {
	case errors.Is(why, walk.ErrDeep):
		s.unseen["they are deeper than a path can name"]++
	case errors.Is(why, walk.ErrMany):
		s.unseen["too many new names"]++
	case !errors.Is(why, fs.ErrNotExist) && !errors.Is(why, fs.ErrPermission): // gone, or closed to this user and so to their Git
		s.unseen["they could not be read"]++
	}
}

// visit looks at one name in a folder.
func (s *sweeper) visit(in *walk.Folder, name string, kind fs.FileMode) (enter bool, err error) {
	git, head := strings.EqualFold(name, ".git"), !kind.IsDir() && strings.EqualFold(name, "HEAD")
	if !git && !head {
		return kind.IsDir() && !s.closed[filepath.Join(s.walk.Top, in.At(name))], nil
	}
	root, err := in.Root()
	if err != nil {
		return false, nil //nolint:nilerr // the folder is gone
	}
	dir := filepath.Join(s.walk.Top, in.Path)
	if git {
		s.git(root, dir, name, kind.IsDir())
	} else {
		s.head(root, dir, name)
	}
	return false, nil
}

// git judges a name .git in the folder dir.
func (s *sweeper) git(root *os.Root, dir, name string, folder bool) {
	switch {
	case s.may(dir, name):
	case !s.before[filepath.Join(dir, name)]:
		if folder && harmless(root, name) {
			return
		}
		aside := s.aside(root, dir, name)
		if folder && aside != "" {
			s.aside(root, dir, path.Join(aside, "HEAD")) // else it would still be a repository, under its new name
		}
	case folder:
		for _, part := range sandbox.Steering {
			in := path.Join(name, part)
			if _, err := root.Lstat(in); err == nil && !s.before[filepath.Join(dir, in)] && !s.may(dir, in) && !harmlessPart(root, name, part) {
				s.aside(root, dir, in)
			}
		}
	}
}

// head judges a file HEAD outside of .git, which makes its folder a repository
// where the file system takes the name for it.
func (s *sweeper) head(root *os.Root, dir, name string) {
	head, err := root.Lstat("HEAD")
	this, err2 := root.Lstat(name)
	if err == nil && err2 == nil && os.SameFile(head, this) && !s.before[filepath.Join(dir, name)] && repository.Is(dir, nil) && !harmless(root, ".") {
		s.aside(root, dir, name)
	}
}

// may asks the policy whether a path may be written.
func (s *sweeper) may(dir, at string) bool {
	p := filepath.Join(dir, at)
	return s.chain.DecideAction(tool.Action{Kind: tool.FileWrite, Path: p, Real: p}).Effect == policy.Allow
}

// aside renames a path within its folder and gives its new path; "" if it is gone.
func (s *sweeper) aside(root *os.Root, dir, at string) string {
	to := at + ".refused-" + strings.ToLower(rand.Text()[:8])
	shown := clip.Text(filepath.Join(dir, at), maxShown)
	switch err := root.Rename(at, to); {
	case errors.Is(err, fs.ErrNotExist):
		return ""
	case err != nil:
		s.note(fmt.Sprintf("%q was made by the command against files.write, makes Git run what it names, and could not be renamed", shown))
		return ""
	}
	s.note(fmt.Sprintf("%q was made by the command against files.write, and makes Git run what it names; it is %q now", shown, path.Base(to)))
	return to
}

func (s *sweeper) note(text string) {
	const most = 20
	if len(s.notes) < most {
		s.notes = append(s.notes, text)
	}
}

// harmless reports whether a new .git folder is as git init or git clone make
// it: it names no program.
func harmless(root *os.Root, git string) bool {
	for _, name := range sandbox.Steering {
		if _, err := root.Lstat(path.Join(git, name)); !errors.Is(err, fs.ErrNotExist) && !harmlessPart(root, git, name) {
			return false
		}
	}
	return true
}

// harmlessPart judges a steering name that is there.
func harmlessPart(root *os.Root, git, name string) bool {
	at := path.Join(git, name)
	st, err := root.Lstat(at)
	switch {
	case err != nil:
		return false
	case name == "hooks" && st.IsDir():
		return onlySamples(root, at)
	case name == "config" && st.Mode().IsRegular():
		text, ok := readConfig(root, at)
		return ok && harmlessConfig(text, nil, nil)
	}
	return false
}

// onlySamples: Git runs no hook whose name ends with .sample.
func onlySamples(root *os.Root, at string) bool {
	f, err := root.Open(at)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	entries, err := f.ReadDir(1000)
	if err != nil && !errors.Is(err, io.EOF) || len(entries) == 1000 {
		return false
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".sample") {
			return false
		}
	}
	return true
}

// The lines of a repository's configuration that name no program, in the one
// form in which Git writes them. Any other line makes it harmful.
var (
	configSection = regex.Lazy(`^\[([a-z]+)(?: "[^"\\\x00-\x1f]*")?\]$`)
	configLine    = regex.Lazy(`^\t([a-z]+)(?: = ([^\\"\x00-\x1f]*))?$`)
	configKeys    = map[string][]string{
		"core":       {"repositoryformatversion", "filemode", "bare", "logallrefupdates", "ignorecase", "precomposeunicode", "symlinks", "autocrlf", "eol", "sparsecheckout", "sparsecheckoutcone"},
		"user":       {"name", "email"},
		"init":       {"defaultbranch"},
		"remote":     {"url", "pushurl", "fetch", "tagopt", "prune"},
		"branch":     {"remote", "merge", "rebase"},
		"submodule":  {"url", "active"},
		"extensions": {"worktreeconfig", "objectformat"},
		"index":      {"sparse"},
	}
)

// readConfig reads a small file; ok is false for a large one.
func readConfig(root *os.Root, at string) (text []byte, ok bool) {
	f, err := root.Open(at)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }() // it was only read
	const most = 64 << 10
	text, err = io.ReadAll(io.LimitReader(f, most+1))
	return text, err == nil && len(text) <= most
}

// harmlessConfig reports whether a configuration names no program but those of an earlier one. mayHold decides about the
// folder of a repository's files, where that is set; nil: none may be.
func harmlessConfig(text, earlier []byte, mayHold func(folder string) bool) bool {
	had := map[string]bool{}
	if !bytes.Contains(earlier, []byte("\\\n")) { // lines that go on cannot be told apart
		eachSetting(string(earlier), func(section, line string) bool { had[section+"\n"+line] = true; return true })
	}
	return eachSetting(string(text), func(section, line string) bool {
		if had[section+"\n"+line] {
			return true
		}
		section = strings.ToLower(section)
		if folder, ok := strings.CutPrefix(line, "\tworktree = "); ok && section == "[core]" && mayHold != nil {
			return !strings.ContainsFunc(folder, func(r rune) bool { return r < ' ' || r == '"' || r == '\\' }) && mayHold(folder)
		}
		line = strings.ToLower(line)
		if line == "" && configSection.MatchString(section) {
			return true
		}
		in, m := configSection.FindStringSubmatch(section), configLine.FindStringSubmatch(line)
		known := in != nil && m != nil && (slices.Contains(configKeys[in[1]], m[1]) || repository.IsPlain(in[1], m[1], m[2]))
		return known && !strings.Contains(m[2], "::")
	})
}

// The lines of a .gitmodules that start no program.
var (
	modulesSection = regex.Lazy(`^\[submodule "[^"\\\x00-\x1f]+"\]\s*$`)
	modulesLine    = regex.Lazy(`^\s*(?:(?:path|url|branch) = [^- \\"\x00-\x1f][^\\"\x00-\x1f]*|(?:shallow|ignore|fetchRecurseSubmodules) = \w+|update = (?:checkout|rebase|merge|none)|[#;].*)?$`)
)

// harmlessModules reports whether a .gitmodules only names repositories and where they are.
func harmlessModules(text []byte) bool {
	return eachSetting(string(text), func(section, line string) bool {
		return (section == "" || modulesSection.MatchString(section)) && modulesLine.MatchString(line) && !strings.Contains(line, "::")
	})
}

// The attributes that start no program of the person's, but that of Git LFS.
var attribute = regex.Lazy(`^(?:[-!]?(?:text|binary|eol|crlf|ident|delta|diff|merge|filter|whitespace|export-ignore|export-subst|conflict-marker-size|working-tree-encoding|(?:linguist|gitlab)-[a-z-]+)|` +
	`text=auto|eol=(?:lf|crlf)|crlf=input|whitespace=[a-z0-9,=-]+|conflict-marker-size=\d+|working-tree-encoding=[A-Za-z0-9_-]+|(?:linguist|gitlab)-[a-z-]+=[A-Za-z0-9#+-]+|` +
	`(?:filter|diff|merge)=lfs|merge=(?:text|binary|union)|diff=(?:ada|bash|bibtex|cpp|csharp|css|dts|elixir|fortran|fountain|golang|html|ini|java|kotlin|markdown|matlab|objc|pascal|perl|php|python|ruby|rust|scheme|tex))$`)

// harmlessAttributes reports whether a .gitattributes names no driver, since a person's settings can have a program for
// one.
func harmlessAttributes(text []byte) bool {
	for line := range strings.Lines(string(text)) {
		words := strings.FieldsFunc(line, func(r rune) bool { return strings.ContainsRune(" \t\r\n", r) }) // as Git, which knows no other spaces
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if strings.HasPrefix(words[0], "[") || strings.HasPrefix(words[0], `"`) || slices.ContainsFunc(words[1:], func(w string) bool { return !attribute.MatchString(w) }) {
			return false
		}
	}
	return true
}

// resumed are the files in a repository's own folder that Git reads when a person goes on with a rebase or the like, and that
// can make it run programs or write elsewhere. Their content decides.
var resumed = map[string]func(text []byte) bool{
	"rebase-merge/git-rebase-todo": harmlessTodo,
	"rebase-merge/strategy":        harmlessStrategy,
	"rebase-apply/apply-opt":       func(text []byte) bool { return applyOptions.Match(text) },
	"sequencer/opts":               harmlessSequence,
}

// strategies are Git's own of merging. Git runs a program git-merge-NAME for any other, also one in the working folder.
var strategies = strings.Fields("ort recursive resolve octopus ours subtree")

func harmlessStrategy(text []byte) bool {
	return slices.Contains(strategies, strings.TrimSuffix(string(text), "\n"))
}

// applyOptions are those of git-am(1) for git apply. By others, that writes files anywhere.
var applyOptions = regex.Lazy(`^(?: '(?:--whitespace=[a-z-]+|-[Cp]\d+|--ignore-(?:space-change|whitespace)|--reject|--(?:directory|include|exclude)=[\w./*][\w./*-]*)')*\n?$`)

var sequenceLine = regex.Lazy(`^\t([a-z-]+) = ([^\x00-\x1f"\\]*)$`)

// harmlessSequence reports whether the options of a cherry-pick or revert name no program.
func harmlessSequence(text []byte) bool {
	return eachSetting(string(text), func(section, line string) bool {
		m := sequenceLine.FindStringSubmatch(line)
		return section == "[options]" && (line == "" || m != nil && (m[1] != "strategy" || slices.Contains(strategies, m[2])))
	})
}

// steps are the commands of such a list that start no program, and their short forms (git-rebase(1)).
var steps = strings.Fields("pick p reword r edit e squash s fixup f drop d label l reset t merge m update-ref u break b noop")

// harmlessTodo reports whether a list of a rebase starts no program.
func harmlessTodo(text []byte) bool {
	for line := range strings.SplitSeq(string(text), "\n") {
		step := strings.TrimLeft(line, " \t\r") // more than Git leaves out
		if i := strings.IndexAny(step, " \t\r\x00"); i >= 0 {
			step = step[:i]
		}
		if step != "" && step[0] != '#' && !slices.Contains(steps, step) {
			return false
		}
	}
	return true
}

// eachSetting goes through the lines of a configuration, each with the header of its section,
// until one is not good. The header itself comes with an empty line.
func eachSetting(text string, good func(section, line string) bool) bool {
	section := ""
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if strings.HasPrefix(line, "[") {
			section, line = line, ""
		}
		if !good(section, line) {
			return false
		}
	}
	return true
}
