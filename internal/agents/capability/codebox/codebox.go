// Package codebox has the capability sandbox: a tool that runs code, confined, on a copy
// of the session's files, and copies back what the code changed. Processes are started by
// package sandbox, under the call's permit. Start at [New].
package codebox

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Bounds of what one call copies in and back.
const (
	maxBytes = 256 << 20 // of the folder at any time
	maxFiles = 20_000
	maxTaken = 1000 // files that one call changes
)

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
	NewFolder(p permit.Permit, bytes int64, files int) (*sandbox.Folder, error)
}

// language says how code of a language is run.
type language struct {
	program string // on the trusted PATH; rules of commands decide it
	file    string // that the code is written to
}

// languages has the known languages. Rules of commands see the program's name, the file
// and the call's arguments, as python3 .execute_code.py --fast.
var languages = map[string]language{
	"shell":      {"sh", codeFile + ".sh"},
	"python":     {"python3", codeFile + ".py"},
	"javascript": {"node", codeFile + ".js"},
}

// codeFile is the prefix of the files with code, which are not files of the session.
const codeFile = ".execute_code"

// Capability is the capability sandbox.
type Capability struct{ box Box }

// New makes the capability; its code runs in box.
func New(box Box) Capability { return Capability{box} }

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "sandbox", Name: "Sandboxed Execution", Description: "Sandboxed code execution environment: shell, Python and JavaScript, in a copy of the session's files.",
		Status: capability.Available, Icon: "box", Category: "Execution", Version: "1", Wants: []string{"commands sh **", "commands python3 **", "commands node **"}}
}

const prompt = `You can execute code in a sandboxed environment. Use the execute_code tool to run code safely.

- The code runs in ` + sandbox.FolderAt + `, which holds the session's files (/data/in.csv is ` + sandbox.FolderAt + `/data/in.csv there). It sees no other files but the system's, and reaches the network only where the policy allows it.
- Files that it makes, changes or deletes there are taken back into the session's files when it has ended, also when it failed. Nothing else stays from one call to the next.
- A file that somebody else changed meanwhile is not overwritten: it is listed in conflicts.
- A plot or another PNG that the code writes to a file is shown to people with the call. With matplotlib, use savefig; there is no screen.
- Print what you want to see. Long output is cut: write it to a file and read that in parts.`

const (
	paths   = `{"type":"array","items":{"type":"string"}}`
	refused = `{"type":"array","items":{"type":"object","additionalProperties":false,"required":["path","reason"],"properties":{"path":{"type":"string"},"reason":{"type":"string"}}}}`
	images  = `{"type":"array","items":{"type":"object","additionalProperties":false,"required":["path","media_type","bytes"],"properties":{"path":{"type":"string"},"media_type":{"type":"string"},"bytes":{"type":"integer"},"content_base64":{"type":"string"}}},"description":"PNG files that the code made or changed; the record has them"}`
	info    = `{"type":"object","additionalProperties":false,"required":["truncated","bytes_total"],"properties":{"truncated":{"type":"boolean"},"bytes_total":{"type":"integer"}}}`
)

var (
	input = typed.Object(`"language":{"enum":["shell","python","javascript"],"description":"shell runs in sh, python in python3, javascript in node."},
		"code":{"type":"string","minLength":1,"maxLength":1048576,"description":"The program."},
		"args":{"type":"array","maxItems":100,"items":{"type":"string","maxLength":10000},"description":"Arguments that the program is given."},
		"stdin":{"type":"string","maxLength":1048576,"description":"What the program can read on standard input; default nothing."},
		"timeout_seconds":{"type":"number","exclusiveMinimum":0,"maximum":3600,"description":"After which the program is ended. It only shortens what the policy gives."}`, "language", "code")
	output = typed.Object(`"exit_code":{"type":"integer"},"signal":{"type":"string"},"timed_out":{"type":"boolean"},"limit":{"type":"string"},"duration_ms":{"type":"integer"},
		"stdout":{"type":"string"},"stdout_base64":{"type":"string"},"stdout_info":`+info+`,"stderr":{"type":"string"},"stderr_base64":{"type":"string"},"stderr_info":`+info+`,
		"created":`+paths+`,"changed":`+paths+`,"deleted":`+paths+`,"conflicts":`+refused+`,"not_taken":`+refused+`,"images":`+images+`,
		"connections":{"type":"array","items":{"type":"object","additionalProperties":false,"required":["target","allowed"],"properties":{"target":{"type":"string"},"allowed":{"type":"boolean"},"reason":{"type":"string"}}}}`,
		"exit_code", "duration_ms", "stdout_info", "stderr_info", "created", "changed", "deleted", "conflicts", "not_taken")
)

