//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// maxSurveyPath bounds the depth: a path has at most 4096 bytes.
const maxSurveyPath = 3500

// newSurvey prepares a survey of the files that a command's policies speak of, for a sandbox without namespaces.
func newSurvey(in *sandbox.Inputs) sandbox.Survey {
	s := sandbox.Survey{Roots: append(roots(in.Chain, in.Dir), in.Chain.Repository()), Keep: []string{in.State, in.Chain.Own()}, Together: true, Real: realPath, Open: openPlain,
		Skip: func(p string) bool { return len(p) > maxSurveyPath || !enterable(p) }}
	for _, m := range unwritable(in.Image, in.Chain, in.System) {
		s.System = append(s.System, m.Path)
	}
	return s
}

// roots are where the policy could allow anything. The machine's /tmp is shown by
// a root in it only, so where the policy speaks of all files, the part that the
// working folder is in is one.
func roots(chain policy.Chain, dir string) []string {
	out := append(sandbox.PossibleRoots(chain, tool.FileRead), sandbox.PossibleRoots(chain, tool.FileWrite)...)
	if in, ok := strings.CutPrefix(dir, "/tmp/"); ok && slices.Contains(out, "/") {
		first, _, _ := strings.Cut(in, "/")
		out = append(out, "/tmp/"+first)
	}
	return out
}

// openPlain opens a folder, and through no link on the way: a command that runs at the same time may replace
// folders by links. An old kernel tells only of the last name.
func openPlain(at string) (*os.File, error) {
	how := unix.OpenHow{Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC, Resolve: unix.RESOLVE_NO_SYMLINKS}
	for {
		switch fd, err := unix.Openat2(unix.AT_FDCWD, at, &how); {
		case err == nil:
			return os.NewFile(uintptr(fd), at), nil
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EPERM):
			return os.OpenFile(at, int(how.Flags), 0)
		case !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN):
			return nil, err
		}
	}
}

// enterable reports whether a command may list a folder and use its content. As
// root, a command is root without the privilege to pass over modes.
func enterable(folder string) bool {
	if os.Geteuid() != 0 {
		return unix.Access(folder, unix.R_OK|unix.X_OK) == nil
	}
	var st unix.Stat_t
	if unix.Stat(folder, &st) != nil {
		return false
	}
	shift := 0 // of the bits that hold for everybody else
	switch {
	case st.Uid == 0:
		shift = 6
	case st.Gid == 0:
		shift = 3
	}
	return st.Mode>>shift&0o5 == 0o5
}
