// Package shelltool holds the built-in tool shell.run, which runs a command or
// a POSIX shell script in the sandbox. It starts nothing itself: package
// sandbox does, under the call's permit. Start at [New].
package shelltool

import (
	"context"
	_ "embed" // the schemas
	"encoding/base64"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

var (
	//go:embed input.schema.json
	inputSchema []byte
	//go:embed output.schema.json
	outputSchema []byte
)

// shellPath is the one shell that scripts run in. With -c it reads no start-up
// file, since the sandbox passes no ENV.
const shellPath = "/bin/sh"

// Box runs commands confined: sandbox.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
}

// Tool is shell.run.
type Tool struct {
	box  Box
	spec tool.Spec
}

// New gives the tool, which runs its commands in box.
func New(box Box) *Tool {
	return &Tool{box: box, spec: tool.Spec{
		ID: "shell.run", Title: "Run a command", Version: "1", Source: "builtin",
		Description: "Runs a command (argv, a list that nothing expands) or a POSIX shell script (script) in a sandbox " +
			"that sees only the files and reaches only the network that the policy allows. Every command that a script starts must be allowed. Gives the exit code, " +
			"stdout and stderr; output over the limit is cut and says so. A status other than 0 is a failure that keeps its output.",
		Input: inputSchema, Output: outputSchema, Risk: tool.High,
		Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.FSDelete, tool.FSChmod, tool.NetworkHTTP, tool.NetworkSocket),
	}}
}

// Spec describes the tool.
func (t *Tool) Spec() *tool.Spec { return &t.spec }

// request is a call's arguments, read.
type request struct {
	argv      []string
	script    string // instead of argv
	dir       string // absolute
	env       map[string]string
	stdin     string
	timeout   time.Duration
	maxOutput int64
}

// Actions says what the command or script starts, which files it redirects
// from and to, and that the folder it starts in is entered.
func (t *Tool) Actions(env tool.Env, args tool.Args) ([]tool.Action, error) {
	r, err := read(env, args)
	if err != nil {
		return nil, err
	}
	var actions []tool.Action
	if r.script == "" {
		actions = command.Actions(r.argv, env, r.dir)
	} else if _, actions, err = command.Script(r.script, env, r.dir, env.Pass); err != nil {
		return nil, err
	}
	if r.dir != env.Workspace {
		actions = append(actions, tool.Action{Kind: tool.FileRead, Path: r.dir})
	}
	for _, name := range names(r.env) {
		if why := command.Assignable(name, env.Pass); why != "" {
			actions = append(actions, tool.Action{Kind: tool.Command, Argv: r.argv, Dir: r.dir, Unknown: why})
		}
	}
	return actions, nil
}

