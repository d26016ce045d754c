//go:build linux && (amd64 || arm64)

package linux

import (
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// pinShell gives a script that any POSIX shell reads alike to the plain shell, where
// there is no bash.
func pinShell(img *sandbox.Image, c sandbox.Command) (sandbox.Command, error) {
	if !c.Shell || c.Argv[0] != sandbox.Bash {
		return c, nil
	}
	if shellOf(img) == sandbox.Bash {
		return c, nil
	}
	if !c.POSIX {
		return c, fault.New(fault.SandboxMissing, "the script is written for bash, and there is no %s %s", sandbox.Bash, img.Where()).
			WithHint("install bash, or write the script for %s", sandbox.PlainShell)
	}
	c.Argv = []string{sandbox.PlainShell, "-c", c.Argv[len(c.Argv)-1]}
	return c, nil
}
