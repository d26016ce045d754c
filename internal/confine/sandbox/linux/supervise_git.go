//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// ofRepository lets a command make a Git repository and change its settings as Git does, as long as
// Git runs no program for it. err is the policy's refusal, which must come from the name alone: no entry denies the path,
// and another folder may be made there.
func (d *decider) ofRepository(r supervisor.Request, err error) error {
	switch path.Base(r.Path) {
	case ".gitmodules":
		return d.byContent(r, err, harmlessModules)
	case ".gitattributes":
		return d.byContent(r, err, harmlessAttributes)
	}
	git, part, ok := inRepository(r.Path)
	removes := r.Act&^supervisor.Folder == supervisor.Remove
	var by refusal
	switch {
	case !ok, !errors.As(err, &by), d.byEntry(r.Path, by):
		return err
	case removes && !strings.HasSuffix(part, ".lock") && d.elsewhere(git) != "":
		return ownRefusal(r.Path, "its worktree "+d.elsewhere(git)+" is outside of the sandbox, where Git takes it for removed; prune and remove worktrees outside")
	case resumed[part] != nil:
		return ifHarmless(r, err, resumed[part])
	case r.Act == supervisor.Create|supervisor.Folder && (part == "" || part == "hooks"), removes && part == "":
		return nil // an empty folder, or a file .git
	case r.Act == supervisor.Change && !strings.HasPrefix(part, "hooks/"):
		return nil // modes and times say nothing about a content, but make a file a hook
	case (r.Act == supervisor.Create|supervisor.Write || r.Act == supervisor.Write|supervisor.Anew) && (part == "" && !nested(git) || part == "commondir" && nested(git)):
		return supervisor.Draft{May: func(text []byte) error { return d.leadsBack(git, part, string(text), err) }}
	case part == "":
		return err
	case part == "modules", part == "worktrees":
		if r.Act == supervisor.Create|supervisor.Folder || removes {
			return nil
		}
		return err
	case strings.HasPrefix(part, "hooks/") && strings.HasSuffix(part, ".sample") && r.Act&supervisor.Moved == 0, part == "hooks" && r.Act == supervisor.Remove|supervisor.Folder:
		return nil // Git runs no hook of that name
	case part == "config" || part == "config.worktree":
		return d.ofConfig(r, path.Join(git, part), err)
	case nested(git) && part == "gitdir":
		return d.ofGitdir(r, git, err)
	case nested(git) && part == "commondir" && removes:
		return nil
	case nested(git) && !steers(part) && (r.Act&supervisor.Moved == 0 || kindOf(r.File) != unix.S_IFDIR):
		return nil // as in a .git: its names are decided one by one
	}
	return err
}

// leadsBack decides about a file .git, and about the commondir of a worktree: by them a repository has its settings
// elsewhere. They may lead to folders of Git's whose settings are decided as well. err is the refusal.
func (d *decider) leadsBack(git, part, text string, err error) error {
	if len(text) > supervisor.MaxDraft {
		return err
	}
	if part == "commondir" {
		if of, found := strings.CutSuffix(path.Dir(git), "/worktrees"); found && isGitFolder(of) && strings.TrimSuffix(text, "\n") == "../.." {
			return nil
		}
		return err
	}
	to, ok := strings.CutPrefix(strings.TrimSuffix(text, "\n"), "gitdir: ")
	if !ok || to != path.Clean(to) || strings.ContainsFunc(to, func(r rune) bool { return r < ' ' }) {
		return err // behind a link, .. is another folder
	}
	if !path.IsAbs(to) {
		to = path.Join(path.Dir(git), to)
	}
	if !isGitFolder(to) || !nested(to) || !d.concerns(to) {
		return err
	}
	top := to[:strings.LastIndex(to, "/.git/")]
	if !d.hasNoLink(to, top) || d.may(tool.FileWrite, path.Join(top, ".git", sandbox.AnyName)) != nil {
		return err // another repository could take the folder for a worktree of its own
	}
	return nil // Git writes a file .git before it makes the folder
}

// hasNoLink reports whether no name of a path is a link, as far as the path exists. The folder top of it must: layers cannot
// be looked at while a command runs.
func (d *decider) hasNoLink(p, top string) bool {
	if _, err := os.Lstat(d.at(top)); err != nil {
		return false
	}
	for ; p != "/"; p = path.Dir(p) {
		st, err := os.Lstat(d.at(p))
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return false
		}
	}
	return true
}

