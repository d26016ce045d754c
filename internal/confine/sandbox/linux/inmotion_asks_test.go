//go:build linux && (amd64 || arm64)

package linux_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// asked gives the world an approver, and returns what the approver was asked.
func (w *world) asked(approves func(a tool.Action) bool) func() []string {
	w.t.Helper()
	var mu sync.Mutex
	var list []string
	chain := w.p.Chain()
	w.p = permit.Mint(permit.Terms{Chain: chain, Limits: chain.Limits(), Env: w.p.Env(), Ask: func(_ context.Context, a tool.Action, _ policy.Decision) bool {
		mu.Lock()
		defer mu.Unlock()
		list = append(list, a.Kind.String()+" "+filepath.Base(a.Path))
		return approves(a)
	}})
	return func() []string { mu.Lock(); defer mu.Unlock(); return list }
}

// TestAnApprovalIsForItsAction: who approves that a file is read has not approved that it is written, nor that another one is.
func TestAnApprovalIsForItsAction(t *testing.T) {
	const asks = "version: 1\nname: test\nfiles:\n  read:  {allow: [\"**\"], ask: [\"**/asked*\"]}\n  write: {allow: [\"**\"], ask: [\"**/asked*\"]}\ncommands: {allow: [\"**\"], timeout: 300s}\n"
	reads := func(a tool.Action) bool { return a.Kind == tool.FileRead }
	for name, tc := range map[string]struct {
		script   string
		approves func(a tool.Action) bool
		read     bool
	}{
		"opened for both":       {"exec 3<>asked && cat <&3; echo bad >&3", reads, false},
		"opened for both twice": {"exec 3<>asked; exec 3<>asked && cat <&3; echo bad >&3", reads, false},
		"read, then written":    {"cat asked; echo bad >asked; echo bad >>asked", reads, true},
		"linked":                {"ln asked mine; cat mine; echo bad >mine", reads, false},
		"moved":                 {"mv asked mine; cat mine; echo bad >mine", reads, false},
		"another one":           {"cat asked; cat asked-too; cat folder/asked", func(a tool.Action) bool { return reads(a) && filepath.Base(a.Path) == "asked-too" }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, asks)
			for _, p := range []string{"asked", "folder/asked"} {
				w.file(p, motionSecret)
			}
			w.file("asked-too", "")
			questions := w.asked(tc.approves)
			out := w.sh(tc.script)
			if read := strings.Contains(string(out.Stdout.Data), motionSecret); read != tc.read || len(questions()) == 0 {
				t.Errorf("read: %t, want %t; asked %q\n%s", read, tc.read, questions(), out.Stderr.Data)
			}
			for _, p := range []string{"asked", "folder/asked"} {
				if b, err := os.ReadFile(filepath.Join(w.dir, p)); err != nil || string(b) != motionSecret {
					t.Errorf("%s holds %q, %v; asked %q\n%s", p, b, err, questions(), out.Stderr.Data)
				}
			}
		})
	}
}
