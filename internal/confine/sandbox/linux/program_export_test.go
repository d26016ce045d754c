//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"time"

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

// Survey surveys as a command's preparation does.
func (b *Box) Survey(in *sandbox.Inputs) error {
	f, err := b.survey(context.Background(), in, nil)
	f.nodes(in, nil)
	return err
}

// SurveyListed is Survey, and gives the number of folders that it listed.
func (b *Box) SurveyListed(in *sandbox.Inputs) (int, error) {
	f, err := b.survey(context.Background(), in, nil)
	f.nodes(in, nil)
	return f.listed, err
}

// KeepFrom replaces how many folders a survey must have listed to be kept.
func (b *Box) KeepFrom(folders int) { b.surveys.keepFrom = folders }

// ResolveLinks is for nodes that a test made.
func ResolveLinks(chain policy.Chain, nodes []*sandbox.Node) { resolveLinks(chain, nodes, nil) }

// SurveyUpTo is a survey with a bound of its own.
func SurveyUpTo(most int, chain policy.Chain, root string) error {
	s := survey{names: sandbox.NewNames(chain), count: sandbox.Count{Most: most}}
	_, err := s.look(context.Background(), []string{root}, nil)
	return err
}

// SurveyNames gives the names of the folders that a survey finds.
func SurveyNames(ctx context.Context, chain policy.Chain, root string) ([]string, error) {
	s := survey{names: sandbox.NewNames(chain), count: sandbox.Count{Most: sandbox.MaxSurvey}}
	found, err := s.look(ctx, []string{root}, nil)
	var out []string
	for len(found) > 0 {
		f := found[0]
		out, found = append(out, f.name), append(found[1:], f.folders...)
	}
	return out, err
}

// SettleTime replaces how long a folder must not have changed for a survey to rely
// on its change time.
func (b *Box) SettleTime(d time.Duration) { b.surveys.settle = d }