// byEntry reports whether an entry of the policy refuses a path in a repository, rather than the name .git.
func (d *decider) byEntry(p string, by refusal) bool {
	if byRule(by) {
		return true
	}
	p = d.chain.InWorkspace(p)
	i := strings.LastIndex(p+"/", "/.git/")
	return d.may(tool.FileWrite, path.Join(p[:i], sandbox.AnyName, p[i+len("/.git"):])) != nil
}

func byRule(by refusal) bool {
	return slices.ContainsFunc(by.Refusals, func(x policy.Refusal) bool { return x.Rule != nil && x.Rule.Line > 0 })
}

// byContent decides about a file that Git writes when it checks out a commit, and that is sensitive for its name alone. It
// may be written if its content starts no program.
func (d *decider) byContent(r supervisor.Request, err error, harmless func(text []byte) bool) error {
	var by refusal
	if !errors.As(err, &by) || byRule(by) || d.may(tool.FileWrite, path.Join(path.Dir(r.Path), sandbox.AnyName)) != nil {
		return err
	}
	return ifHarmless(r, err, harmless)
}

// ifHarmless has the content of a file decide; err is the refusal.
func ifHarmless(r supervisor.Request, err error, harmless func(text []byte) bool) error {
	may := func(text []byte) error {
		if len(text) <= supervisor.MaxDraft && harmless(text) {
			return nil
		}
		return err
	}
	switch r.Act &^ supervisor.Read {
	case supervisor.Remove, supervisor.Change: // its mode and times say nothing about its content
		return nil
	case supervisor.Create | supervisor.Write, supervisor.Write | supervisor.Anew:
		return supervisor.Draft{May: may}
	case supervisor.Create | supervisor.Moved:
		if text, rerr := readMoved(r.File); rerr == nil && may(text) == nil {
			return supervisor.Instead{Content: text}
		}
	}
	return err
}

// ofConfig decides about a file of settings: it may be replaced by one that names no new program.
func (d *decider) ofConfig(r supervisor.Request, p string, err error) error {
	was, rerr := readSettings(d.at(p))
	if rerr != nil {
		return errors.Join(err, rerr)
	}
	mayHold := func(folder string) bool { return nested(path.Dir(p)) && d.holds(path.Dir(p), folder) }
	began := d.settingsAt(p, string(was))
	moves := func(text string) error {
		if why := repository.Readdressed(began, text, path.Base(p) == "config.worktree"); why != "" {
			return ownRefusal(r.Path, why+"; a person can do that outside of the sandbox")
		}
		return nil
	}
	switch r.Act &^ supervisor.Read {
	case supervisor.Create | supervisor.Write, supervisor.Write | supervisor.Anew:
		return supervisor.Draft{May: func(text []byte) error {
			if was, rerr := readSettings(d.at(p)); len(text) <= supervisor.MaxDraft && rerr == nil && harmlessConfig(text, was, nil) {
				return moves(string(text))
			}
			return err // also for core.worktree: links can be made meanwhile
		}}
	case supervisor.Remove:
		switch {
		case !harmlessConfig(was, nil, mayHold):
			return err
		case sandbox.Within(d.top, path.Dir(path.Dir(p))), path.Dir(p) == d.chain.Repository():
			return moves("") // else the next command could write it anew
		}
		return nil
	case supervisor.Create | supervisor.Moved:
		text, rerr := readMoved(r.File)
		if rerr != nil {
			return errors.Join(err, rerr)
		}
		if harmlessConfig(text, was, mayHold) {
			if err := moves(string(text)); err != nil {
				return err
			}
			return supervisor.Instead{Content: text}
		}
	}
	return err
}

// settingsAt is what a file of settings held when the command first came to it; now is what it holds.
func (d *decider) settingsAt(p, now string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	if text, known := d.settings[p]; known {
		return text
	}
	if len(d.settings) < maxSettings {
		d.settings[p] = now
	}
	return now // beyond the bound, a command cannot undo its own changes
}

