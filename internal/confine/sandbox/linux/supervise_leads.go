//go:build linux && (amd64 || arm64)

package linux

import (
	"path"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

// takes refuses a name by which other names lead elsewhere: a link in the place of a folder on the way to a name that
// the command may not write.
func (d *decider) takes(r supervisor.Request) error {
	link := r.Act&supervisor.Link != 0 || r.Act&(supervisor.Create|supervisor.Moved) == supervisor.Create|supervisor.Moved && kindOf(r.File) == unix.S_IFLNK
	if !link {
		return nil
	}
	return d.links(r.Path)
}

// links decides about a link by what would be beneath it, and by what Git writes through it.
func (d *decider) links(p string) error {
	git, part, ok := inRepository(p)
	switch {
	case d.leads.HoldsFiles(p):
		return d.noName(p, "settings of a Git repository say that its files are there, and not behind a link")
	case ok && part != "" && !probes(part) && d.may(tool.FileWrite, path.Join(git, "config")) != nil:
		return d.noName(p, "Git would write to what a link in a repository's own folder leads to")
	}
	if lead := d.leads.Below(p); lead != "" {
		if err := d.may(tool.FileWrite, lead); err != nil {
			return err
		}
	}
	for _, rest := range policy.SensitiveBelow(p) {
		if err := d.may(tool.FileWrite, p+"/"+strings.ReplaceAll(rest, "*", sandbox.AnyName)); err != nil {
			return err
		}
	}
	return nil
}

var (
	gitProbe = regex.Lazy(`(?:^|/)t[A-Za-z0-9]{6}$`)
	gitNames = regex.Lazy(`(?:^|/)(?:refs|logs)/`)
)

// probes reports whether a path in a repository's own folder is that of the link by which git init tries whether there
// are any. No branch has such a path.
func probes(part string) bool { return gitProbe.MatchString(part) && !gitNames.MatchString(part) }

// noName refuses to make or move a name.
func (d *decider) noName(p, reason string) error {
	return refusal{tool.Action{Kind: tool.FileWrite, Path: p, Real: p}, policy.Decision{Reason: reason}}
}

// led refuses to move a folder whose repository would be led to another place by its settings.
func (d *decider) led(p, lead string) error {
	return refusal{tool.Action{Kind: tool.FileWrite, Path: p, Real: p}, policy.Decision{Reason: "settings of a Git repository in it name " + lead + ", which would be another path then"}}
}

// kindOf is the type of what a descriptor stands for; 0: it is not known.
func kindOf(fd int) uint32 {
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil {
		return 0
	}
	return st.Mode & unix.S_IFMT
}
