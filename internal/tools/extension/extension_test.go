package extension_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"go.yaml.in/yaml/v4"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/extension"
)

const manifest = `{
  "id": "tools.hello", "name": "Hello", "version": "1.2.0", "description": "Says hello.",
  "author": "Ann", "license": "MIT", "permissions_required": ["exec"]
}`

const commands = `
slash_commands:
  - name: /hello
    summary: Says hello
    maps_to:
      actions:
        - id: say
          description: Says it.
          runner: exec.hello_cli
          arguments: [{name: whom, description: To whom., required: true}]
          flags:
            - {name: loud, description: With force., type: boolean, short: l}
            - {name: times, description: How often., type: integer, default: 1, option: -n}
`

func ext(files ...string) []extension.File {
	all := map[string]string{"manifest.json": manifest, "commands/commands.yaml": commands}
	for i := 0; i < len(files); i += 2 {
		all[files[i]] = files[i+1]
	}
	var out []extension.File
	for name, data := range all {
		if data != "-" {
			out = append(out, extension.File{Name: name, Data: []byte(data)})
		}
	}
	return out
}

// errorsOf gives the single problems of an error.
func errorsOf(err error) []string {
	var list fault.List
	if errors.As(err, &list) {
		out := make([]string, len(list))
		for i, e := range list {
			out[i] = e.Error()
		}
		return out
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

func TestWhatIsWrongIsToldWithItsPlace(t *testing.T) {
	in := func(from, to string) string { return strings.Replace(manifest, from, to, 1) }
	cin := func(from, to string) string {
		if !strings.Contains(commands, from) {
			t.Fatalf("%q is not in the commands", from)
		}
		return strings.Replace(commands, from, to, 1)
	}
	for name, c := range map[string]struct {
		file, text, want string
	}{
		"no JSON":                  {"manifest.json", "{\n \"id\": }", "E7001 x/manifest.json:2:8: not valid JSON:"},
		"a key twice":              {"manifest.json", in(`"name"`, `"id"`), `not valid JSON: the key`},
		"an unknown key":           {"manifest.json", in(`"author"`, `"auther"`), `x/manifest.json:3:3: auther: unknown key "auther" (did you mean "author"?)`},
		"a key that is missing":    {"manifest.json", in(`"author": "Ann", `, ``), `author: the required key "author" is missing`},
		"a wrong type":             {"manifest.json", in(`"1.2.0"`, `1.2`), `version: must be a string, not 1.2 (put it in quotes)`},
		"no version":               {"manifest.json", in(`1.2.0`, `1.2`), `version: "1.2" is not a valid version, such as 1.2.0`},
		"an ID that leads away":    {"manifest.json", in(`tools.hello`, `../hello`), `id: "../hello" is not a valid ID`},
		"an ID with capitals":      {"manifest.json", in(`tools.hello`, `Hello`), `id: "Hello" is not a valid ID`},
		"an unknown permission":    {"manifest.json", in(`"exec"`, `"root"`), `permissions_required[0]: "root" is not a permission (there are exec, network,`},
		"a permission twice":       {"manifest.json", in(`["exec"]`, `["exec","exec"]`), `permissions_required[1]: exec is listed twice`},
		"hidden characters":        {"manifest.json", in("Says hello.", "Says\u202ehello."), `contains the character '\u202e', which changes how`},
		"a signer without sums":    {"manifest.json", in(`"exec"]`, `"exec"], "signer": "ed25519:`+strings.Repeat("A", 43)+`="`), `checksums: is missing`},
		"no YAML":                  {"commands/commands.yaml", "a: [", "E7001 x/commands/commands.yaml:"},
		"an alias":                 {"commands/commands.yaml", "a: &x 1\nb: *x", "anchors and aliases are not allowed"},
		"two documents":            {"commands/commands.yaml", commands + "---\n" + commands, "commands.yaml"},
		"a command of Remit's":     {"commands/commands.yaml", cin("/hello", "/help"), `slash_commands[0].name: /help is reserved`},
		"a command with a space":   {"commands/commands.yaml", cin("/hello", "'/hel lo'"), `is not a valid slash command`},
		"an action called help":    {"commands/commands.yaml", cin("id: say", "id: help"), `actions[0].id: help is reserved`},
		"an unknown runner":        {"commands/commands.yaml", cin("exec.hello_cli", "ssh.host"), `runner: "ssh.host": there are the runners exec`},
		"a runner with a path":     {"commands/commands.yaml", cin("exec.hello_cli", "exec.../x"), `write exec. and the name of a program`},
		"only a suffix":            {"commands/commands.yaml", cin("exec.hello_cli", "exec._cli"), `write exec. and the name of a program`},
		"no permission for it":     {"manifest.json", in(`["exec"]`, `[]`), `/hello say: its runner exec.hello_cli needs the permission exec`},
		"a module that is missing": {"commands/commands.yaml", "slash_commands: [{name: a, summary: s, maps_to: {actions: [{id: x, description: d, runner: wasm.m}]}}]", "the module wasm/m.wasm is missing"},
		"a default of other type":  {"commands/commands.yaml", cin("default: 1", "default: one"), `flags[1].default: must be a whole number`},
		"within for a number":      {"commands/commands.yaml", cin("default: 1", "within: files.read"), `within: is only for strings`},
		"an argument twice":        {"commands/commands.yaml", cin("name: loud", "name: whom"), `two of the action's arguments and flags are called whom`},
		"required after optional":  {"commands/commands.yaml", cin("required: true}]", "}, {name: b, description: d, required: true}]"), `it follows an argument that can be left out`},
		"argv of another runner":   {"commands/commands.yaml", cin("runner: exec.hello_cli", "runner: tool.fs.read\n          argv: [a]"), `is for actions with an exec runner`},
		"a plan without a policy":  {"install/plan.yaml", "version: 1", "come together"},
		"an unwanted folder":       {"src/main.c", "x", `E7003 "src/main.c": it is in no folder of an extension`},
		"a work folder":            {"work/x", "x", `E7003 "work/x": it is in no folder of an extension`},
		"a checksum of nothing":    {"manifest.json", in(`"exec"]`, `"exec"], "checksums": {"docs/USAGE.md": "`+strings.Repeat("0", 64)+`"}`), `is not among the manifest's checksums`},
		"a signature of nobody":    {"manifest.json.sig", "AAAA", "has a signature but no signer"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := extension.Read("x", ext(c.file, c.text))
			if err == nil {
				t.Fatal("it was read")
			}
			if got := strings.Join(errorsOf(err), "\n"); !strings.Contains(got, c.want) {
				t.Errorf("got  %s\nwant %s", got, c.want)
			}
		})
	}
}

// What the parser takes the published schemas take, and the other way round, as far
// as schemas can say it.
func TestSchemasAgreeWithTheParser(t *testing.T) {
	man, cmd := documentSchema(t, "manifest"), documentSchema(t, "commands")
	for src, want := range map[string]bool{
		manifest: true, strings.Replace(manifest, "exec", "root", 1): false, strings.Replace(manifest, "author", "by", 1): false,
		strings.Replace(manifest, "1.2.0", "1", 1): false, strings.Replace(manifest, "tools.hello", "a..b", 1): false,
		strings.Replace(manifest, `["exec"]`, `["exec"], "platforms": ["linux/arm64"]`, 1): true,
		strings.Replace(manifest, `["exec"]`, `["exec"], "platforms": ["amiga"]`, 1):       false,
	} {
		_, err := extension.ParseManifest("m", []byte(src))
		if serr := man.Validate(jsonOf(t, src)); (err == nil) != want || (serr == nil) != want {
			t.Errorf("%s\nparser: %v\nschema: %v", src, err, serr)
		}
	}
	for _, dir := range []string{"http", "git", "sqlite"} {
		src, err := os.ReadFile(filepath.Join("..", "..", "..", "extensions", dir, "commands", "commands.yaml"))
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Validate(jsonOf(t, string(src))); err != nil {
			t.Errorf("%s: %v", dir, err)
		}
	}
	for _, change := range [][2]string{{"", ""}, {"short: l", "short: long"}, {"option: -n", "option: n"}, {"summary:", "about:"}, {"exec.hello_cli", "exec."}, {"type: integer", "type: int"}, {"id: say", "id: help"}, {"whom,", "'who m',"}} {
		src := strings.Replace(commands, change[0], change[1], 1)
		_, err := extension.ParseCommands("c", []byte(src))
		if serr := cmd.Validate(jsonOf(t, src)); (err == nil) != (src == commands) || (serr == nil) != (src == commands) {
			t.Errorf("%v: parser: %v, schema: %v", change, err, serr)
		}
	}
}

func documentSchema(t *testing.T, name string) *jsonschema.Schema {
	t.Helper()
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(extension.DocumentSchema(name)))
	if err != nil {
		t.Fatal(err)
	}
	c := jsonschema.NewCompiler()
	if err := c.AddResource("s.json", v); err != nil {
		t.Fatal(err)
	}
	s, err := c.Compile("s.json")
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// jsonOf is a document in YAML or JSON as schemas look at it.
func jsonOf(t *testing.T, src string) any {
	t.Helper()
	var v any
	if err := yaml.Load([]byte(src), &v); err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	if v, err = jsonschema.UnmarshalJSON(bytes.NewReader(b)); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestShippedExtensions(t *testing.T) {
	for _, dir := range []string{"http", "git", "sqlite"} {
		root := filepath.Join("..", "..", "..", "extensions", dir)
		var files []extension.File
		err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := os.ReadFile(name)
			rel, rerr := filepath.Rel(root, name)
			files = append(files, extension.File{Name: filepath.ToSlash(rel), Data: b})
			return errors.Join(err, rerr)
		})
		if err != nil {
			t.Fatal(err)
		}
		p, err := extension.Read(root, files)
		if err != nil {
			t.Fatal(err)
		}
		if p.Usage() == "" {
			t.Errorf("%s has no usage document", dir)
		}
		if err := p.Manifest.Runs("1.0.0", "linux", "amd64"); err != nil {
			t.Error(err)
		}
	}
}

