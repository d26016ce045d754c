//go:build linux && (amd64 || arm64)

package linux_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// keptWorld is a workspace of many folders, for processes that share one folder of Remit.
type keptWorld struct {
	t          *testing.T
	dir, state string
	chain      policy.Chain
}

func newKeptWorld(t *testing.T, folders int) keptWorld {
	t.Helper()
	top, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	w := keptWorld{t: t, dir: filepath.Join(top, "ws"), state: filepath.Join(top, "state")}
	for i := range folders {
		must(t, os.MkdirAll(filepath.Join(w.dir, fmt.Sprintf("part%d", i/100), fmt.Sprintf("folder%d", i)), 0o755))
	}
	tick(t)
	w.chain = w.bind("**")
	return w
}

func (w keptWorld) bind(readable string) policy.Chain {
	w.t.Helper()
	p, err := policy.Parse("p", []byte("version: 1\nname: p\nfiles: {read: {allow: ['"+readable+"']}, write: {allow: ['**']}}\n"))
	must(w.t, err)
	r, err := p.Bind(policy.Env{Workspace: w.dir})
	must(w.t, err)
	return policy.Chain{r}
}

// survey prepares a command as a new process does, and gives the profile and the number of
// folders that it listed.
func (w keptWorld) survey(chain policy.Chain, state string) (sandbox.Profile, int) {
	w.t.Helper()
	box := linux.New(linux.Config{State: state})
	box.SettleTime(0)
	in := sandbox.Inputs{Chain: chain, Dir: w.dir, Isolation: policy.FullIsolation, State: state}
	listed, err := box.SurveyListed(&in)
	must(w.t, errors.Join(err, box.Close()))
	prof, err := sandbox.Compile(in)
	must(w.t, err)
	return prof, listed
}

// The first command of a process lists only those folders of a large tree that have changed
// since another process surveyed it, and finds every secret that was made since.
func TestALargeSurveyIsSharedByProcesses(t *testing.T) {
	const folders = 1200
	w := newKeptWorld(t, folders)
	if _, n := w.survey(w.chain, w.state); n < folders {
		t.Fatalf("the first process listed %d folders, want all %d", n, folders)
	}
	if _, n := w.survey(w.chain, w.state); n != 0 {
		t.Errorf("with nothing changed, the next process listed %d folders, want 0", n)
	}
	secret := filepath.Join(w.dir, "part3", "folder345", ".env")
	must(t, os.WriteFile(secret, []byte("secret"), 0o644))
	tick(t)
	prof, n := w.survey(w.chain, w.state)
	if n != 1 {
		t.Errorf("with one folder changed, the next process listed %d folders, want 1", n)
	}
	if _, m := sandbox.Cover(prof.Mounts, secret); m == nil || m.Kind != sandbox.Mask {
		t.Errorf("a secret that was made since is shown:\n%s", prof)
	}
	if all, _ := w.survey(w.chain, ""); all.String() != withoutState(prof, w.state).String() {
		t.Errorf("the profile is\n%s\nwant that of a process that listed all\n%s", prof, all)
	}
}

// withoutState drops the mask over Remit's own folder.
func withoutState(p sandbox.Profile, state string) sandbox.Profile {
	var out []sandbox.Mount
	for _, m := range p.Mounts {
		if m.Path != state {
			out = append(out, m)
		}
	}
	p.Mounts = out
	return p
}

// A kept survey is used only where it belongs to exactly this command's policies and is whole.
func TestAKeptSurveyOfOthersIsNotUsed(t *testing.T) {
	const folders = 1100
	w := newKeptWorld(t, folders)
	file := func() string {
		all, err := filepath.Glob(filepath.Join(w.state, "surveys", "*"))
		must(t, err)
		if len(all) != 1 {
			t.Fatalf("there are the files %q, want one", all)
		}
		return all[0]
	}
	w.survey(w.chain, w.state)
	one := file()
	whole, err := os.ReadFile(one)
	must(t, err)
	if _, n := w.survey(w.bind("**/*"), w.state); n < folders {
		t.Errorf("under another policy, %d folders were listed, want all", n)
	}
	others, err := filepath.Glob(filepath.Join(w.state, "surveys", "*"))
	must(t, err)
	for _, other := range others {
		if other == one {
			continue
		}
		b, err := os.ReadFile(other)
		must(t, errors.Join(err, os.WriteFile(one, b, 0o600), os.Remove(other)))
		if _, n := w.survey(w.chain, w.state); n < folders {
			t.Errorf("with another policy's file in its place, %d folders were listed, want all", n)
		}
	}
	for what, b := range map[string][]byte{"empty": nil, "cut": whole[:len(whole)-1], "changed": append(whole[:len(whole)-1:len(whole)-1], whole[len(whole)-1]^1)} {
		must(t, os.WriteFile(file(), b, 0o600))
		if _, n := w.survey(w.chain, w.state); n < folders {
			t.Errorf("with a file that is %s, %d folders were listed, want all", what, n)
		}
	}
}