// holds reports whether a folder may have the files of a submodule: it is in the repository that has the submodule.
func (d *decider) holds(git, folder string) bool {
	if path.IsAbs(folder) || strings.HasPrefix(folder, "~") || folder != path.Clean(folder) || strings.ContainsAny(folder, ";#") {
		return false // behind a link, .. is another folder; Git takes the rest for a comment
	}
	top, _, _ := strings.Cut(git+"/", "/.git/")
	if of := d.chain.Repository(); of != "" && sandbox.Within(git, of+"/worktrees") {
		top = d.p.Env().Workspace
	}
	to := path.Join(git, folder)
	return to != top && sandbox.Within(to, top) && !strings.Contains(to+"/", "/.git/") && d.hasNoLink(to, top)
}

// isGitFolder reports whether a path can be that of a repository's own folder.
func isGitFolder(p string) bool {
	git, _, ok := inRepository(p + "/config")
	return ok && git == p
}

// steers reports whether a path in a repository's own folder has a name that steers a repository.
func steers(part string) bool {
	return slices.ContainsFunc(sandbox.Steering, func(s string) bool { return strings.Contains("/"+part+"/", "/"+s+"/") })
}

// inRepository divides a path after a repository's own folder. That of a worktree or submodule lies in that of another
// repository.
func inRepository(p string) (git, part string, ok bool) {
	if strings.HasSuffix(p, "/.git") {
		return p, "", true
	}
	i := strings.LastIndex(p, "/.git/")
	if i < 0 {
		return "", "", false
	}
	git, part = p[:i+len("/.git")], p[i+len("/.git/"):]
	for {
		in, rest, _ := strings.Cut(part, "/")
		if rest == "" || in != "worktrees" && in != "modules" {
			return git, part, true
		}
		name, inside, _ := strings.Cut(rest, "/")
		if in == "modules" { // its name can have slashes
			name, inside = module(rest)
		}
		git, part = path.Join(git, in, name), inside
	}
}

// module divides a path in modules before the first name that steers a repository.
func module(p string) (name, inside string) {
	parts := strings.Split(p, "/")
	for i := 1; i < len(parts); i++ {
		if rest := strings.Join(parts[i:], "/"); slices.ContainsFunc(sandbox.Steering, func(s string) bool { return rest == s || strings.HasPrefix(rest, s+"/") }) {
			return strings.Join(parts[:i], "/"), rest
		}
	}
	if len(parts) == 1 {
		return p, ""
	}
	return parts[0], strings.Join(parts[1:], "/")
}

// nested reports whether a repository's own folder is that of a worktree or submodule.
func nested(git string) bool { return !strings.HasSuffix(git, "/.git") }

// claim notes the names by which a folder becomes a repository. Two of them that come at the same time then know of
// each other.
func (d *decider) claim(r supervisor.Request) {
	part := repository.Part(r.Path)
	if part == "" {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	key := path.Join(path.Dir(r.Path), part)
	if r.Act&supervisor.Create != 0 {
		d.claims[key] = true
	} else if r.Act&supervisor.Remove != 0 {
		delete(d.claims, key)
	}
}

// lead is the fact of the same name about a path that is written.
func (d *decider) lead(p string) string {
	dir := path.Dir(p)
	claimed := func(name string) bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.claims[path.Join(dir, name)]
	}
	if repository.Part(p) != "" && repository.Completes(p, claimed) {
		return p
	}
	return d.leads.Lead(p)
}

// maxConfig bounds a repository's settings that are looked through, in bytes; maxSettings, how many files of settings are
// kept as a command found them.
const (
	maxConfig   = 64 << 10
	maxSettings = 200
)

// readSettings reads a file of settings; nil: there is none.
func readSettings(file string) ([]byte, error) {
	text, err := readRegular(file, unix.O_NOFOLLOW)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// readMoved reads a file by a descriptor without any access.
func readMoved(fd int) ([]byte, error) {
	return readRegular(fmt.Sprintf("/proc/self/fd/%d", fd), 0)
}

// readRegular reads a regular file of at most maxConfig bytes.
func readRegular(file string, flags int) ([]byte, error) {
	f, err := os.OpenFile(file, os.O_RDONLY|unix.O_NONBLOCK|flags, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // it was only read
	st, err := f.Stat()
	if err != nil || !st.Mode().IsRegular() {
		return nil, errors.Join(err, fs.ErrInvalid)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxConfig+1))
	if len(text) > maxConfig {
		return nil, fs.ErrInvalid
	}
	return text, err
}