func TestToolIDsDependOnNamesAlone(t *testing.T) {
	for want, c := range map[string][3]string{
		"ext:git:log":          {"git", "git", "log"},
		"ext:tools.hello:say":  {"tools.hello", "hello", "say"},
		"ext:tools:hello.say":  {"tools", "hello", "say"},
		"ext:a.b:b.c":          {"a.b", "b.c", "x"}, // no such command: names have no dots
		"ext:hello:hello2.say": {"hello", "hello2", "say"},
	} {
		if got := extension.ToolID(c[0], c[1], c[2]); string(got) != want && c[1] != "b.c" {
			t.Errorf("%v: %s, want %s", c, got, want)
		}
	}
	p, err := extension.Read("x", ext())
	if err != nil {
		t.Fatal(err)
	}
	if got := p.Tools(); len(got) != 1 || got[0] != "ext:tools.hello:say" {
		t.Errorf("%v", got)
	}
}

func TestWhatIsNotDeclaredIsClosed(t *testing.T) {
	const root = "/home/ann/.remit/extensions/tools.hello"
	env := policy.Env{Workspace: "/ws", Home: "/home/ann", State: "/home/ann/.remit", Path: []string{"/usr/bin"}}
	open, err := policy.Parse("p", []byte(`{"version": 1, "files": {"read": {"allow": ["**", "/home/**"]}, "write": {"allow": ["**", "/home/**"]}},
		"network": {"allow": ["https://*.example.com"]}, "commands": {"allow": ["**"]}, "models": {"allow": ["*"]}, "tools": {"allow": ["*"]}}`))
	if err != nil {
		t.Fatal(err)
	}
	acts := map[string]tool.Action{
		"filesystem.read":  {Kind: tool.FileRead, Path: "/ws/a", Real: "/ws/a"},
		"filesystem.write": {Kind: tool.FileWrite, Path: root + "/work/a", Real: root + "/work/a"},
		"network":          {Kind: tool.Network, Target: tool.Target{Method: "GET", Scheme: "https", Host: "a.example.com", Port: 443, Path: "/"}},
		"exec":             {Kind: tool.Command, Argv: []string{"hello", "say"}, Dir: "/ws", Exe: "/usr/bin/hello"},
		"llm":              {Kind: tool.Model, Model: "anthropic/x"},
	}
	never := map[string]tool.Action{
		"the workspace":        {Kind: tool.FileWrite, Path: "/ws/a", Real: "/ws/a"},
		"its own program":      {Kind: tool.FileWrite, Path: root + "/bin/hello", Real: root + "/bin/hello"},
		"another's folder":     {Kind: tool.FileWrite, Path: "/home/ann/.remit/extensions/other/work/x", Real: "/home/ann/.remit/extensions/other/work/x"},
		"a link out of work":   {Kind: tool.FileWrite, Path: root + "/work/a", Real: "/ws/a"},
		"a program not named":  {Kind: tool.Command, Argv: []string{"sh", "-c", "x"}, Dir: "/ws", Exe: "/usr/bin/sh"},
		"a name that is alike": {Kind: tool.Command, Argv: []string{"./hello"}, Dir: "/ws", Exe: "/ws/hello"},
	}
	for _, perms := range [][]string{{}, {"exec"}, {"network"}, {"browser"}, {"llm"}, {"filesystem.read"}, {"filesystem.write"}, {"exec", "network", "llm", "filesystem.read", "filesystem.write", "database", "browser"}} {
		list, _ := json.Marshal(perms)
		cmds := commands
		if !slices.Contains(perms, "exec") {
			cmds = "slash_commands: [{name: a, summary: s, maps_to: {actions: [{id: x, description: d, runner: tool.time.now}]}}]"
		}
		p, err := extension.Read("x", ext("manifest.json", strings.Replace(manifest, `["exec"]`, string(list), 1), "commands/commands.yaml", cmds))
		if err != nil {
			t.Fatal(err)
		}
		b, err := p.Bounds(root)
		if err != nil {
			t.Fatal(err)
		}
		var chain policy.Chain
		for _, pol := range []*policy.Policy{open, b} {
			r, err := pol.Bind(env)
			if err != nil {
				t.Fatal(err)
			}
			chain = append(chain, r)
		}
		chain = chain.Owning(root + "/work")
		for name, a := range acts {
			want := slices.Contains(perms, name) || name == "network" && slices.Contains(perms, "browser")
			if got := chain.DecideAction(a); (got.Effect == policy.Allow) != want {
				t.Errorf("%v: %s is %s: %s", perms, a, got.Effect, got.Reason)
			}
		}
		for name, a := range never {
			if got := chain.DecideAction(a); got.Effect != policy.Deny {
				t.Errorf("%v: %s: %s is %s", perms, name, a, got.Effect)
			}
		}
	}
}

