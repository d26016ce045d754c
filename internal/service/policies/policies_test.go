package policies_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
)

// What is trusted is what was reviewed.
func TestTrustIsOfTheReviewedFile(t *testing.T) {
	ws, text := t.TempDir(), "version: 1\nname: reviewed\n"
	file := filepath.Join(ws, "remit.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	homeDir := t.TempDir()
	ledger, err := sqlite.Open(t.Context(), sqlite.Options{Home: homeDir, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	defer ledger.Close()
	s := policies.Policies{Home: &home.Home{Config: home.Config{Dir: homeDir}, Ledger: func(context.Context) (store.Backend, error) { return ledger, nil }}}
	reviewed := runner.DigestOf([]byte(text)).String()
	for _, digest := range []string{reviewed, strings.TrimPrefix(reviewed, "sha256:"), strings.ToUpper(reviewed)} {
		if _, _, err := s.Trust(ws, digest); err != nil {
			t.Errorf("%s: %v", digest, err)
		}
	}
	if _, err := s.Distrust(ws); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text+"files: {write: {allow: ['**']}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, digest := range []string{reviewed, "sha256:", "x"} {
		if _, _, err := s.Trust(ws, digest); fault.CodeOf(err) != fault.Conflict {
			t.Errorf("%s: %v", digest, err)
		}
	}
	if was, err := s.Distrust(ws); err != nil || was {
		t.Errorf("the changed file was trusted: %v, %v", was, err)
	}
}
