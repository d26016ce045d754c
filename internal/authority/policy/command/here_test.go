package command_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// What certainly begins with a slash is no option, and what a program certainly does not
// start needs no other rule.
func TestWordsThatCannotNameAProgram(t *testing.T) {
	foreign := free
	foreign.Foreign = true
	for _, tt := range []struct {
		script string
		env    tool.Env
		dir    string
		want   bool // told
	}{
		{"find $PWD -type d", free, "/ws", true},
		{"find $(pwd) -type d", free, "/ws", true},
		{"find \"$(pwd)\" -type d", free, "/ws", true},
		{"find `pwd`/x -type d", free, "/ws", false},
		{"find $PWD -type d", free, "/my ws", false},
		{"find $PWD -type d", free, "/ws/a-exec", false},
		{"find $PWD -type d", foreign, "/ws", false},
		{"find $(pwd) -type d", foreign, "/ws", false},
		{"cd $x; find $PWD -type d", free, "/ws", false},
		{"pwd() { echo -exec; }; find $(pwd) -type d", free, "/ws", false},
		{"find $(pwd -P) -type d", free, "/ws", false},
		{"find . -ok mv {} files +", free, "/ws", true},
		{"find . -ok mv {} $(ls) +", free, "/ws", false},
		{"find . -exec mv {} files +", free, "/ws", false},
		{"tmux set-environment -t s -u NAME", free, "/ws", true},
		{"tmux set-environment A B ';' run-shell x", free, "/ws", false},
		{"tmux set-environment -F A x", free, "/ws", false},
		{"tmux -f x set-environment A B", free, "/ws", false},
		{"tmux new-session x", free, "/ws", false},
		{"bind -p", free, "/ws", true},
		{"bind -x '\"a\": rm x'", free, "/ws", false},
		{"bind -f x", free, "/ws", false},
	} {
		script, err := command.Script(tt.script, tt.env, tt.dir, nil)
		if got := err == nil && !slices.ContainsFunc(script.Actions, func(a tool.Action) bool { return a.Unknown != "" }); got != tt.want {
			t.Errorf("%q in %s: told %v, want %v: %s %v", tt.script, tt.dir, got, tt.want, show(script.Actions), err)
		}
	}
}
