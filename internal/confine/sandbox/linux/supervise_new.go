//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// opens reports whether a write that is refused or asked about is allowed all the same. It is if it removes an empty folder
// that is only sensitive, and if it is in a repository that the run has made, as by git clone or git worktree add: the policies
// open such repositories, and only the name is in the way, sensitive or in an entry of ask. What Git itself reads is decided by
// its content in any case. err is the refusal.
func (d *decider) opens(kind tool.ActionKind, r supervisor.Request, err error) bool {
	var by refusal
	if r.Act == supervisor.Remove|supervisor.Folder && errors.As(err, &by) && !byRule(by) && d.may(kind, path.Join(path.Dir(r.Path), sandbox.AnyName)) == nil {
		return true // git stash removes empty folders
	}
	if !d.chain.OpensNewRepositories() || r.Act&(supervisor.Moved|supervisor.Link) != 0 {
		return false
	}
	root := d.newRepository(r.Path)
	git, _, own := inRepository(r.Path)
	if own && root != "" && git == root+"/.git" {
		d.remember(root) // rm -r can remove it before the other files
	}
	if own || root == "" || path.Base(r.Path) == ".gitmodules" || path.Base(r.Path) == ".gitattributes" {
		return false
	}
	a := tool.Action{Kind: kind, Path: r.Path, Real: r.Path, Lead: d.lead(r.Path)}
	for _, x := range d.chain.DecideAction(a).Refusals {
		if x.Effect == policy.Deny && x.Rule != nil && x.Rule.Line > 0 {
			return false
		}
	}
	plain := root + strings.Repeat("/"+sandbox.AnyName, strings.Count(r.Path[len(root):], "/"))
	return a.Lead == "" && d.may(kind, plain) == nil
}

// isCheckedOut reports whether a file whose name alone may hold secrets is as the run has checked it out in a repository that
// it made: the content is in the index, so a command gets it from Git, too. err is the refusal. A command has few tries, since
// it could write guesses of a person's file to the index.
func (d *decider) isCheckedOut(r supervisor.Request, err error) bool {
	const tries = 20
	var by refusal
	root := ""
	if r.File > 0 && d.chain.OpensNewRepositories() && errors.As(err, &by) && !byRule(by) && d.at(r.Path) == r.Path && d.isNew(r.Path) {
		root = d.newRepository(r.Path)
	}
	if root == "" || d.may(tool.FileRead, path.Join(root, ".git", sandbox.AnyName)) != nil {
		return false
	}
	text, rerr := readMoved(r.File)
	return rerr == nil && d.guesses.Add(1) <= tries && repository.Tracks(root, strings.TrimPrefix(r.Path, root+"/"), text) && d.guesses.Add(-1) < tries
}

// newRepository is the folder of the innermost repository around a path, if it is below the workspace and the run has made
// it: that folder, its .git, and all on the way to the path came to be after the run began. Otherwise it is "".
func (d *decider) newRepository(p string) string {
	if _, err := os.Lstat(d.at(p)); err == nil && !d.isNew(p) {
		return ""
	}
	for dir := path.Dir(p); dir != d.top && sandbox.Within(dir, d.top) && d.isNew(dir); dir = path.Dir(dir) {
		if d.remembered(dir) || d.isNew(dir+"/.git") {
			return dir
		}
	}
	return ""
}

// remember keeps the folder of a new repository until the command ends.
func (d *decider) remember(root string) {
	const most = 1000
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.made) < most {
		d.made[root] = true
	}
}

func (d *decider) remembered(root string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.made[root]
}

// isNew reports whether a file came to be after the run began. No program can set that time.
func (d *decider) isNew(p string) bool {
	var st unix.Statx_t
	began := d.p.Began()
	err := unix.Statx(unix.AT_FDCWD, d.at(p), unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &st)
	return err == nil && st.Mask&unix.STATX_BTIME != 0 && !began.IsZero() && (st.Btime.Sec > began.Unix() || st.Btime.Sec == began.Unix() && int(st.Btime.Nsec) >= began.Nanosecond())
}
