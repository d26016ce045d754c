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

// A signature that failed is explained, by what Git, GnuPG or OpenSSH wrote, or where that is not known by the files that it made.
func TestMissingSignaturesAreExplained(t *testing.T) {
	p := permit.Mint(permit.Terms{})
	for says, want := range map[string]bool{
		"error: gpg failed to sign the data\nfatal: failed to write commit object": true, "gpg: signing failed: No secret key": true, "error: unable to sign the tag": true,
		"fatal: either user.signingkey or gpg.ssh.defaultKeyCommand needs to be configured": true, "error: user.signingkey needs to be set for ssh signing": true,
		"error: gpgsm failed to sign the data": true, "nothing to commit": false,
	} {
		for _, o := range []sandbox.Outcome{{ExitCode: 1, Stderr: sandbox.Stream{Data: []byte(says)}}, {Stderr: sandbox.Stream{Data: []byte(says)}}, {ExitCode: 1, Signs: want}} {
			if got := strings.Contains(strings.Join(shelltool.HintErrors(p, o), " "), "gpg.format ssh"); got != want {
				t.Errorf("%s, status %d: explained %v, want %v", says, o.ExitCode, got, want)
			}
		}
	}
	if got := shelltool.HintErrors(p, sandbox.Outcome{Signs: true}); got != nil {
		t.Errorf("a signature that was made gives %q", got)
	}
}

func TestFollowedFilesAreNamed(t *testing.T) {
	if got := shelltool.HintFollowed(sandbox.Outcome{}); got != nil {
		t.Errorf("%q", got)
	}
	many := make([]string, 50)
	for i := range many {
		many[i] = "/w/\x1b[2J/AGENTS.md"
	}
	got := strings.Join(shelltool.HintFollowed(sandbox.Outcome{Followed: many, Unfollowed: true}), " ")
	if strings.ContainsRune(got, 0x1b) || !strings.Contains(got, "AGENTS.md") || !strings.Contains(got, "30 more") || !strings.Contains(got, "perhaps others") {
		t.Errorf("%q", got)
	}
}
