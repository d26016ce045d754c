package extsource

import (
	"context"
	_ "embed" // the schema of outputs
	"encoding/base64"
	"encoding/json"
	"errors"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

//go:embed output.schema.json
var outputSchema []byte

// request is what a call comes to.
type request struct {
	argv   []string
	dir    string // absolute
	starts []tool.Action
	named  []tool.Action // the actions that arguments name, where the extension declares them
}

func (t *Tool) read(env tool.Env, args tool.Args) (request, error) {
	words, err := t.Action.Words(args, t.work)
	if err != nil {
		return request{}, fault.New(fault.ArgsInvalid, "%v", err)
	}
	r := request{argv: append([]string{t.program}, words...), dir: t.work}
	if t.Action.Workspace {
		r.dir = env.Workspace
	}
	r.starts = command.Actions(r.argv, env, r.dir)
	for _, name := range t.Action.Writes(t.work) {
		r.named = append(r.named, tool.Action{Kind: tool.FileWrite, Path: name})
	}
	for _, p := range t.Action.Params() {
		v, ok := args[p.Name]
		if !ok {
			v = p.Default
		}
		if p.Within == 0 || v == nil {
			continue
		}
		values, many := v.([]any)
		if !many {
			values = []any{v}
		}
		for _, one := range values {
			r.named = append(r.named, namedAction(env, r.dir, p.Within, one))
		}
	}
	return r, nil
}

// namedAction is the action that an argument names: a path from the folder that the program starts in,
// or a URL.
func namedAction(env tool.Env, dir string, kind tool.ActionKind, v any) tool.Action {
	if kind != tool.Network {
		return policy.PathArgument(kind, dir, v, policy.Env{Workspace: env.Workspace, Home: env.Home, Path: env.Path})
	}
	text, _ := v.(string)
	to, err := target.Parse("", text)
	if err != nil {
		return tool.Action{Kind: kind, Unknown: fault.Message(err)}
	}
	to.Method = "" // which one the program uses is not known
	return tool.Action{Kind: kind, Target: to}
}

// exec runs the program, never a shell. A program that fails is an error that comes
// with what it wrote.
func (t *Tool) exec(ctx context.Context, p permit.Permit, r request) (tool.Result, error) {
	if t.box == nil {
		return tool.Result{}, fault.New(fault.SandboxMissing, "programs cannot run: the sandbox is not available")
	}
	if !t.Action.Workspace && p.Chain().DecideAction(tool.Action{Kind: tool.FileRead, Path: r.dir, Real: r.dir}).Effect != policy.Allow {
		r.dir = "/" // its own folder is not there for it: the policies open nothing of the kind
	}
	out, err := t.box.Run(ctx, p, sandbox.Command{Argv: r.argv, Dir: r.dir, Starts: r.starts})
	if err != nil {
		if errors.Is(err, fault.ToolTimeout) || errors.Is(err, fault.ToolCancelled) {
			return tool.Result{Output: output(out)}, err
		}
		return tool.Result{}, err
	}
	return tool.Result{Output: output(out)}, out.Failure("the program", "the policy's commands.timeout")
}

// output tells what the program wrote, also as JSON where all of it is one value.
func output(o sandbox.Outcome) map[string]any {
	m := map[string]any{"exit_code": o.ExitCode, "duration_ms": o.Duration.Milliseconds()}
	if v, ok := decoded(o.Stdout); ok {
		m["json"] = v
	}
	stream(m, "stdout", o.Stdout)
	stream(m, "stderr", o.Stderr)
	if o.Isolation != "" && o.Isolation != "full" {
		m["isolation"] = o.Isolation
	}
	if o.Place != "" {
		m["place"] = o.Place
	}
	if len(o.Connections) > 0 {
		list := make([]any, len(o.Connections))
		for i, c := range o.Connections {
			list[i] = map[string]any{"target": c.Target(), "allowed": !c.Refused(), "reason": c.Why()}
		}
		m["connections"] = list
	}
	return m
}

// decoded reads an object or a list; a lone string or number is text.
func decoded(s sandbox.Stream) (any, bool) {
	if s.Truncated {
		return nil, false
	}
	v, err := canon.Decode(s.Data)
	switch v.(type) {
	case map[string]any, []any:
		return v, err == nil && json.Valid(s.Data)
	}
	return nil, false
}

// stream adds the content of a stream, if any: as text, or as Base64 if it is not text.
func stream(m map[string]any, name string, s sandbox.Stream) {
	data := s.Data
	if s.Truncated {
		data = cutPartial(data)
		m[name+"_bytes"] = s.Total
	}
	switch {
	case s.Total == 0:
	case utf8.Valid(data):
		m[name] = string(data)
	default:
		m[name+"_base64"] = base64.StdEncoding.EncodeToString(s.Data)
	}
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