type arguments struct {
	Language string   `json:"language"`
	Code     string   `json:"code"`
	Args     []string `json:"args"`
	Stdin    string   `json:"stdin"`
	Timeout  float64  `json:"timeout_seconds"`
}

// Part offers execute_code.
func (c Capability) Part(s capability.Session, _ json.RawMessage) (capability.Part, error) {
	x := runner{c.box, s}
	return capability.Part{Prompt: prompt, Tools: []capability.Offer{capability.Own("execute_code", typed.New(tool.Spec{
		ID: "sandbox.execute_code", Title: "Execute code", Version: "1", Risk: tool.High,
		Effects: tool.EffectSet(tool.SystemExec, tool.FSRead, tool.FSWrite, tool.FSDelete, tool.NetworkHTTP, tool.NetworkSocket),
		Description: "Runs a program in shell, Python or JavaScript in a sandbox that holds the session's files, and gives its exit code, stdout and stderr, and which of the session's files it " +
			"created, changed and deleted. A status other than 0 is a failure that keeps its output.",
		Input: input, Output: output,
	}, x.prepare))}}, nil
}

func (a arguments) argv() ([]string, error) {
	l, ok := languages[a.Language]
	if !ok {
		return nil, fault.New(fault.ArgsInvalid, "unknown language %.50q", a.Language).In("language").
			WithHint("known languages: %v", slices.Sorted(maps.Keys(languages)))
	}
	return append([]string{l.program, l.file}, a.Args...), nil
}

// runner runs code in a session.
type runner struct {
	box     Box
	session capability.Session
}

// prepare returns the command of a call. The session's files are not files in a
// policy's terms, so they need no actions; connections are decided one by one.
func (r runner) prepare(_ tool.Env, a arguments) (permit.Prepared, error) {
	argv, err := a.argv()
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Command, Argv: argv, Dir: sandbox.FolderAt}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			out, err := r.execute(ctx, p, argv, a)
			return tool.Result{Output: out}, err
		},
	}, nil
}

func (r runner) execute(ctx context.Context, p permit.Permit, argv []string, a arguments) (map[string]any, error) {
	if r.box == nil {
		return nil, fault.New(fault.SandboxMissing, "this machine has no sandbox to run code in")
	}
	files, err := r.session.Need()
	if err != nil {
		return nil, err
	}
	folder, err := r.box.NewFolder(p, maxBytes, maxFiles)
	if err != nil {
		return nil, err
	}
	x := exchange{files: files, folder: folder, p: p}
	out, err := r.runIn(ctx, p, &x, argv, a)
	if cerr := folder.Close(); err == nil && cerr != nil {
		err = cerr
	}
	return out, err
}

// runIn runs code in an existing folder.
func (r runner) runIn(ctx context.Context, p permit.Permit, x *exchange, argv []string, a arguments) (map[string]any, error) {
	if err := x.copyIn(ctx); err != nil {
		return nil, err
	}
	if err := x.folder.Put(argv[1], []byte(a.Code)); err != nil {
		return nil, err
	}
	o, err := r.box.Run(ctx, p, sandbox.Command{Argv: argv, Dir: sandbox.FolderAt, Stdin: []byte(a.Stdin), Folder: x.folder,
		Timeout: time.Duration(a.Timeout * float64(time.Second))})
	if err != nil {
		return nil, err
	}
	out := resultOf(o)
	if err := x.copyBack(ctx); err != nil {
		x.report(out)
		return out, err
	}
	x.report(out)
	return out, o.Failure("the code", "timeout_seconds or the policy's commands.timeout")
}
