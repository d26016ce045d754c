//go:build linux && (amd64 || arm64)

package linux_test

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Numbers of processes run out and come round again: that ends nothing.
func TestManyProcessesOneAfterAnother(t *testing.T) {
	everyTier(t, openPolicy+"  processes: 12\n", func(t *testing.T, src string) {
		w := newWorld(t, src)
		script := "i=0; while [ $i -lt 40 ]; do echo x | cat | cat >/dev/null || exit 1; i=$((i+1)); done; (true &); exit 7"
		for range 2 {
			out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", script}, Shell: true, Timeout: time.Minute})
			if err != nil || out.ExitCode != 7 || len(out.Stderr.Data) > 0 {
				t.Errorf("got exit %d, %v, limit %q, %s", out.ExitCode, err, out.Limit, out.Stderr.Data)
			}
		}
	})
}

// Children that nobody waits for do not stay, and change nothing of how a
// command ends.
func TestOrphansAreWaitedFor(t *testing.T) {
	everyTier(t, openPolicy+"  processes: 400\n", func(t *testing.T, src string) {
		w := newWorld(t, src)
		rounds := "250" // of two orphans each; who waits for them may be some behind
		if os.Getenv("REMIT_SOAK") != "" {
			rounds = "20000"
		}
		script := "i=0; while [ $i -lt ROUNDS ]; do (true & true & true); i=$((i+1)); done; exit 7"
		out, err := w.run(sandbox.Command{Argv: []string{"/bin/sh", "-c", strings.Replace(script, "ROUNDS", rounds, 1)}, Shell: true, Timeout: 5 * time.Minute})
		if err != nil || out.ExitCode != 7 || len(out.Stderr.Data) > 0 {
			t.Errorf("got exit %d, %v, limit %q, %s", out.ExitCode, err, out.Limit, out.Stderr.Data)
		}
	})
}
