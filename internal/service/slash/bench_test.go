package slash_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/slash"
)

// BenchmarkCommand measures a whole slash command in a process that goes on, as remit chat and
// remit serve: its run, its decision, its record and its response.
func BenchmarkCommand(b *testing.B) {
	a, dir := apptest.New(b, b.TempDir()), b.TempDir()
	policy := filepath.Join(dir, "policy.yaml")
	if err := os.WriteFile(policy, []byte("version: 1\nname: bench\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	ws, err := home.Workspace(dir)
	if err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		res, err := a.Slash.Run(b.Context(), slash.Request{Line: "/call time.now", Policy: policy, Workspace: ws})
		if err != nil || res.Outcome.Err != nil {
			b.Fatal(err, res.Outcome.Err)
		}
	}
}
