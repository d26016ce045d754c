package command_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// rules decides actions as a policy with these commands would that allows
// reading any file and writing none.
type rules struct{ allow, deny []*command.Pattern }

func newRules(t testing.TB, allow, deny []string) rules {
	var r rules
	for _, s := range allow {
		r.allow = append(r.allow, pattern(t, s))
	}
	for _, s := range deny {
		r.deny = append(r.deny, pattern(t, s))
	}
	return r
}

func (r rules) allows(as []tool.Action) bool {
	for i := range as {
		a := &as[i]
		switch {
		case a.Argument != tool.NoArgument: // a list of commands decides about none
			continue
		case a.Unknown != "", a.Kind == tool.FileWrite:
			return false
		case a.Kind == tool.FileRead:
			continue
		}
		if slices.ContainsFunc(r.deny, func(p *command.Pattern) bool { return p.MatchDeny(a, trusted) }) ||
			!slices.ContainsFunc(r.allow, func(p *command.Pattern) bool { return p.Match(a, trusted) }) {
			return false
		}
	}
	return true
}

// thirdParty reads cases of other projects, which are not part of this one.
func thirdParty(t *testing.T, name string, into any) {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: it names the folder of third-party cases")
	}
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(err)
	}
}

// ours are commands of scripts that need no rule, so that they are no action.
var ours = []string{"echo", "pwd", "true", "cd", "test"}

func TestThirdPartyShellSplit(t *testing.T) {
	var f struct {
		Cases []struct {
			Script string
			Expect json.RawMessage
		}
	}
	thirdParty(t, "shell/shell_split.json", &f)
	more := map[string]string{ // accepted here, with the reason
		`echo "hi ${USER}"`: "echo needs no rule", `echo "$HOME"`: "echo needs no rule", `echo $HOME`: "echo needs no rule",
		`echo "hi $USER"`: "echo needs no rule", `echo $(pwd)`: "a substitution's commands are decided", "echo `pwd`": "a substitution's commands are decided",
		`FOO=bar ls`: "a harmless variable is nothing that is decided", `echo hi & echo bye`: "a process in the background ends with the call",
		`(ls)`: "a subshell's commands are decided", `ls || (pwd && echo hi)`: "a subshell's commands are decided",
	}
	stricter := map[string]string{`grep -n 'pattern' -g'*.txt'`: "grep has no option -g"} // undetermined here, with the reason
	literally := newRules(t, []string{"ls", "ls -1", "rg -n foo -g*.py", "rg pattern", "wc -l"}, nil)
	for _, c := range f.Cases {
		t.Run(c.Script, func(t *testing.T) {
			script, err := command.Script(c.Script, env, "/ws", nil)
			as := script.Actions
			var want [][]string
			if json.Unmarshal(c.Expect, &want) != nil {
				if allowed := err == nil && literally.allows(as); allowed != (more[c.Script] != "") {
					t.Errorf("allowed: %v, %v %v", allowed, show(as), err)
				}
				return
			}
			want = slices.DeleteFunc(want, func(w []string) bool { return slices.Contains(ours, w[0]) })
			var got [][]string
			for _, a := range as {
				got = append(got, a.Argv)
			}
			if stricter[c.Script] != "" {
				if last := as[len(as)-1]; last.Unknown == "" {
					t.Errorf("got %q, want an undetermined command", got)
				}
				return
			}
			if err != nil || !slices.EqualFunc(got, want, slices.Equal[[]string]) {
				t.Errorf("got %q, want %q, %v", got, want, err)
			}
		})
	}
}

func readOnly(t testing.TB) rules {
	return newRules(t, []string{
		"ls **", "pwd", "wc **", "nl **", "tac **", "numfmt **", "grep **", "rg **", "find **", "base64", "base64 -d", "sed -n *,*p *", "sed -n *,*p",
		"git status **", "git branch", "git branch --show-current", "git -C . branch --show-current", "git log **", "git diff **", "git show **",
		"bash -c **", "bash -lc **",
	}, []string{"git ** --output* **", "rg ** -z **", "rg ** --search-zip **"})
}

func TestThirdPartyReadOnlyCommands(t *testing.T) {
	var f struct {
		Cases []struct {
			ID     string
			Cmd    []string
			Expect string
		}
	}
	thirdParty(t, "shell/readonly_commands.json", &f)
	differs := map[string]string{
		"zsh -lc ls":                      "stricter: what zsh reads differently from sh is not known",
		"bash -lc (ls)":                   "a subshell's commands are decided",
		"bash -lc ls || (pwd && echo hi)": "a subshell's commands are decided",
	}
	ro := readOnly(t)
	for _, c := range f.Cases {
		t.Run(c.ID, func(t *testing.T) {
			as := command.Actions(c.Cmd, env, "/ws")
			if got, want := ro.allows(as), c.Expect == "allow"; got != want && differs[strings.Join(c.Cmd, " ")] == "" {
				t.Errorf("%q: allowed %v: %s", c.Cmd, got, show(as))
			}
		})
	}
}

// The read-only policy holds against tries of our own, too.
func TestReadOnlyPolicy(t *testing.T) {
	ro := readOnly(t)
	for _, c := range []struct {
		argv string
		want bool
	}{
		{"ls|-l", true}, {"find|.|-name|x", true}, {"find|.|-delete", false}, {"find|.|-exec|rm|{}|;", false}, {"find|.|-exec|ls|{}|;", true},
		{"bash|-c|ls; pwd", true}, {"bash|-c|ls; rm x", false}, {"bash|-c|ls > x", false}, {"git|log|--output=x", false}, {"git|-c|core.pager=x|log", false},
		{"bash|-c|git log $x", false}, {"bash|-c|git status $x", false}, {"bash|-c|ls $x", true}, {"bash|-c|ls $(rm x)", false}, {"bash|-c|l\\s; 'r'm x", false},
		{"./ls", false}, {"/usr/bin/ls", true}, {"/tmp/ls", false}, {"env|ls", false},
	} {
		as := command.Actions(strings.Split(c.argv, "|"), env, "/ws")
		if got := ro.allows(as); got != c.want {
			t.Errorf("%q: allowed %v: %s", c.argv, got, show(as))
		}
	}
}