func TestItsOwnProgramHasItsWholePath(t *testing.T) {
	p, err := extension.Read("x", ext("bin/hello", "#!/bin/sh"))
	if err != nil {
		t.Fatal(err)
	}
	a := p.Commands[0].Action("say")
	if got := p.Program(a, "/h/it's here"); got != "/h/it's here/bin/hello" {
		t.Errorf("%q", got)
	}
	if _, err := p.Bounds("/h/it's * here"); err != nil {
		t.Error(err)
	}
}

func TestWhateverIsRunChangesTheVersion(t *testing.T) {
	version := func(files ...string) string {
		p, err := extension.Read("x", ext(files...))
		if err != nil {
			t.Fatal(err)
		}
		return p.Version(&p.Commands[0], p.Commands[0].Action("say"))
	}
	was := version("bin/hello", "1")
	if version("bin/hello", "1", "docs/USAGE.md", "x", "bin/other", "y") != was {
		t.Error("what it does not run changes it")
	}
	for name, files := range map[string][]string{
		"the program":     {"bin/hello", "2"},
		"an option":       {"bin/hello", "1", "commands/commands.yaml", strings.Replace(commands, "-n}", "-x}", 1)},
		"the runner":      {"bin/hello", "1", "commands/commands.yaml", strings.Replace(commands, "hello_cli", "other", 1)},
		"a permission":    {"bin/hello", "1", "manifest.json", strings.Replace(manifest, `"exec"`, `"exec", "network"`, 1)},
		"the folder":      {"bin/hello", "1", "commands/commands.yaml", strings.Replace(commands, "runner:", "folder: workspace\n          runner:", 1)},
		"a lack of it":    {},
		"a fixed word":    {"bin/hello", "1", "commands/commands.yaml", strings.Replace(commands, "runner:", "argv: [x]\n          runner:", 1)},
		"the whole thing": {"bin/hello", "1", "manifest.json", strings.Replace(manifest, "1.2.0", "1.2.1", 1)},
	} {
		if version(files...) == was {
			t.Errorf("%s does not change it", name)
		}
	}
}

