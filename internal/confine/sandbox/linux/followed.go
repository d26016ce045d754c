//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// follows are names of [policy.Followed] that a command was about to make or change.
type follows struct {
	files   map[string]bool
	folders map[string]bool // that got another name, with the files in them
	more    bool
	signs   bool // not followed: the command signs
}

// Bounds of [follows].
const (
	maxFollowed     = 100
	maxFollowedLook = 20_000 // names in folders that got another name
)

// follow notes an allowed request.
func (d *decider) follow(r supervisor.Request) {
	if r.Act&(supervisor.Create|supervisor.Write|supervisor.Moved) == 0 || r.Act&supervisor.Connect != 0 || !sandbox.Within(r.Path, d.top) || !d.ofMachine(r.Path) {
		return
	}
	isFollowed := policy.Followed(strings.TrimPrefix(r.Path, d.top+"/"))
	if !isFollowed && r.Act&supervisor.Moved == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	into := &d.follows.folders
	if isFollowed {
		into = &d.follows.files
	}
	if *into == nil {
		*into = map[string]bool{}
	}
	if !(*into)[r.Path] && len(*into) >= maxFollowed {
		d.follows.more = true
		return
	}
	(*into)[r.Path] = true
}

// sign notes a file that GnuPG, or Git with an SSH key, makes for a signature.
func (d *decider) sign(r supervisor.Request) {
	if strings.Contains(r.Path, "/.gnupg") || strings.HasPrefix(path.Base(r.Path), ".git_signing_") {
		d.mu.Lock()
		d.follows.signs = true
		d.mu.Unlock()
	}
}

// followed lists the noted names that are files now, sorted, whether there may be others, and whether the command signs.
func (s *supervised) followed(ctx context.Context) (list []string, more, signs bool) {
	if s == nil {
		return nil, false, false
	}
	d := s.decider
	d.mu.Lock()
	files, folders := maps.Clone(d.follows.files), slices.Sorted(maps.Keys(d.follows.folders))
	more, signs = d.follows.more, d.follows.signs
	d.mu.Unlock()
	if files == nil {
		files = map[string]bool{}
	}
	w := walk.Walk{Names: maxFollowedLook, Skipped: func(string, error) { more = true }}
	w.Visit = func(in *walk.Folder, name string, kind fs.FileMode) (bool, error) {
		p := path.Join(w.Top, in.At(name))
		if !kind.IsDir() && policy.Followed(strings.TrimPrefix(p, d.top+"/")) {
			files[p] = true
		}
		return kind.IsDir() && d.madeAgain(p) == "", nil
	}
	for _, dir := range folders {
		root, err := os.OpenRoot(d.at(dir))
		if err != nil {
			continue // it is a file, or gone
		}
		w.Top = dir
		more = w.Down(context.WithoutCancel(ctx), root) != nil || more
		_ = root.Close() // it was only read
	}
	for _, p := range slices.Sorted(maps.Keys(files)) {
		if st, err := os.Lstat(d.at(p)); err == nil && !st.IsDir() {
			list = append(list, p)
		}
	}
	return list, more, signs
}