// Run runs the call. A command that fails is an error that comes with the
// output so far: fault.ToolFailed, or fault.ToolTimeout when its time ran out.
func (t *Tool) Run(ctx context.Context, p permit.Permit, args tool.Args) (tool.Result, error) {
	r, err := read(p.Env(), args)
	if err != nil {
		return tool.Result{}, err
	}
	c := sandbox.Command{Argv: r.argv, Dir: r.dir, Env: r.env, Stdin: []byte(r.stdin), Timeout: r.timeout, MaxOutput: r.maxOutput}
	if r.script == "" {
		c.Starts = command.Actions(r.argv, p.Env(), r.dir)
	} else {
		text, starts, err := command.Script(r.script, p.Env(), r.dir, p.Env().Pass)
		if err != nil {
			return tool.Result{}, err
		}
		c.Argv, c.Shell, c.Starts = []string{shellPath, "-c", text}, true, starts
	}
	if t.box == nil {
		return tool.Result{}, fault.New(fault.SandboxMissing, "there is no sandbox to run commands in")
	}
	out, err := t.box.Run(ctx, p, c)
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
	if o.Signal != "" {
		m["signal"] = o.Signal
	}
	if o.TimedOut {
		m["timed_out"] = true
	}
	if o.Limit != "" {
		m["limit"] = o.Limit
	}
	if len(o.Notes) > 0 {
		m["sandbox_notes"] = list(o.Notes, func(n string) any { return n })
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
		m["connections"] = list(o.Connections, connection)
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

func connection(c sandbox.Connection) any {
	m := map[string]any{"target": c.Target, "allowed": c.Allowed, "sent": c.Sent, "received": c.Received}
	if c.Address != "" {
		m["address"] = c.Address
	}
	if c.Reason != "" {
		m["reason"] = c.Reason
	}
	return m
}

// stream adds what a stream held, as text if it is UTF-8 (a character that the
// cap cut in two is left to the next part), else as Base64.
func stream(m map[string]any, name string, s sandbox.Stream) {
	data := s.Data
	if s.Truncated {
		data = whole(data)
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

// whole cuts the beginning of a character off the end.
func whole(b []byte) []byte {
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

// read checks a call's arguments. The schema has seen most of it; here is what
// it cannot say, and all of it again for who calls without.
func read(env tool.Env, args tool.Args) (request, error) {
	r := request{dir: env.Workspace}
	if err := r.readWhat(args); err != nil {
		return r, err
	}
	if v, ok := args["cwd"]; ok {
		s, _ := v.(string)
		dir, err := files.Clean(env, s)
		if err != nil || s == "" {
			return r, invalid("cwd", "%q is no folder: %s", s, fault.Message(err))
		}
		r.dir = dir
	}
	if v, ok := args["stdin"]; ok {
		if r.stdin, ok = v.(string); !ok {
			return r, invalid("stdin", "is no string")
		}
	}
	if err := r.readEnv(args["env"]); err != nil {
		return r, err
	}
	return r, r.readLimits(args)
}

func invalid(field, format string, a ...any) *fault.Error {
	return fault.New(fault.ArgsInvalid, format, a...).In(field)
}

// readWhat reads argv, its other name cmd, or script.
func (r *request) readWhat(args tool.Args) error {
	found := ""
	for _, name := range []string{"argv", "cmd", "script"} {
		v, ok := args[name]
		if !ok {
			continue
		}
		if found != "" {
			return invalid(name, "%s is given already; one of argv and script is needed", found)
		}
		found = name
		if name == "script" {
			if r.script, ok = v.(string); !ok || strings.TrimSpace(r.script) == "" {
				return invalid(name, "is no string, or empty")
			}
			continue
		}
		if err := r.readArgv(name, v); err != nil {
			return err
		}
	}
	if found == "" {
		return invalid("argv", "is missing; argv (a list of strings) or script is needed")
	}
	return nil
}

func (r *request) readArgv(name string, v any) error {
	list, ok := v.([]any)
	if !ok {
		return invalid(name, "is no list of strings").WithHint("a command line as one string goes into script")
	}
	for i, e := range list {
		s, ok := e.(string)
		switch {
		case !ok:
			return invalid(name, "word %d is no string", i+1)
		case strings.ContainsRune(s, 0) || !utf8.ValidString(s):
			return invalid(name, "word %d holds a NUL byte or is not UTF-8", i+1)
		}
		r.argv = append(r.argv, s)
	}
	if len(r.argv) == 0 || r.argv[0] == "" {
		return invalid(name, "names no command")
	}
	return nil
}

func (r *request) readEnv(v any) error {
	if v == nil {
		return nil
	}
	vars, ok := v.(map[string]any)
	if !ok {
		return invalid("env", "is no map of names to strings")
	}
	r.env = make(map[string]string, len(vars))
	for name, v := range vars {
		s, ok := v.(string)
		if !ok || strings.ContainsRune(s, 0) {
			return invalid("env."+name, "is no string, or holds a NUL byte")
		}
		r.env[name] = s
	}
	return nil
}

func (r *request) readLimits(args tool.Args) error {
	var err error
	if v, ok := args["timeout"]; ok {
		if r.timeout, err = duration(v); err != nil || r.timeout <= 0 {
			return invalid("timeout", "is neither a number of seconds nor a duration such as 10s, above 0")
		}
	}
	if v, ok := args["max_output"]; ok {
		n, _ := v.(json.Number)
		if r.maxOutput, err = n.Int64(); err != nil || r.maxOutput <= 0 {
			return invalid("max_output", "is no number of bytes above 0")
		}
	}
	return nil
}

func duration(v any) (time.Duration, error) {
	if s, ok := v.(string); ok {
		return time.ParseDuration(s)
	}
	n, _ := v.(json.Number)
	secs, err := n.Float64()
	if err != nil || math.IsNaN(secs) {
		return 0, fault.ArgsInvalid
	}
	if secs > math.MaxInt64/float64(2*time.Second) {
		return math.MaxInt64, nil
	}
	return time.Duration(secs * float64(time.Second)), nil
}

func names(m map[string]string) []string {
	out := make([]string, 0, len(m))
	for n := range m {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}
