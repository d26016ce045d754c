package extsource_test

import (
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/tools/extension"
	extsource "github.com/remitrun/remit/internal/tools/source/extension"
)

const manifest = `{"id": "x", "name": "X", "version": "1.0.0", "description": "d", "author": "a", "license": "l", "permissions_required": ["exec", "filesystem.read"]}`

const commands = `slash_commands:
  - name: /x
    summary: s
    maps_to:
      actions:
        - {id: own, description: d, runner: exec.mine_tool, argv: [go, "--out={work}/o"]}
        - id: cat
          description: d
          runner: exec.cat
          folder: workspace
          arguments: [{name: files, description: d, repeat: true, within: files.read}]
          flags: [{name: url, description: d, within: network}]
        - {id: env, description: d, runner: exec.env, arguments: [{name: command, description: d, repeat: true}]}
        - {id: other, description: d, runner: tool.fs.read}
`

const root = "/home/ann/.remit/extensions/x"

// box notes what it is asked to run.
type box struct {
	ran []sandbox.Command
	out sandbox.Outcome
	err error
}

func (b *box) Run(_ context.Context, _ permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	b.ran = append(b.ran, c)
	return b.out, b.err
}

func source(t *testing.T, b *box, perms string) map[string]*extsource.Tool {
	t.Helper()
	p, err := extension.Read("x", []extension.File{
		{Name: "manifest.json", Data: []byte(strings.Replace(manifest, `["exec", "filesystem.read"]`, perms, 1))},
		{Name: "commands/commands.yaml", Data: []byte(commands)}, {Name: "bin/mine", Data: []byte("x")},
	})
	if err != nil {
		t.Fatal(err)
	}
	s := extsource.New(extsource.Config{ID: "x", Root: root, Load: func() (*extension.Package, error) { return p, nil }, Box: b})
	list, err := s.Discover(t.Context())
	if err != nil || s.Name() != "ext:x" {
		t.Fatal(s.Name(), err)
	}
	out := map[string]*extsource.Tool{}
	for _, one := range list {
		out[string(one.Spec().ID)] = one
	}
	return out
}

const declared = `["exec", "filesystem.read"]`

func TestToolsOfAnExtension(t *testing.T) {
	tools := source(t, &box{}, declared)
	if len(tools) != 3 || tools["ext:x:other"] != nil {
		t.Fatalf("%v", tools)
	}
	for id, one := range tools {
		spec, h := one.Spec(), one.Hints()
		if spec.Source != "extension" || !json.Valid(spec.Input) || !json.Valid(spec.Output) || !strings.HasPrefix(spec.Version, "1.0.0+") {
			t.Errorf("%s: %+v", id, spec)
		}
		if !slices.Equal(h.Permissions, []string{"exec", "filesystem.read"}) || !h.Cannot.Has(tool.NetworkHTTP) {
			t.Errorf("%s: %+v", id, h)
		}
		if one.Own() != root+"/work" || len(one.Bounds()) != 1 {
			t.Errorf("%s: own %q, %d bounds", id, one.Own(), len(one.Bounds()))
		}
	}
	if h := source(t, &box{}, `["exec", "network"]`)["ext:x:own"].Hints(); h.Cannot != 0 {
		t.Errorf("%+v", h)
	}
}

var env = tool.Env{Workspace: "/ws", Home: "/home/ann", Path: []string{"/usr/bin"}}

func TestActionsOfACall(t *testing.T) {
	tools := source(t, &box{}, declared)
	for name, c := range map[string]struct {
		id   string
		args tool.Args
		want []string
	}{
		"its own program, in its own folder": {"ext:x:own", nil, []string{"commands " + root + "/bin/mine go --out=" + root + "/work/o", `files.write "` + root + `/work/o"`}},
		"what arguments name":                {"ext:x:cat", tool.Args{"files": []any{"a", "/b"}, "url": "https://example.com/x"}, []string{"commands cat cat --url=https://example.com/x a /b", `files.read "/ws/a"`, `files.read "/b"`, "network https://example.com/x"}},
		"what leads out of it":               {"ext:x:cat", tool.Args{"files": []any{"../x"}}, []string{"commands cat cat ../x", "files.read (unknown: the path contains .., whose meaning depends on links)"}},
		"what a program starts":              {"ext:x:env", tool.Args{"command": []any{"rm", "x"}}, []string{"commands env env rm x", "commands env rm x", "commands rm x", `files.delete "` + root + `/work/x"`}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := permittest.Actions(tools[c.id], env, c.args)
			if err != nil {
				t.Fatal(err)
			}
			texts := make([]string, len(got))
			for i, a := range got {
				texts[i] = a.String()
			}
			if len(c.want) > len(texts) || texts[0] != c.want[0] || !slices.Equal(texts[len(texts)-len(c.want)+1:], c.want[1:]) {
				t.Errorf("%q, want %q", texts, c.want)
			}
		})
	}
	if _, err := permittest.Actions(tools["ext:x:cat"], env, tool.Args{"files": []any{"-x"}}); !errors.Is(err, fault.ArgsInvalid) {
		t.Error(err)
	}
}

