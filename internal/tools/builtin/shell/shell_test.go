package shelltool_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	shelltool "github.com/remitrun/remit/internal/tools/builtin/shell"
)

var env = tool.Env{Workspace: "/ws", Path: []string{"/usr/local/bin", "/usr/bin", "/bin"}, Pass: []string{"LANG", "PATH"}}

// box stands in for the sandbox: it notes what it is to run.
type box struct {
	ran []sandbox.Command
	out sandbox.Outcome
	err error
}

func (b *box) Run(_ context.Context, _ permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	b.ran = append(b.ran, c)
	return b.out, b.err
}

func args(t testing.TB, s string) tool.Args {
	t.Helper()
	d := json.NewDecoder(strings.NewReader(s))
	d.UseNumber()
	var a tool.Args
	if err := d.Decode(&a); err != nil {
		t.Fatal(err)
	}
	return a
}

func schema(t testing.TB, raw json.RawMessage) *jsonschema.Schema {
	t.Helper()
	doc, err := jsonschema.UnmarshalJSON(strings.NewReader(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("schema.json", doc); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("schema.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func run(t testing.TB, b *box, s string) (tool.Result, error) {
	t.Helper()
	p := permit.Mint(permit.Terms{Env: env})
	defer p.End()
	return permittest.Run(context.Background(), shelltool.New(b), p, args(t, s))
}

func TestNotesAndConnectionsAreInTheResult(t *testing.T) {
	b := &box{out: sandbox.Outcome{Notes: []string{"stricter"}, Connections: []sandbox.Connection{
		{Protocol: "tcp", Host: "a.test", Port: 443, Addr: netip.MustParseAddr("192.0.2.1"), Effect: policy.Allow, Out: 5},
		{Protocol: "tcp", Host: "b.test", Port: 22, Effect: policy.Deny, Rule: "default"}}}}
	res, err := permittest.Run(context.Background(), shelltool.New(b), permit.Mint(permit.Terms{Env: env}), args(t, `{"argv": ["true"]}`))
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.Marshal(res.Output["connections"])
	want := `[{"address":"192.0.2.1","allowed":true,"received":0,"sent":5,"target":"tcp://a.test:443"},{"allowed":false,"reason":"default","received":0,"sent":0,"target":"tcp://b.test:22"}]`
	if err != nil || string(got) != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
	if n, _ := res.Output["sandbox_notes"].([]any); len(n) != 1 {
		t.Errorf("notes: %v", res.Output["sandbox_notes"])
	}
}

func TestArgumentsThatAreRefused(t *testing.T) {
	in := schema(t, shelltool.New(nil).Spec().Input)
	tests := map[string]struct {
		args   string
		schema bool // whether the schema alone refuses it
	}{
		"nothing":              {`{}`, true},
		"string as argv":       {`{"argv":"echo hi"}`, true},
		"nested list":          {`{"argv":["echo",["x"]]}`, true},
		"number":               {`{"argv":["echo",1]}`, true},
		"null":                 {`{"argv":["echo",null]}`, true},
		"empty":                {`{"argv":[]}`, true},
		"empty name":           {`{"argv":[""]}`, false},
		"NUL":                  {`{"argv":["echo","a\u0000b"]}`, false},
		"a marker of our own":  {`{"argv":["echo","\u0000word"]}`, false},
		"both":                 {`{"argv":["a"],"script":"b"}`, true},
		"two spellings":        {`{"argv":["a"],"cmd":["a"]}`, true},
		"blank script":         {`{"script":" "}`, false},
		"script without end":   {`{"script":"a <(b"}`, false},
		"script with NUL":      {`{"script":"a\u0000"}`, false},
		"empty cwd":            {`{"argv":["a"],"cwd":""}`, true},
		"cwd with NUL":         {`{"argv":["a"],"cwd":"a\u0000"}`, false},
		"stdin that is none":   {`{"argv":["a"],"stdin":1}`, true},
		"env that is none":     {`{"argv":["a"],"env":["A=b"]}`, true},
		"env of numbers":       {`{"argv":["a"],"env":{"A":1}}`, true},
		"env with NUL":         {`{"argv":["a"],"env":{"A":"\u0000"}}`, false},
		"no time":              {`{"argv":["a"],"timeout":0}`, true},
		"negative time":        {`{"argv":["a"],"timeout":"-1s"}`, true},
		"time that is none":    {`{"argv":["a"],"timeout":"soon"}`, true},
		"no output":            {`{"argv":["a"],"max_output":0}`, true},
		"output of a fraction": {`{"argv":["a"],"max_output":1.5}`, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			a := args(t, tt.args)
			if err := in.Validate(map[string]any(a)); (err != nil) != tt.schema {
				t.Errorf("schema: %v", err)
			}
			if as, err := permittest.Actions(shelltool.New(nil), env, a); !errors.Is(err, fault.ArgsInvalid) {
				t.Errorf("Actions gave %v, %v", as, err)
			}
			b := &box{}
			if _, err := run(t, b, tt.args); !errors.Is(err, fault.ArgsInvalid) || len(b.ran) > 0 {
				t.Errorf("Run gave %v and ran %v", err, b.ran)
			}
		})
	}
}

func TestActions(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{`{"argv":["git","status"]}`, "commands git status"},
		{`{"cmd":["git","status"]}`, "commands git status"},
		{`{"argv":["echo","a; rm -rf /"]}`, `commands echo "a; rm -rf /"`},
		{`{"argv":["env","rm"]}`, "commands env rm, commands rm"},
		{`{"script":"a > out | b"}`, `files.write "/ws/out", commands a, commands b`},
		{`{"argv":["a"],"cwd":"d"}`, `commands a, files.read "/ws/d"`},
		{`{"argv":["a"],"cwd":"."}`, `commands a`},
		{`{"argv":["a"],"cwd":"/etc"}`, `commands a, files.read "/etc"`},
		{`{"script":"a < f","cwd":"d"}`, `files.read "/ws/d/f", commands a, files.read "/ws/d"`},
		{`{"argv":["a"],"env":{"LANG":"C"}}`, "commands a"},
		{`{"argv":["a"],"env":{"X":"C"}}`, "commands a, commands (unknown: the variable X is not listed in commands.env)"},
		{`{"argv":["a"],"env":{"PATH":"."}}`, "commands a, commands (unknown: the variable PATH can change what commands do or which are found; it must not be set)"},
	} {
		t.Run(tt.args, func(t *testing.T) {
			as, err := permittest.Actions(shelltool.New(nil), env, args(t, tt.args))
			var got []string
			for _, a := range as {
				got = append(got, a.String())
			}
			if s := strings.Join(got, ", "); err != nil || s != tt.want {
				t.Errorf("got  %s, %v\nwant %s", s, err, tt.want)
			}
		})
	}
}

func TestRunHandsOver(t *testing.T) {
	b := &box{}
	if _, err := run(t, b, `{"argv":["a","b"],"cwd":"d","env":{"LANG":"C"},"stdin":"in","timeout":"10s","max_output":5}`); err != nil {
		t.Fatal(err)
	}
	if c := b.ran[0]; !slices.Equal(c.Argv, []string{"a", "b"}) || c.Dir != "/ws/d" || c.Env["LANG"] != "C" || string(c.Stdin) != "in" ||
		c.Timeout != 10*time.Second || c.MaxOutput != 5 || c.Shell {
		t.Errorf("%+v", c)
	}
	if _, err := run(t, b, `{"script":"a   ;  b # comment","timeout":1.5}`); err != nil {
		t.Fatal(err)
	}
	if c := b.ran[1]; !slices.Equal(c.Argv, []string{"/bin/bash", "--norc", "-c", "a\nb\n"}) || !c.Shell || c.Timeout != 1500*time.Millisecond {
		t.Errorf("%+v", c)
	}
}

func TestOutcomes(t *testing.T) {
	text := func(s string) sandbox.Stream { return sandbox.Stream{Data: []byte(s), Total: int64(len(s))} }
	spec := shelltool.New(nil).Spec()
	out := schema(t, spec.Output)
	tests := map[string]struct {
		outcome sandbox.Outcome
		err     error
		code    error
		message string
		want    string // part of the output as JSON
	}{
		"success":    {outcome: sandbox.Outcome{Stdout: text("hi"), Tier: "fresh"}, want: `"stdout":"hi"`},
		"status":     {outcome: sandbox.Outcome{ExitCode: 3, Stderr: text("no")}, code: fault.ToolFailed, message: "command exited with status 3", want: `"stderr":"no"`},
		"signal":     {outcome: sandbox.Outcome{ExitCode: -1, Signal: "SIGSEGV"}, code: fault.ToolFailed, message: "ended by SIGSEGV", want: `"signal":"SIGSEGV"`},
		"limit":      {outcome: sandbox.Outcome{ExitCode: -1, Signal: "SIGKILL", Limit: "memory"}, code: fault.ToolFailed, message: "limit: memory", want: `"limit":"memory"`},
		"time":       {outcome: sandbox.Outcome{ExitCode: -1, TimedOut: true, Stdout: text("so far")}, code: fault.ToolTimeout, message: "stopped after", want: `"stdout":"so far"`},
		"not text":   {outcome: sandbox.Outcome{Stdout: text("\xff\xfe")}, want: `"stdout_base64":"//4="`},
		"cut":        {outcome: sandbox.Outcome{Stdout: sandbox.Stream{Data: []byte("abc"), Total: 9, Truncated: true}}, want: `"stdout_info":{"bytes_returned":3,"bytes_total":9,"next_offset":3,"truncated":true}`},
		"cut in two": {outcome: sandbox.Outcome{Stdout: sandbox.Stream{Data: []byte("aé")[:2], Total: 9, Truncated: true}}, want: `"next_offset":1`},
		"not found":  {err: fault.New(fault.NotFound, "no gti").WithHint("did you mean git?"), code: fault.NotFound, message: "did you mean git?", want: "null"},
		"refused":    {err: fault.New(fault.HandleRefused, "no"), code: fault.HandleRefused, message: "no", want: "null"},
		"cancelled":  {outcome: sandbox.Outcome{Stdout: text("so far")}, err: fault.New(fault.ToolCancelled, "gone"), code: fault.ToolCancelled, message: "gone", want: `"so far"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			res, err := run(t, &box{out: tt.outcome, err: tt.err}, `{"argv":["a"]}`)
			if tt.code == nil && err != nil || tt.code != nil && (!errors.Is(err, tt.code) || !strings.Contains(err.Error(), tt.message)) {
				t.Errorf("error %v", err)
			}
			b, _ := json.Marshal(res.Output)
			if !strings.Contains(string(b), tt.want) {
				t.Errorf("output %s lacks %s", b, tt.want)
			}
			if res.Output == nil {
				return
			}
			doc, _ := jsonschema.UnmarshalJSON(strings.NewReader(string(b)))
			if err := out.Validate(doc); err != nil {
				t.Error(err)
			}
		})
	}
}

// allows decides like a policy whose commands are allow and deny, which lets no
// file be written.
func allows(t *testing.T, as []tool.Action, allow, deny []string) bool {
	match := func(list []string, with func(*command.Pattern, *tool.Action) bool, a *tool.Action) bool {
		return slices.ContainsFunc(list, func(s string) bool {
			p, err := command.ParsePattern(s)
			if err != nil {
				t.Fatal(err)
			}
			return with(p.Bind(env.Workspace), a)
		})
	}
	for i := range as {
		a := &as[i]
		if a.Argument != tool.NoArgument {
			continue // lists of commands decide about none
		}
		if a.Unknown != "" || a.Kind != tool.Command ||
			match(deny, func(p *command.Pattern, a *tool.Action) bool { return p.MatchDeny(a, env.Path) }, a) ||
			!match(allow, func(p *command.Pattern, a *tool.Action) bool { return p.Match(a, env.Path) }, a) {
			return false
		}
	}
	return true
}

func TestThirdPartySecurityCases(t *testing.T) {
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Skip("REMIT_TESTDATA is not set: it names the folder of third-party cases")
	}
	b, err := os.ReadFile(filepath.Join(dir, "policy/capsule_security_cases.json"))
	if err != nil {
		t.Fatal(err)
	}
	var f struct {
		Cases []struct {
			ID, Group, Expect string
			Args              json.RawMessage
			Policy            map[string]json.RawMessage
		}
	}
	if err := json.Unmarshal(b, &f); err != nil {
		t.Fatal(err)
	}
	ran := 0
	for _, c := range f.Cases {
		if !slices.Contains([]string{"shell_args", "shell_literal", "deny_tokens", "deny_tokens_case", "exec_allow"}, c.Group) {
			continue
		}
		ran++
		t.Run(c.ID, func(t *testing.T) {
			var p struct {
				Execs  []string `json:"allow_executables"`
				Tokens []string `json:"deny_tokens"`
			}
			if err := json.Unmarshal(c.Policy["shell.run"], &p); err != nil {
				t.Fatal(err)
			}
			var allow []string
			for _, x := range p.Execs {
				allow = append(allow, x+" **")
			}
			as, err := permittest.Actions(shelltool.New(nil), env, args(t, string(c.Args)))
			got := err == nil && allows(t, as, allow, denyToken(p.Tokens))
			if want := c.Expect == "allow"; got != want {
				t.Errorf("%s: allowed %v, %v %v", c.Args, got, as, err)
			}
		})
	}
	if ran < 25 {
		t.Errorf("only %d cases ran", ran)
	}
}

// denyToken translates tokens: a command line that begins with the words, or
// any word that holds the text. Redirections and pipes need none: the first is
// a file action, and each command of the second is decided.
func denyToken(tokens []string) []string {
	var out []string
	for _, tok := range tokens {
		if strings.ContainsAny(tok, "|>") {
			continue
		}
		out = append(out, tok+" **", `** *"`+tok+` "* **`)
		if strings.ContainsAny(tok, " _") || len(tok) > 6 {
			out = append(out, `** *"`+tok+`"* **`)
		}
	}
	return out
}
