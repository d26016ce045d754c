package files_test

import (
	"path/filepath"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/files"
)

// File tools do not write what settings of a repository lead to, unless an entry spells it.
func TestWhatSettingsOfGitLeadTo(t *testing.T) {
	for entry, code := range map[string]fault.Code{"'**'": fault.HandleRefused, "'**', 'tools/hooks/**'": 0} {
		l := newPlace(t, "version: 1\nfiles: {read: {allow: ['**']}, write: {allow: ["+entry+"]}}")
		l.put(t, ".git/config", "[core]\n\thooksPath = tools/hooks\n")
		l.put(t, "plain", "x")
		f := l.f
		_, err := f.Write("tools/hooks/pre-commit", []byte("x"), files.WriteOptions{Parents: true, Mode: files.Replace})
		moved := f.Rename(t.Context(), "plain", "tools/hooks/post-commit", false, true)
		for _, err := range []error{err, moved} {
			if code == 0 {
				must(t, err)
			} else {
				wantCode(t, err, code)
			}
		}
		if _, err := f.Write(filepath.Join("tools", "x"), []byte("x"), files.WriteOptions{Parents: true, Mode: files.Replace}); err != nil {
			t.Error(err)
		}
	}
}