func minted(t *testing.T, document string) permit.Permit {
	t.Helper()
	pol, err := policy.Parse("p", []byte(document))
	if err != nil {
		t.Fatal(err)
	}
	r, err := pol.Bind(policy.Env{Workspace: "/ws", Home: "/home/ann", State: "/home/ann/.remit", Path: []string{"/usr/bin"}})
	if err != nil {
		t.Fatal(err)
	}
	chain := policy.Chain{r}.Owning(root + "/work")
	return permit.Mint(permit.Terms{Chain: chain, Env: env, Limits: chain.Limits()})
}

func TestWhatIsRun(t *testing.T) {
	b := &box{out: sandbox.Outcome{Stdout: stream(`{"a": [1, 2.50]}` + "\n"), Stderr: stream("note\n"), Duration: 5 * time.Millisecond}}
	tools := source(t, b, declared)
	res, err := permittest.Run(t.Context(), tools["ext:x:own"], minted(t, "version: 1\nfiles: {read: {allow: ['**']}}\n"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if got := b.ran[0]; got.Argv[0] != filepath.Join(root, "bin", "mine") || got.Shell || got.Dir != root+"/work" || len(got.Env) != 0 {
		t.Errorf("%+v", got)
	}
	out, err := json.Marshal(res.Output)
	if want := `{"duration_ms":5,"exit_code":0,"json":{"a":[1,2.50]},"stderr":"note\n","stdout":"{\"a\": [1, 2.50]}\n"}`; err != nil || string(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
	// Where the policies open nothing of the kind, its own folder is not there for it.
	if _, err := permittest.Run(t.Context(), tools["ext:x:own"], minted(t, "version: 1\n"), nil); err != nil || b.ran[1].Dir != "/" {
		t.Errorf("%v, in %q", err, b.ran[1].Dir)
	}
	if _, err := permittest.Run(t.Context(), tools["ext:x:cat"], minted(t, "version: 1\n"), tool.Args{"files": []any{"a b"}}); err != nil || b.ran[2].Dir != "/ws" || !slices.Equal(b.ran[2].Argv, []string{"cat", "cat", "a b"}) {
		t.Errorf("%v, %+v", err, b.ran[2])
	}
}

func stream(s string) sandbox.Stream { return sandbox.Stream{Data: []byte(s), Total: int64(len(s))} }

func TestHowProgramsEnd(t *testing.T) {
	for name, c := range map[string]struct {
		box    box
		code   fault.Code
		output string
	}{
		"failed":                {box{out: sandbox.Outcome{ExitCode: 7, Stdout: stream("part")}}, fault.ToolFailed, `"exit_code":7,"stdout":"part"`},
		"killed":                {box{out: sandbox.Outcome{ExitCode: -1, Signal: "SIGKILL"}}, fault.ToolFailed, `"exit_code":-1`},
		"by a limit":            {box{out: sandbox.Outcome{ExitCode: -1, Limit: "memory"}}, fault.ToolFailed, `"exit_code":-1`},
		"out of time":           {box{out: sandbox.Outcome{ExitCode: -1, TimedOut: true, Stdout: stream("part")}}, fault.ToolTimeout, `"stdout":"part"`},
		"cancelled":             {box{err: fault.New(fault.ToolCancelled, "x"), out: sandbox.Outcome{Stdout: stream("part")}}, fault.ToolCancelled, `"stdout":"part"`},
		"not started":           {box{err: fault.New(fault.SandboxMissing, "x")}, fault.SandboxMissing, `null`},
		"cut in two":            {box{out: sandbox.Outcome{Stdout: sandbox.Stream{Data: []byte("[1, \xc3"), Total: 100, Truncated: true}}}, 0, `"stdout":"[1, ","stdout_bytes":100`},
		"not text":              {box{out: sandbox.Outcome{Stdout: stream("\xff\x00")}}, 0, `"stdout_base64":"/wA="`},
		"JSON with a key twice": {box{out: sandbox.Outcome{Stdout: stream(`{"a":1,"a":2}`)}}, 0, `"stdout":"{\"a\":1,\"a\":2}"`},
	} {
		t.Run(name, func(t *testing.T) {
			b := c.box
			res, err := permittest.Run(t.Context(), source(t, &b, declared)["ext:x:own"], minted(t, "version: 1\n"), nil)
			if (err == nil) != (c.code == 0) || err != nil && fault.CodeOf(err) != c.code {
				t.Errorf("%v, want %s", err, c.code)
			}
			out, merr := json.Marshal(res.Output)
			if merr != nil || !strings.Contains(string(out), c.output) {
				t.Errorf("%s, want %s", out, c.output)
			}
		})
	}
	s := extsource.New(extsource.Config{ID: "y", Root: root, Load: func() (*extension.Package, error) {
		return extension.Read("x", []extension.File{{Name: "manifest.json", Data: []byte(manifest)}, {Name: "commands/commands.yaml", Data: []byte(commands)}})
	}})
	if _, err := s.Discover(t.Context()); !errors.Is(err, fault.ExtensionInvalid) {
		t.Errorf("an extension under another's ID: %v", err)
	}
}
