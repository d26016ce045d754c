//go:build linux && (amd64 || arm64)

package linux

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// maxGuesses bounds how often one command may write something else than the content of a file that it may not read: each time
// tells it that its guess was wrong.
const maxGuesses = 16

// ofWorktree lets a command have files of sensitive names in a linked worktree below the workspace, as Git checks them out there:
// the workspace has a file at the same place, with the same content. err is the policy's answer, which must be the same for both
// files, and must not come from an entry that denies them.
func (d *decider) ofWorktree(kind tool.ActionKind, r supervisor.Request, err error) error {
	var denied refusal
	var ask *supervisor.Ask
	asks := errors.As(err, &ask)
	isDenied := errors.As(err, &denied) && denied.Effect != policy.Ask
	if !asks && !errors.As(err, &denied) || isDenied && byRule(denied) {
		return err
	}
	own := d.counterpart(r.Path)
	if own == "" || !d.decidesAlike(kind, r.Path, own) {
		return err
	}
	switch r.Act &^ supervisor.Read {
	case supervisor.Create | supervisor.Folder, supervisor.Remove | supervisor.Folder: // an empty folder
		if st, serr := os.Lstat(d.at(own)); serr == nil && st.IsDir() {
			return nil
		}
	case supervisor.Remove, supervisor.Change:
		if text, rerr := readRegular(d.at(r.Path), unix.O_NOFOLLOW); rerr == nil && d.hasContent(own, text) {
			return nil
		}
	case supervisor.Create | supervisor.Write, supervisor.Write | supervisor.Anew:
		if !asks || isGit(r.PID) { // a person could allow it
			return supervisor.Draft{May: func(text []byte) error {
				if d.hasContent(own, text) {
					return nil
				}
				return ownRefusal(r.Path, fmt.Sprintf("its content is not that of %s; check it out there, or outside of the sandbox", own))
			}}
		}
	case supervisor.Create | supervisor.Moved:
		if text, rerr := readMoved(r.File); rerr == nil && d.hasContent(own, text) {
			return supervisor.Instead{Content: text}
		}
	}
	return err
}

// counterpart returns the path in the workspace of a file in a linked worktree, or a submodule, below it; "": it is in none.
func (d *decider) counterpart(p string) string {
	for dir := path.Dir(p); dir != d.top && sandbox.Within(dir, d.top); dir = path.Dir(dir) {
		if _, err := os.Lstat(d.at(path.Join(dir, ".git"))); err != nil && !d.wasWorktree(dir) {
			continue
		}
		if own := path.Join(d.top, p[len(dir):]); (d.wasWorktree(dir) || d.isWorktree(dir)) && d.hasNoLink(own, d.top) {
			return own
		}
		return ""
	}
	return ""
}

func (d *decider) isWorktree(dir string) bool {
	st, err := os.Lstat(d.at(path.Join(dir, ".git")))
	return err == nil && st.Mode().IsRegular()
}

// leaveWorktree remembers a folder whose file .git is removed. Its other files are removed after it.
func (d *decider) leaveWorktree(r supervisor.Request) {
	if dir := path.Dir(r.Path); r.Act == supervisor.Remove && path.Base(r.Path) == ".git" && d.isWorktree(dir) {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.left[dir] = true
	}
}

func (d *decider) wasWorktree(dir string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.left[dir]
}

// decidesAlike reports whether the policy gives the same answer about two paths, for the same reasons.
func (d *decider) decidesAlike(kind tool.ActionKind, a, b string) bool {
	of, as := d.chain.DecideAction(d.action(kind, a)), d.chain.DecideAction(d.action(kind, b))
	return of.Effect == as.Effect && slices.EqualFunc(of.Refusals, as.Refusals, func(x, y policy.Refusal) bool {
		return x.Effect == y.Effect && x.Rule.String() == y.Rule.String()
	})
}

// hasContent reports whether a file of the workspace has a content.
func (d *decider) hasContent(own string, text []byte) bool {
	guessed := d.may(tool.FileRead, own) != nil
	d.mu.Lock()
	defer d.mu.Unlock()
	if guessed && d.guesses >= maxGuesses {
		return false
	}
	is, err := readRegular(d.at(own), unix.O_NOFOLLOW)
	if err == nil && bytes.Equal(is, text) {
		return true
	}
	if guessed {
		d.guesses++
	}
	return false
}

// isGit reports whether a process runs a program named git.
func isGit(pid int) bool {
	exe, err := os.Readlink(fmt.Sprintf("/proc/%d/exe", pid))
	return err == nil && path.Base(exe) == "git"
}
