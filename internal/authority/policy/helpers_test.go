package policy_test

import (
	"fmt"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

var env = policy.Env{Workspace: "/ws", Home: "/home/u", State: "/home/u/.local/share/remit",
	Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}}

// rules reads and binds a policy; "version: 1" is put before it.
func rules(t testing.TB, src string) *policy.Rules {
	t.Helper()
	p, err := policy.Parse("test.yaml", []byte("version: 1\n"+src))
	if err != nil {
		t.Fatalf("%v\n%s", err, src)
	}
	r, err := p.Bind(env)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func chain(t testing.TB, srcs ...string) policy.Chain {
	t.Helper()
	var c policy.Chain
	for _, s := range srcs {
		c = append(c, rules(t, s))
	}
	return c
}

func abs(p string) string {
	if strings.HasPrefix(p, "/") {
		return p
	}
	return "/ws/" + p
}

func read(p string) tool.Action  { return tool.Action{Kind: tool.FileRead, Path: abs(p)} }
func write(p string) tool.Action { return tool.Action{Kind: tool.FileWrite, Path: abs(p)} }
func run(argv ...string) tool.Action {
	return tool.Action{Kind: tool.Command, Argv: argv, Dir: "/ws"}
}

func get(t testing.TB, url string, addrs ...string) tool.Action {
	t.Helper()
	tg, err := target.Parse("GET", url)
	if err != nil {
		t.Fatal(err)
	}
	a := tool.Action{Kind: tool.Network, Target: tg}
	for _, s := range addrs {
		a.Addrs = append(a.Addrs, netip.MustParseAddr(s))
	}
	return a
}

func docsWriter(t testing.TB) *policy.Policy {
	t.Helper()
	src, err := os.ReadFile("testdata/docs-writer.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse("docs-writer.yaml", src)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// quoted writes a YAML list.
func quoted(list []string) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = fmt.Sprintf("%q", s)
	}
	return "[" + strings.Join(out, ", ") + "]"
}
