//go:build linux && (amd64 || arm64)

package linux_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/sandbox/linux"
)

// TestAKeptHomeIsForOneAuthority: of commands that differ in a policy, in the labels of their data or in their secrets, none
// finds what another left.
func TestAKeptHomeIsForOneAuthority(t *testing.T) {
	racetest.Skip(t, oneByOne)
	kept := strings.Replace(openPolicy, "name: test\n", "name: test\nsandbox: {home: kept}\n", 1)
	w := newWorld(t, kept)
	w.box = linux.New(linux.Config{Getenv: os.LookupEnv, State: t.TempDir()})
	defer func() { must(t, w.box.Close()) }()
	narrow := func(more string) string { return "version: 1\nname: narrow\nrest: inherit\n" + more }
	policies := map[string][]string{
		"no more policy":  {kept},
		"a narrow grant":  {kept, narrow("commands: {deny: [\"curl **\"]}\n")},
		"another, narrow": {kept, narrow("commands: {deny: [\"wget **\"]}\n")},
		"a narrower one":  {kept, narrow("commands: {deny: [\"curl **\"]}\n"), narrow("files: {read: {deny: [\"a/**\"]}}\n")},
	}
	for name, sources := range policies {
		for _, data := range [][]string{nil, {"label private"}, {"label private", "label untrusted"}, {"label untrusted"}, {"secret token"}} {
			w.allow(sources...)
			w.p = permit.Mint(permit.Terms{Chain: w.p.Chain().Carrying(data), Limits: w.p.Limits(), Env: w.p.Env()})
			me := fmt.Sprint(name, data)
			if out := w.sh("cat ~/left; echo '" + me + "' > ~/left"); len(out.Stdout.Data) > 0 {
				t.Errorf("%s reads %q", me, out.Stdout.Data)
			}
			for range 2 {
				if out := w.sh("cat ~/left; chmod 0 ~"); string(out.Stdout.Data) != me+"\n" {
					t.Errorf("%s reads %q later: %s", me, out.Stdout.Data, out.Stderr.Data)
				}
			}
		}
	}
}
