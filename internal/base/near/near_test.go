package near_test

import (
	"testing"

	"github.com/remitrun/remit/internal/base/near"
)

func TestWord(t *testing.T) {
	words := []string{"fs.read", "fs.write", "http.get", "shell.run"}
	tests := map[string]string{
		"fs.raed":                    "fs.read",
		"FS.READ":                    "fs.read",
		"shel.run":                   "shell.run",
		"completely.different.thing": "",
		"":                           "",
	}
	for in, want := range tests {
		if got := near.Word(in, words); got != want {
			t.Errorf("Word(%q) = %q, want %q", in, got, want)
		}
	}
}
