//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Bounds of the kernel's on what execve takes.
const (
	maxArg  = 128<<10 - 1
	maxArgs = 1 << 20
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

func checkArgs(c sandbox.Command) error {
	if len(c.Argv) == 0 {
		return fault.New(fault.ArgsInvalid, "the command is empty")
	}
	if !filepath.IsAbs(c.Dir) {
		return fault.New(fault.ArgsInvalid, "the working folder %q is not absolute", c.Dir)
	}
	total := 0
	for i, a := range c.Argv {
		if strings.ContainsRune(a, 0) {
			return fault.New(fault.ArgsInvalid, "argument %d holds a NUL byte", i)
		}
		if len(a) > maxArg {
			return fault.New(fault.ArgsInvalid, "argument %d has %d bytes; the system takes at most %d", i, len(a), maxArg).
				WithHint("pass it on stdin or in a file")
		}
		total += len(a) + 9
	}
	for k, v := range c.Env {
		if len(v) > maxArg-len(k)-1 || strings.ContainsRune(v, 0) {
			return fault.New(fault.ArgsInvalid, "the value of the variable %q is too long or holds a NUL byte", k)
		}
		total += len(k) + len(v) + 10
	}
	if total > maxArgs {
		return fault.New(fault.ArgsInvalid, "the arguments have %d bytes together; at most %d can be passed", total, maxArgs).
			WithHint("pass them on stdin or in a file")
	}
	return nil
}

// checkCommand asks the permit about the very files that would be executed.
func checkCommand(ctx context.Context, p permit.Permit, c command, dir, exe string, names, path []string) error {
	switch {
	case !p.Live():
		return fault.New(fault.HandleRefused, "the call that this command belongs to is over")
	case c.Shell && c.Argv[0] != sandbox.Bash && c.Argv[0] != sandbox.PlainShell:
		return fault.New(fault.Internal, "the pinned shell is %s, not %q", sandbox.Bash, c.Argv[0])
	case !c.Shell:
		if err := checkProgram(ctx, p, c.layers, tool.Action{Kind: tool.Command, Argv: c.Argv, Dir: c.Dir, RealDir: dir, Exe: exe, Names: names, Typed: c.Typed}); err != nil {
			return err
		}
	}
	for _, a := range c.Starts {
		if a.Kind != tool.Command { // the kernel decides about files
			if err := sandbox.VerifyContents(ctx, p, c.layers, a); err != nil {
				return err
			}
			continue
		}
		if a.Unknown == "" {
			var err error
			if a.Exe, a.Names, err = sandbox.LookupIn(c.at, slices.Concat(path, a.Search), a.Argv[0], a.Dir); err != nil {
				return err
			}
		}
		if err := checkProgram(ctx, p, c.layers, a); err != nil {
			return err
		}
	}
	return nil
}

// checkProgram asks about one program. A file that lies where commands can
// write is not the program that a rule means by its name: such a rule must
// spell the path.
func checkProgram(ctx context.Context, p permit.Permit, l *layers, a tool.Action) error {
	if err := p.Check(a); err != nil {
		return err
	}
	if err := sandbox.VerifyContents(ctx, p, l, a); err != nil {
		return err
	}
	inside := p.Env().Workspace != "" && sandbox.Within(a.Exe, p.Env().Workspace) ||
		p.Chain().DecideAction(tool.Action{Kind: tool.FileWrite, Path: a.Exe, Real: a.Exe}).Effect != 0
	if !inside || a.Typed {
		return nil
	}
	rule := p.Chain().DecideAction(a).Rule
	if rule != nil {
		if first, _, _ := strings.Cut(rule.Pattern, " "); strings.Contains(first, "/") && !strings.ContainsAny(first, "*?[{") {
			return nil
		}
	}
	return fault.New(fault.HandleRefused, "%s: the program is %q, which commands may have written", a, a.Exe).
		WithHint("a rule that spells its path allows it")
}
