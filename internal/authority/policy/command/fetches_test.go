package command_test

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/tool"
)

func TestFetches(t *testing.T) {
	if n := strings.Count(command.Fetching, "|") + strings.Count(command.Fetching, "\n") + 1; command.NumFetches() != n {
		t.Errorf("%d of %d patterns can be parsed", command.NumFetches(), n)
	}
	for script, want := range map[string]bool{
		"npm install":                         true,
		"npm i left-pad":                      true,
		"npm --prefix web ci":                 true,
		"cd web && npm ci --no-audit":         true,
		"timeout 60 npx --yes cowsay hi":      true,
		"python3 -m pip install -r x.txt":     true,
		".venv/bin/pip install requests":      true,
		"go mod tidy":                         true,
		"go -C sub get example.test/a@latest": true,
		"CI=1 pnpm add -D vitest":             true,
		"npm test":                            false,
		"npm run build":                       false,
		"go test ./...":                       false,
		"cargo build":                         false,
		"echo npm install":                    false,
		"grep -r 'npm install' docs":          false,
	} {
		r, err := command.Script(script, tool.Env{Workspace: "/w", Home: "/home/u"}, "/w", nil)
		if err != nil {
			t.Fatal(err)
		}
		got := false
		for i := range r.Actions {
			got = got || command.Fetches(&r.Actions[i])
		}
		if got != want {
			t.Errorf("%s: %v, want %v (%v)", script, got, want, r.Actions)
		}
	}
}
