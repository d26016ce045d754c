package repository

import (
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"
)

// Worktree is a linked worktree, as git worktree add makes it.
type Worktree struct {
	Folder string // of its files
	Common string // the repository's own folder, which its worktrees share
	Main   string // the folder of the main worktree; "": the repository has none
}

// LinkedWorktree returns the linked worktree whose files are in a folder. ok is false unless the worktree and its
// repository name each other, in files of this user that no link leads to: a program that can write to only one of
// them cannot make a worktree.
func LinkedWorktree(folder string) (t Worktree, ok bool) {
	own, ok := namedIn(folder, ".git", "gitdir: ")
	if !ok || path.Base(path.Dir(own)) != "worktrees" {
		return Worktree{}, false
	}
	t = Worktree{Folder: folder, Common: path.Dir(path.Dir(own))}
	for _, dir := range []string{folder, own, t.Common} {
		if !isOwnFolder(dir) {
			return Worktree{}, false
		}
	}
	back, hasBack := namedIn(own, "gitdir", "")
	common, hasCommon := namedIn(own, "commondir", "")
	if !hasBack || back != folder+"/.git" || !hasCommon || common != t.Common || within(t.Common, folder) || !Is(t.Common, nil) {
		return Worktree{}, false
	}
	if path.Base(t.Common) == ".git" {
		t.Main = path.Dir(t.Common)
	}
	return t, true
}

// LinkedWorktrees returns the linked worktrees that a folder is in, the outermost first. A worktree in another worktree
// of the same repository is a part of that: a command can make it there.
func LinkedWorktrees(dir string) (out []Worktree) {
	for ; path.IsAbs(dir) && dir != "/"; dir = path.Dir(dir) {
		if t, ok := LinkedWorktree(dir); ok {
			out = append(slices.DeleteFunc(out, func(in Worktree) bool { return in.Common == t.Common }), t)
		}
	}
	slices.Reverse(out)
	return slices.DeleteFunc(out, func(t Worktree) bool { return t.Main != "" && within(t.Main, t.Folder) })
}

// Counterpart returns the folder in the worktree that stands for a folder in another worktree of the same
// repository. ok is false if there is none.
func (t Worktree) Counterpart(folder string) (at string, ok bool) {
	for top := folder; path.IsAbs(top) && top != "/"; top = path.Dir(top) {
		if !exists(top + "/.git") {
			continue
		}
		other, linked := LinkedWorktree(top)
		if linked && other.Common != t.Common || !linked && top != t.Main {
			return "", false
		}
		at = path.Join(t.Folder, strings.TrimPrefix(folder, top))
		return at, isOwnFolder(at)
	}
	return "", false
}

// namedIn returns the absolute path that is the only line of a file in a folder, behind a prefix. A relative path starts
// at the folder.
func namedIn(folder, name, prefix string) (p string, ok bool) {
	p, ok = strings.CutPrefix(ownText(folder+"/"+name), prefix)
	p, whole := strings.CutSuffix(p, "\n")
	if !ok || !whole || p == "" || p != path.Clean(p) || strings.ContainsFunc(p, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		return "", false // behind a link, .. is another folder
	}
	return absolute(folder, p, ""), true
}

// ownText reads a short file of this user; "": it is none.
func ownText(p string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || !isOwn(st) {
		return ""
	}
	const most = 4 << 10
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil || len(text) > most {
		return ""
	}
	return string(text)
}

// isOwnFolder reports whether a path is that of a folder of this user, with no link in it.
func isOwnFolder(p string) bool {
	st, err := os.Lstat(p)
	return err == nil && st.IsDir() && isOwn(st) && real(p) == p
}

func isOwn(st fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(sys.Uid) == os.Geteuid()
}
