package shelltool_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/sandbox"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

// Errors that the sandbox causes have their meaning, in the spelling of each language, and others have none.
func TestErrorsOfTheSandboxAreExplained(t *testing.T) {
	p := permit.Mint(permit.Terms{})
	for says, want := range map[string]string{
		"touch: cannot touch '../y': Read-only file system":             "read-only",
		"OSError: [Errno 30] Read-only file system: '../y.txt'":         "read-only",
		"Error: EROFS: read-only file system, open '/usr/x'":            "read-only",
		"mv: cannot move 'a' to 'b': Device or resource busy":           "cannot remove or rename",
		"Error: EBUSY: resource busy or locked, rmdir '/x'":             "cannot remove or rename",
		"dd: error writing '/tmp/x': No space left on device":           "commands.disk",
		"npm error code ENOSPC":                                         "commands.disk",
		"make: *** [all] Error 1":                                       "",
		"curl: (7) Failed to connect to 127.0.0.1: Connection refused":  "",
		"error: the variable NOEBUSYHERE is not set, nor is MYENOSPCIS": "",
	} {
		o := sandbox.Outcome{ExitCode: 1, Stderr: sandbox.Stream{Data: []byte(says)}}
		got := strings.Join(shelltool.HintErrors(p, o), "; ")
		if (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s\nmeans %q, want %q", says, got, want)
		}
		for _, o := range []sandbox.Outcome{{Stderr: o.Stderr}, {ExitCode: 1, Limit: "disk", Stderr: o.Stderr}} {
			if got := shelltool.HintErrors(p, o); !slices.Equal(got, nil) {
				t.Errorf("%s\nof a command that did not fail by it: %q", says, got)
			}
		}
	}
}
