// Package e2e_test proves promises of the whole product: the command as it is
// built, on real files, a real server, real processes and a real ledger. It
// holds no production code.
package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"

	_ "github.com/remitrun/remit/internal/cli" // a changed command is a reason to test again
)

// binary is remit, built from this source, and folder the one that it is in.
var binary, folder string

// soak asks for the long way of each test. What a test itself reads counts for
// whether its result can be reused.
func soak() bool { return os.Getenv("REMIT_SOAK") != "" }

func TestMain(m *testing.M) {
	flag.Parse()
	if f := flag.Lookup("rapid.checks"); f != nil && f.Value.String() == f.DefValue {
		_ = f.Value.Set(map[bool]string{false: "6", true: "100"}[soak()]) // each starts a process
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "remit-e2e-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if folder, err = filepath.EvalSymlinks(dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	binary = filepath.Join(folder, "remit")
	build := exec.CommandContext(context.Background(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", folder, "github.com/remitrun/remit/cmd/remit", "github.com/remitrun/remit/cmd/remit-hook")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "remit cannot be built: %v\n%s", err, out)
		return 1
	}
	code := m.Run()
	if code == 0 {
		// The threads on which the supervisor of sandboxes uses files are kept for the next command.
		if err := goleak.Find(goleak.IgnoreTopFunction("github.com/remitrun/remit/internal/confine/supervisor.serveThread")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	return code
}
