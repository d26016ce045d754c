package command_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestVariablesWithAValue: whatever gives a variable another value than the policies is an
// action that names it; the same value is none.
func TestVariablesWithAValue(t *testing.T) {
	env := tool.Env{Workspace: "/ws", Pass: []string{"MODE"}, Values: map[string]string{"MODE": "test"}}
	for script, want := range map[string]bool{
		"ls": false, "MODE=test ls": false, "MODE=test; ls": false, "export MODE=test; ls": false, "env MODE=test ls": false, "env -u OTHER ls": true,
		"MODE=live ls": true, "MODE=live; ls": true, "MODE=$x ls": true, "MODE+=x; ls": true, "MODE[1]=x; ls": true, "MODE=(a b); ls": true,
		"export MODE=live; ls": true, "declare -x MODE=live; ls": true, "f() { local MODE=y; ls; }; f": true, "unset MODE; ls": true,
		"read MODE < a; ls": true, "mapfile MODE < a; ls": true, "getopts a MODE; ls": true, "printf -v MODE x; ls": true, "wait -p MODE; ls": true,
		"for MODE in a b; do ls; done": true, "for ((MODE=1;MODE<2;MODE++)); do ls; done": true, ": ${MODE:=x}; ls": true,
		"(( MODE = 5 )); ls": true, "let MODE=4; ls": true, "echo $((MODE=7)); ls": true, "exec {MODE}>/dev/null; ls": true,
		"env MODE=live ls": true, "env -i ls": true, "env --unset=MODE ls": true, "nice env MODE=x ls": true, "sh -c 'MODE=x ls'": true, "eval 'MODE=x'; ls": true,
	} {
		list := command.Actions([]string{"bash", "-c", script}, env, "/ws")
		if got := slices.ContainsFunc(list, func(a tool.Action) bool { return a.Variable == "MODE" && a.Unknown != "" }); got != want {
			t.Errorf("%s: %v, want %v", script, got, want)
		}
	}
}