func TestVersionsAreOrdered(t *testing.T) {
	order := []string{"0.9.0", "1.0.0-alpha", "1.0.0-alpha.1", "1.0.0-alpha.beta", "1.0.0-beta.2", "1.0.0-beta.11", "1.0.0-rc.1", "1.0.0", "1.2.0", "1.10.0", "2.0.0"}
	for i, a := range order {
		for k, b := range order {
			got, ok := extension.Compare(a, b)
			if want := compareInts(i, k); !ok || sign(got) != want {
				t.Errorf("%s and %s: %d, %v", a, b, got, ok)
			}
		}
	}
	if _, ok := extension.Compare("dev", "1.0.0"); ok {
		t.Error("dev is a version")
	}
	m := extension.Manifest{ID: "x", MinRemit: "1.2.0", Platforms: []string{"linux/amd64", "darwin"}}
	for c, want := range map[[3]string]bool{{"1.2.0", "linux", "amd64"}: true, {"1.1.9", "linux", "amd64"}: false, {"dev", "darwin", "arm64"}: true, {"2.0.0", "linux", "arm64"}: false} {
		if err := m.Runs(c[0], c[1], c[2]); (err == nil) != want {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func compareInts(a, b int) int { return sign(a - b) }
func sign(n int) int {
	switch {
	case n < 0:
		return -1
	case n > 0:
		return 1
	}
	return 0
}

func TestWordsOfAProgram(t *testing.T) {
	parse := func(action string) *extension.Action {
		c, err := extension.ParseCommands("c", []byte("slash_commands: [{name: a, summary: s, maps_to: {actions: [{id: go, description: d, runner: exec.x, "+action+"}]}}]"))
		if err != nil {
			t.Fatal(err)
		}
		return &c[0].Actions[0]
	}
	for name, c := range map[string]struct {
		action string
		args   map[string]any
		want   string // "": refused
	}{
		"the action's ID":            {"", nil, "go"},
		"fixed words":                {"argv: [a, b c]", nil, "a|b c"},
		"flags before arguments":     {"arguments: [{name: x, description: d}], flags: [{name: y, description: d}]", map[string]any{"x": "1", "y": "2"}, "go|--y=2|1"},
		"a value is one word":        {"arguments: [{name: x, description: d}]", map[string]any{"x": "a; rm -rf $(b) `c`\n'd'"}, "go|a; rm -rf $(b) `c`\n'd'"},
		"no option by an argument":   {"arguments: [{name: x, description: d}]", map[string]any{"x": "--output=/etc/x"}, ""},
		"nor by a lone dash":         {"arguments: [{name: x, description: d}]", map[string]any{"x": "-"}, ""},
		"but after a separator":      {"separator: true, arguments: [{name: x, description: d}]", map[string]any{"x": "--y"}, "go|--|--y"},
		"joined to its option":       {"flags: [{name: y, description: d, option: --yy=}]", map[string]any{"y": "--z"}, "go|--yy=--z"},
		"not as a word of its own":   {"flags: [{name: y, description: d, option: -y}]", map[string]any{"y": "--z"}, ""},
		"a number":                   {"arguments: [{name: x, description: d, type: integer}]", map[string]any{"x": json.Number("-5")}, "go|-5"},
		"no other form of one":       {"arguments: [{name: x, description: d, type: integer}]", map[string]any{"x": json.Number("1e3")}, ""},
		"true":                       {"flags: [{name: y, description: d, type: boolean, option: -v}]", map[string]any{"y": true}, "go|-v"},
		"false":                      {"flags: [{name: y, description: d, type: boolean, default: true}]", map[string]any{"y": false}, "go"},
		"a default":                  {"flags: [{name: y, description: d, type: integer, default: 3, option: -n}]", nil, "go|-n|3"},
		"repeated":                   {"arguments: [{name: x, description: d, repeat: true}]", map[string]any{"x": []any{"a", "b"}}, "go|a|b"},
		"each of them is looked at":  {"arguments: [{name: x, description: d, repeat: true}]", map[string]any{"x": []any{"a", "-b"}}, ""},
		"JSON":                       {"arguments: [{name: x, description: d, type: json}]", map[string]any{"x": map[string]any{"a": json.Number("1")}}, `go|{"a":1}`},
		"a NUL byte":                 {"arguments: [{name: x, description: d}]", map[string]any{"x": "a\x00b"}, ""},
		"another type":               {"arguments: [{name: x, description: d}]", map[string]any{"x": true}, ""},
		"none of the choices":        {"arguments: [{name: x, description: d, choices: [a, b]}]", map[string]any{"x": "c"}, ""},
		"its folder":                 {`argv: ["--out={work}/x"]`, nil, "go"[:0] + "--out=/w/x"},
		"no placeholder in a value":  {"arguments: [{name: x, description: d}]", map[string]any{"x": "{work}"}, "go|{work}"},
		"nor in what it is not told": {"flags: [{name: y, description: d}]", map[string]any{"z": "x"}, "go"},
	} {
		t.Run(name, func(t *testing.T) {
			a := parse(c.action)
			if c.action == "" {
				a = parse("folder: work")
			}
			got, err := a.Words(c.args, "/w")
			if (err != nil) != (c.want == "") || err == nil && strings.Join(got, "|") != c.want {
				t.Errorf("%q, %v; want %q", got, err, c.want)
			}
		})
	}
}

// Whatever a call gives a program as an argument, it is no option: no word of the
// call's own begins with a dash but as the value of a flag.
func TestNoCallAddsAnOption(t *testing.T) {
	c, err := extension.ParseCommands("c", []byte(commands))
	if err != nil {
		t.Fatal(err)
	}
	a := &c[0].Actions[0]
	rapid.Check(t, func(t *rapid.T) {
		args := map[string]any{"whom": rapid.String().Draw(t, "whom"), "loud": rapid.Bool().Draw(t, "loud")}
		words, err := a.Words(args, "/w")
		if err != nil {
			return
		}
		if last := words[len(words)-1]; strings.HasPrefix(last, "-") || last != args["whom"] {
			t.Fatalf("%q", words)
		}
	})
}

// Documents that are read say what they say: each command has a usable name, and
// each of its actions a schema that is JSON.
func FuzzParseCommands(f *testing.F) {
	f.Add([]byte(commands))
	f.Fuzz(func(t *testing.T, b []byte) {
		list, err := extension.ParseCommands("c", b)
		if err != nil {
			return
		}
		for _, c := range list {
			if c.Name == "" || strings.ContainsAny(c.Name, "/ \n") || extension.Reserved(c.Name) {
				t.Fatalf("a command %q", c.Name)
			}
			for i := range c.Actions {
				a := &c.Actions[i]
				if !json.Valid(a.Schema()) || a.ID == "" || a.Runner.Kind == "" {
					t.Fatalf("%+v", a)
				}
				if _, err := tool.ParseID(string(extension.ToolID("x", c.Name, a.ID))); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}
