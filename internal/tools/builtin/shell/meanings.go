package shelltool

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// meanings are errors of the kernel that a sandbox causes and that programs print without the reason.
var meanings = []struct {
	says *regex.Expr
	mean func(disk int64) string
}{
	{readOnlyFS, func(int64) string {
		return "the sandbox keeps that folder read-only: a command writes in /tmp and where files.write.allow of the policy opens a folder"
	}},
	{regex.Lazy(`(?i)device or resource busy|\bEBUSY\b`), func(int64) string {
		return "the sandbox shows something of the machine at that name, so that a command cannot remove or rename it"
	}},
	{regex.Lazy(`(?i)no space left on device|\bENOSPC\b`), func(disk int64) string {
		return fmt.Sprintf("/tmp and the home folder of commands hold %d MiB together and %d files (commands.disk), unless the disk of the workspace is full", disk>>20, sandbox.MaxFiles)
	}},
}

// unsigned finds the errors of Git, GnuPG and OpenSSH for a commit or tag that cannot be signed.
var unsigned = regex.Lazy(`(?i)failed to sign the data|unable to sign the tag|signing failed:|no default secret key|needs to be (?:set|configured) for ssh signing|defaultKeyCommand needs|` +
	`cannot run gpg|couldn't (?:load public key|get agent socket|find key in agent)|no private key found for`)

// signing tells the way to a signature: no GPG agent can be reached from a sandbox.
const signing = "no GPG agent and no key file can be reached from the sandbox, so a commit or tag that must be signed is not made; sign with an SSH key of your SSH agent instead: " +
	`git config gpg.format ssh; git config user.signingkey "key::$(ssh-add -L | head -1)"; and in the policy network: {allow: ["SIGN ssh-agent:*"]} (docs/policy.md#ssh-agent)`

// HintErrors returns hints for the caller of a command that failed with an error that the sandbox may have caused, and for a signature
// that failed on the way.
func HintErrors(p permit.Permit, o sandbox.Outcome) (hints []string) {
	if o.Limit == "" && (unsigned.Match(o.Stderr.Data) || o.ExitCode != 0 && (o.Signs || unsigned.Match(o.Stdout.Data))) {
		hints = append(hints, signing)
	}
	return append(hints, hintErrors(p, o)...)
}

func hintErrors(p permit.Permit, o sandbox.Outcome) (hints []string) {
	if o.ExitCode == 0 || o.Limit != "" {
		return nil
	}
	for _, m := range meanings {
		if m.says.Match(o.Stderr.Data) || m.says.Match(o.Stdout.Data) {
			hints = append(hints, m.mean(p.Chain().Limits().Disk))
		}
	}
	return hints
}

// maxFollowed bounds the files that a note names.
const maxFollowed = 20

// HintFollowed names the files of the workspace that a command made or changed, and that a person's other programs follow.
func HintFollowed(o sandbox.Outcome) []string {
	if len(o.Followed) == 0 && !o.Unfollowed {
		return nil
	}
	names := make([]string, 0, maxFollowed+1)
	for _, p := range o.Followed[:min(len(o.Followed), maxFollowed)] {
		names = append(names, strconv.QuoteToASCII(p[:min(len(p), maxFollowedName)]))
	}
	if n := len(o.Followed) - len(names); n > 0 {
		names = append(names, fmt.Sprintf("%d more", n))
	}
	if o.Unfollowed {
		names = append(names, "perhaps others")
	}
	return []string{"the command made or changed files that agents, editors or Git follow by themselves: " + strings.Join(names, ", ") + "; look at them before you start one of these there"}
}

const maxFollowedName = 300 // bytes of a path
