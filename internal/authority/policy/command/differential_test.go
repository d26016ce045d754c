package command_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// real carries command lines out in a scratch folder, where a canary notes that it ran.
type real struct {
	t   *testing.T
	dir string
	env []string
}

// newReal makes the folder: files of options, scripts and configurations that start the canary,
// whatever reads them.
func newReal(t *testing.T) *real {
	dir := t.TempDir()
	bin := filepath.Join(dir, "bin")
	r := &real{t: t, dir: dir, env: []string{"HOME=" + dir, "PATH=/usr/local/bin:/usr/bin:/bin:" + bin, "GIT_CONFIG_NOSYSTEM=1", "LC_ALL=C", "GIT_TERMINAL_PROMPT=0", "GIT_EDITOR=true", "PAGER=cat"}}
	write := func(name, text string, mode os.FileMode) {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
	canary := "#!/bin/sh\n: > " + filepath.Join(dir, "ran") + "\n"
	for _, name := range []string{"bin/canary", "bin/git-canary", "bin/git-merge-canary", "bin/c", "bin/e"} {
		write(name, canary, 0o755)
	}
	write("script", "1e canary\n", 0o644)
	write("list", "--checkpoint=1\n--checkpoint-action=exec=canary\nscript\n", 0o644)
	write("text", "a\nb\n", 0o644)
	return r
}

// ran carries a command line out and reports whether the canary ran.
func (r *real) ran(argv []string) bool {
	_ = os.Remove(filepath.Join(r.dir, "ran"))
	c := exec.CommandContext(r.t.Context(), argv[0], argv[1:]...)
	c.Dir, c.Env, c.WaitDelay = r.dir, r.env, time.Second
	stop := time.AfterFunc(2*time.Second, func() { _ = c.Process.Kill() })
	_ = c.Run()
	stop.Stop()
	_, err := os.Stat(filepath.Join(r.dir, "ran"))
	return err == nil
}

// told reports whether Remit says that a command line may start the canary: it names it, or
// cannot tell.
func told(argv []string, dir string) bool {
	return !determined(argv...) || slices.ContainsFunc(command.Actions(argv, free, dir), func(a tool.Action) bool {
		return len(a.Argv) > 0 && slices.Contains([]string{"canary", "c", "e", "git-canary"}, filepath.Base(a.Argv[0]))
	})
}

// optionsOf are the options that a program's own help lists.
func optionsOf(argv ...string) (out []string) {
	text, _ := exec.Command(argv[0], argv[1:]...).CombinedOutput()
	for _, o := range regexp.MustCompile(`(^|[\s,|\[])(--?[A-Za-z0-9][\w-]*)`).FindAllStringSubmatch(string(text), -1) {
		out = append(out, o[2])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// attempts are command lines of one program: each option of it with values that would start
// the canary, attached and not, in bundles and shortened, and values in the place of options.
type attempts struct {
	name   string
	help   []string   // prints its options
	before []string   // words before the options
	behind [][]string // words behind them
	values []string
}

func (a *attempts) one(r *rand.Rand, options []string) []string {
	pick := func(list []string) string { return list[r.IntN(len(list))] }
	argv := append([]string{a.name}, a.before...)
	for range 1 + r.IntN(3) {
		o := pick(options)
		switch r.IntN(8) {
		case 0:
			argv = append(argv, o, pick(a.values))
		case 1:
			argv = append(argv, o+"="+pick(a.values))
		case 2:
			argv = append(argv, o+pick(a.values))
		case 3:
			argv = append(argv, o[:1+r.IntN(len(o))])
		case 4:
			if p := pick(options); len(o) == 2 && len(p) == 2 {
				o += p[1:]
			}
			argv = append(argv, o, pick(a.values))
		case 5:
			if p := pick(options); len(o) == 2 && len(p) == 2 {
				o += p[1:] + pick(options)[1:2]
			}
			argv = append(argv, o, pick(a.values), pick(a.values))
		case 6:
			argv = append(argv, pick(a.values))
		default:
			argv = append(argv, o)
		}
	}
	return append(argv, a.behind[r.IntN(len(a.behind))]...)
}

// Whatever the real program starts was named, or could not be told.
func TestRealProgramsStartNothingUntold(t *testing.T) {
	if testing.Short() {
		t.Skip("starts other programs")
	}
	list := []attempts{
		{"sed", []string{"sed", "--help"}, nil, [][]string{{"text"}, {"p", "text"}, {"1e canary", "text"}}, []string{"1e canary", "script", "e", "p", "-e", "s/a/canary/e"}},
		{"find", []string{"find", "--help"}, []string{".", "-maxdepth", "0"}, [][]string{{"-exec", "canary", ";"}, {"-print"}, {"-fprint", "-exec", "canary", ";"}}, []string{"canary", "-exec", "-fprint", "a", ";", "-neweraa", "-newermt", "-name"}},
		{"tar", []string{"tar", "--help"}, []string{"-cf", "a.tar"}, [][]string{{"text"}, {"--checkpoint=1", "text"}, {"-T", "list"}}, []string{"canary", "exec=canary", "list", "-T", "1", "--checkpoint-action=exec=canary"}},
		{"xargs", []string{"xargs", "--help"}, []string{"-a", "text"}, [][]string{{"true"}, {"canary"}, {"env", "true"}}, []string{"canary", "PATH", "1", "-I", "x"}},
		{"bash", []string{"bash", "--help"}, nil, [][]string{{"true"}, {"-c", "canary"}, {"pipefail", "history", "canary"}, {"text"}}, []string{"-c", "canary", "pipefail", "-o", "extglob", "script"}},
		{"env", []string{"env", "--help"}, nil, [][]string{{"true"}, {"canary"}, {"A=1", "canary"}}, []string{"canary", "-S", "canary x", "A=1", "PATH=bin"}},
		{"git", []string{"git", "--help"}, nil, [][]string{{"canary"}, {"status"}, {"x"}, {"log"}, {"config", "alias.x", "!canary"}}, []string{"alias.x=!canary", "core.pager=canary", "core.fsmonitor=canary", "x", "canary", ".", "push", "-c", "-p"}},
		{"git", []string{"git", "grep", "-h"}, []string{"grep"}, [][]string{{"a"}, {"--no-index", "a"}}, []string{"canary", "a", "-O"}},
		{"git", []string{"git", "rebase", "-h"}, []string{"rebase"}, [][]string{{"HEAD~1"}, {"--root"}}, []string{"canary", "-x", "HEAD"}},
		{"git", []string{"git", "clone", "-h"}, []string{"clone"}, [][]string{{".", "copy"}, {"ext::canary", "copy"}}, []string{"canary", "-u", "core.sshCommand=canary", "file://."}},
		{"sort", []string{"sort", "--help"}, nil, [][]string{{"text"}, {"-S1", "text"}}, []string{"canary", "text", "1"}},
		{"split", []string{"split", "--help"}, nil, [][]string{{"text"}}, []string{"canary", "1", "x"}},
		{"timeout", []string{"timeout", "--help"}, nil, [][]string{{"1", "true"}, {"1", "canary"}}, []string{"1", "canary"}},
		{"script", []string{"script", "--help"}, nil, [][]string{{"out"}, {"-c", "canary", "out"}}, []string{"canary", "-c", "c"}},
	}
	rounds := 12
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 300
	}
	r, seed := newReal(t), uint64(1)
	if os.Getenv("REMIT_SOAK") != "" {
		seed = rand.Uint64()
	}
	for _, init := range [][]string{{"git", "init", "-q"}, {"git", "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-q", "--allow-empty", "-m", "x"}, {"git", "config", "alias.x", "!canary"}} {
		r.ran(init)
	}
	random, started := rand.New(rand.NewPCG(seed, 1)), 0
	for _, a := range list {
		if _, err := exec.LookPath(a.name); err != nil {
			continue
		}
		options := append(optionsOf(a.help...), "-e", "-c", "-x", "-o", "-i")
		for range rounds {
			argv := a.one(random, options)
			if told(argv, r.dir) {
				continue // it need not be started
			}
			if started++; r.ran(argv) {
				t.Errorf("%q ran the canary, and was said to start nothing (seed %d)", argv, seed)
			}
		}
	}
	if started == 0 {
		t.Error("no program was started: the test compares nothing")
	}
	t.Log(fmt.Sprint(started), "command lines were carried out")
}
