package shelltool

import (
	"fmt"

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

// HintErrors returns hints for the caller of a command that failed with an error that the sandbox may have caused.
func HintErrors(p permit.Permit, o sandbox.Outcome) (hints []string) {
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
