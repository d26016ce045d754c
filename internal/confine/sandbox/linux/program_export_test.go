//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"path"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// RunProfile runs true in the sandbox of a profile, as it would be run if the
// files had changed since the profile was computed. It says which step failed.
func (b *Box) RunProfile(p sandbox.Profile) (failed string, err error) {
	m, err := b.machine()
	if err != nil {
		return "", err
	}
	sp, err := b.ready()
	if err != nil {
		return "", err
	}
	system, links := system(nil, nil, false)
	m.links = links
	p.Mounts = append(system, p.Mounts...)
	p.Disk, p.Processes, p.OpenFiles, p.FileSize, p.Memory = 1<<20, 16, 64, 1<<20, 1<<30
	st := start{exe: "/usr/bin/true", argv: []string{"true"}}
	var child *spawn.Child
	if p.Isolation == policy.FullIsolation {
		child, err = b.spares.start(sp, program(m, p, st), [3]int{})
	} else {
		child, err = sp.Spawn(weakProgram(m, p, st, ""), 0, [3]int{})
	}
	if err != nil {
		return "", err
	}
	return child.Wait().Failed, nil
}

// SurveyNames gives the names of the folders that a survey looks into.
func SurveyNames(ctx context.Context, chain policy.Chain, root string) (names []string, err error) {
	in := sandbox.Inputs{Chain: chain, Dir: root}
	s := newSurvey(&in)
	s.Roots = []string{root}
	s.Skip = func(p string) bool { names = append(names, path.Base(p)); return false }
	return names, s.Fill(ctx, &in)
}
