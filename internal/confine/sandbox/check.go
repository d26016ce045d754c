package sandbox

import (
	"context"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of the kernel's on what execve takes.
const (
	maxArg  = 128<<10 - 1
	maxArgs = 1 << 20
)

// CheckArgs refuses a command that could not be executed as it is.
func CheckArgs(c Command) error {
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

// CheckCommand asks the permit about the very files that would be executed. at returns the
// place of a file that the command sees, and v reads it.
func CheckCommand(ctx context.Context, p permit.Permit, v View, at func(string) string, c Command, dir, exe string, names, path []string) error {
	switch {
	case !p.Live():
		return fault.New(fault.HandleRefused, "the call that this command belongs to is over")
	case c.Shell && c.Argv[0] != Bash && c.Argv[0] != PlainShell:
		return fault.New(fault.Internal, "the pinned shell is %s, not %q", Bash, c.Argv[0])
	case !c.Shell:
		if err := checkProgram(ctx, p, v, tool.Action{Kind: tool.Command, Argv: c.Argv, Dir: c.Dir, RealDir: dir, Exe: exe, Names: names, Typed: c.Typed}); err != nil {
			return err
		}
	}
	for _, a := range c.Starts {
		if a.Kind != tool.Command { // the kernel decides about files
			if err := VerifyContents(ctx, p, v, a); err != nil {
				return err
			}
			continue
		}
		if a.Unknown == "" {
			var err error
			a.Exe, a.Names, err = LookupIn(at, slices.Concat(path, a.Search), a.Argv[0], a.Dir)
			switch {
			case c.Shell && Unrunnable(err) && a.Exe == "":
				if err := p.Check(a); err != nil {
					return err
				}
				continue // the shell says so, where it comes to it
			case c.Shell && Unrunnable(err): // it may be made executable until then
			case err != nil:
				return err
			}
		}
		if err := checkProgram(ctx, p, v, a); err != nil {
			return err
		}
	}
	return nil
}

// checkProgram asks about one program. A file that lies where commands can
// write is not the program that a rule means by its name: such a rule must
// spell the path.
func checkProgram(ctx context.Context, p permit.Permit, v View, a tool.Action) error {
	if err := p.Check(a); err != nil {
		return err
	}
	if err := VerifyContents(ctx, p, v, a); err != nil {
		return err
	}
	inside := p.Env().Workspace != "" && Within(a.Exe, p.Env().Workspace) ||
		p.Chain().DecideAction(tool.Action{Kind: tool.FileWrite, Path: a.Exe, Real: a.Exe}).Effect != 0
	if !inside || a.Typed {
		return nil
	}
	rule := p.Chain().DecideAction(a).Rule
	if rule != nil {
		if rule.Name == policy.Untold {
			return nil
		}
		if first, _, _ := strings.Cut(rule.Pattern, " "); strings.Contains(first, "/") && !strings.ContainsAny(first, "*?[{") {
			return nil
		}
	}
	return fault.New(fault.HandleRefused, "%s: the program is %q, which commands may have written", a, a.Exe).
		WithHint("a rule that spells its path allows it")
}

// TimeLimit is how long a command may take.
func TimeLimit(p permit.Permit, c Command) time.Duration {
	if c.Proxy != nil {
		return math.MaxInt64
	}
	t := WithDefaults(p.Limits()).CommandTimeout
	if c.Long && p.Limits().CommandTimeout <= 0 {
		t = math.MaxInt64
	}
	if c.Timeout > 0 {
		t = min(t, c.Timeout)
	}
	return t
}

// OutputLimit is how many bytes are kept of each of its streams.
func OutputLimit(p permit.Permit, c Command) int64 {
	n := WithDefaults(p.Limits()).OutputBytes
	if c.MaxOutput > 0 {
		n = min(n, c.MaxOutput)
	}
	return n
}
