// Package shelltool holds the built-in tool shell.run, which runs a command or a shell
// script. It starts processes only through package confine/sandbox, under the call's
// permit. Start at [New].
package shelltool

import (
	"context"
	_ "embed" // the schemas
	"encoding/base64"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/typed"
)

var (
	//go:embed input.schema.json
	inputSchema []byte
	//go:embed output.schema.json
	outputSchema []byte
)

// pinnedShell is the one shell that scripts run in: bash, which reads no start-up file with these
// options, for any standard input.
var pinnedShell = []string{sandbox.Bash, "--norc", "-c"}

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
}

// New makes the tool, which runs its commands in box. Each of ended is told how a command
// ended.
func New(box Box, ended ...func(sandbox.Outcome)) permit.Tool {
	return typed.New(tool.Spec{
		ID: "shell.run", Title: "Run a command", Version: "1", Source: "builtin",
		Description: "Runs a command (argv) or a bash script (script) in a sandbox with only the files and network that the policy allows. " +
			"Every command in a script must be allowed. Output over the limit is cut (truncated). A status other than 0 is a failure with its output.",
		Input: inputSchema, Output: outputSchema, Risk: tool.High,
		Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.FSDelete, tool.FSChmod, tool.NetworkHTTP, tool.NetworkSocket),
	}, func(env tool.Env, a arguments) (permit.Prepared, error) {
		c, err := a.command(env)
		if err != nil {
			return permit.Prepared{}, err
		}
		return permit.Prepared{Actions: a.actions(env, c), Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			return run(ctx, p, box, c, ended)
		}}, nil
	})
}

// run runs the command. One that fails is an error that comes with the output so far:
// fault.ToolFailed, or fault.ToolTimeout when its time ran out.
func run(ctx context.Context, p permit.Permit, box Box, c sandbox.Command, ended []func(sandbox.Outcome)) (tool.Result, error) {
	if box == nil {
		return tool.Result{}, fault.New(fault.SandboxMissing, "commands cannot run: the sandbox is not available")
	}
	made := MakeFolders(p, c.Starts)
	out, err := box.Run(ctx, p, c)
	if out.Changed != nil {
		p.Change(*out.Changed)
	}
	out.Hints = slices.Concat(made, HintMissing(p, out), HintWorktrees(p, c.Starts, out), HintErrors(p, out), HintFollowed(out))
	for _, f := range ended {
		f(out)
	}
	if err != nil {
		if errors.Is(err, fault.ToolTimeout) || errors.Is(err, fault.ToolCancelled) {
			return tool.Result{Output: output(out)}, err
		}
		return tool.Result{}, err
	}
	return tool.Result{Output: output(out)}, Failure(out)
}

// Failure is nil for a command that exited with 0.
func Failure(o sandbox.Outcome) error {
	return o.Failure("command", "the policy's commands.timeout or the call's timeout")
}

func output(o sandbox.Outcome) map[string]any {
	m := Ended(o)
	stream(m, "stdout", o.Stdout)
	stream(m, "stderr", o.Stderr)
	return m
}

// Ended is how a command ended, as results tell it, without what it wrote.
func Ended(o sandbox.Outcome) map[string]any {
	m := map[string]any{
		"exit_code": o.ExitCode, "duration_ms": o.Duration.Milliseconds(), "sandbox": o.Tier,
		"cpu_ms": o.CPU.Milliseconds(), "peak_memory_bytes": o.PeakMemory,
	}
	if o.Isolation != "" && o.Isolation != "full" {
		m["isolation"] = o.Isolation
	}
	if o.Place != "" {
		m["place"] = o.Place
	}
	if o.Signal != "" {
		m["signal"] = o.Signal
	}
	if o.TimedOut {
		m["timed_out"] = true
	}
	if o.Limit != "" {
		m["limit"] = o.Limit
	}
	if notes := slices.Concat(o.Notes, refusals(o), o.Hints); len(notes) > 0 {
		m["sandbox_notes"] = list(notes, func(n string) any { return n })
	}
	if len(o.Limits) > 0 {
		held := make(map[string]any, len(o.Limits))
		for name, how := range o.Limits {
			held[name] = how
		}
		m["limits"] = held
	}
	if o.DiskRead+o.DiskWritten > 0 {
		m["disk_read_bytes"], m["disk_written_bytes"] = o.DiskRead, o.DiskWritten
	}
	if len(o.Connections) > 0 {
		m["connections"] = list(o.Connections, func(c sandbox.Connection) any { return c.Output() })
	}
	return m
}

func list[T any](from []T, as func(T) any) []any {
	out := make([]any, len(from))
	for i, v := range from {
		out[i] = as(v)
	}
	return out
}

// stream adds the content of a stream, as text if it is UTF-8 (a character that the cap cut in two
// is left to the next part), else as Base64.
func stream(m map[string]any, name string, s sandbox.Stream) {
	data := s.Data
	if s.Truncated {
		data = cutPartial(data)
	}
	if utf8.Valid(data) {
		m[name] = string(data)
	} else {
		data = s.Data
		m[name+"_base64"] = base64.StdEncoding.EncodeToString(data)
	}
	info := map[string]any{"truncated": s.Truncated, "bytes_total": s.Total, "bytes_returned": int64(len(data))}
	if s.Truncated {
		info["next_offset"] = int64(len(data))
	}
	m[name+"_info"] = info
}

// cutPartial cuts the beginning of a character off the end.
func cutPartial(b []byte) []byte {
	for i := 1; i <= utf8.UTFMax && i <= len(b); i++ {
		if at := len(b) - i; utf8.RuneStart(b[at]) {
			if !utf8.FullRune(b[at:]) {
				return b[:at]
			}
			return b
		}
	}
	return b
}

func refusals(o sandbox.Outcome) (out []string) {
	for _, r := range o.Refusals {
		out = append(out, "Remit refused "+r.String())
	}
	return out
}
