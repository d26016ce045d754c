package policy_test

import (
	"fmt"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

func Example() {
	p, err := policy.Parse("docs.yaml", []byte(`
version: 1
files:
  read:
    allow: ["**"]
    deny: ["private/**"]
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	rules, err := p.Bind(policy.Env{Workspace: "/ws"})
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := policy.Chain{rules}
	for _, path := range []string{"/ws/a.txt", "/ws/private/b.txt", "/etc/passwd", "/ws/.env"} {
		d := chain.DecideAction(tool.Action{Kind: tool.FileRead, Path: path})
		fmt.Println(d.Effect, "-", d.Reason)
	}
	// Output:
	// allow - allowed by files.read.allow[0] "**"
	// deny - denied by files.read.deny[0] "private/**"
	// deny - no entry of files.read.allow matches "/etc/passwd"
	// deny - ".env" may hold secrets; to allow it, add ".env" to files.read.allow (docs.yaml:5)
}
