package slash_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/slash"
)

// Secrets of the environment are in no kept response.
func TestResponsesHoldNoSecrets(t *testing.T) {
	homeDir, ws := filepath.Join(t.TempDir(), "home"), t.TempDir()
	a := apptest.New(t, homeDir, "MY_API_TOKEN=tok-0123456789abcdef")
	for name, text := range map[string]string{"notes.txt": "the token is tok-0123456789abcdef.", "p.yaml": "version: 1\nfiles: {read: {allow: ['**']}}\n"} {
		if err := os.WriteFile(filepath.Join(ws, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	ws, err := home.Workspace(ws)
	if err != nil {
		t.Fatal(err)
	}
	res, err := a.Slash.Run(t.Context(), slash.Request{Line: "/call fs.read path=notes.txt", Policy: filepath.Join(ws, "p.yaml"), Workspace: ws})
	if err != nil || res.Outcome.Err != nil {
		t.Fatal(err, res.Outcome.Err)
	}
	files, err := filepath.Glob(filepath.Join(homeDir, "responses", "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	kept, err := os.ReadFile(files[0])
	if err != nil || strings.Contains(string(kept), "0123456789abcdef") || !strings.Contains(string(kept), "the token is") {
		t.Errorf("%q, %v", kept, err)
	}
}
