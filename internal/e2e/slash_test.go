package e2e_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit"
)

// slash makes the calls one by one, each as a slash command in a run of its own.
// Of one that is no call at all it gives the zero verdict.
func (d *doors) slash(calls []call) (out []verdict, after map[string]string) {
	d.w.t.Helper()
	d.w.fill()
	for _, c := range calls {
		line := "/call " + quoted(c.Tool)
		if c.Args != nil {
			b, err := json.Marshal(c.Args)
			if err != nil {
				d.w.t.Fatal(err)
			}
			line += " " + quoted(string(b))
		}
		out = append(out, d.slashLine(line))
	}
	return out, tree(d.w.t, d.w.workspace)
}

func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

func (d *doors) slashLine(line string) verdict {
	d.w.t.Helper()
	r := d.w.remit("slash", line, "-p", d.policy, "-w", d.w.workspace, "--json")
	if r.out == "" {
		if r.status != 2 {
			d.w.t.Errorf("%s: status %d and nothing printed\n%s", line, r.status, r.err)
		}
		return verdict{}
	}
	var got struct {
		stepJSON
		Run string `json:"run_id"`
	}
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		d.w.t.Fatalf("%s: %v\n%s", line, err, r.out)
	}
	if want := map[string]int{"completed": 0, "denied": 3}[got.Status]; want != r.status && (got.Status == "completed" || got.Status == "denied") {
		d.w.t.Errorf("%s: exit status %d of a call that was %s", line, r.status, got.Status)
	}
	if bytes.Contains(got.Output, []byte(`"blob"`)) && bytes.Contains(got.Output, []byte(`"truncated": true`)) {
		whole, err := d.rt.Output(context.Background(), got.Run, 1)
		if err != nil {
			d.w.t.Fatal(err)
		}
		got.Output = whole
	}
	return got.verdict()
}

// compare reports where a door's verdicts differ from a session's.
func compare(t *testing.T, door string, calls []call, want, got []verdict) {
	t.Helper()
	for i := range want {
		if got[i].Status == "" { // no call: only what a session refuses by its name may be none
			if want[i].Code != remit.ToolUnknown.Error() {
				t.Errorf("call %d %s %q: %s makes no call of it, session %s", i+1, calls[i].Tool, fmt.Sprint(calls[i].Args), door, want[i].Status)
			}
			continue
		}
		if diff := cmp.Diff(want[i], got[i]); diff != "" {
			t.Errorf("call %d %s %q: %s and session disagree (-session +%s):\n%s", i+1, calls[i].Tool, fmt.Sprint(calls[i].Args), door, door, diff)
		}
	}
}

// sample returns every fifth call, and the first of each tool and expected status; in the
// long way all calls. It is for doors that start a process for each call.
func sample(calls []call) (some []call) {
	tried := map[string]bool{}
	for i, c := range calls {
		kind := c.Tool + " " + c.wanted
		if soak() || i%5 == 0 || !tried[kind] {
			some = append(some, c)
		}
		tried[kind] = true
	}
	return some
}

// Each slash command is a run of its own, so limits of runs are left out here.
func TestTheSlashDoorGivesTheSameVerdict(t *testing.T) {
	d := newDoors(t, differentialPolicy[:strings.Index(differentialPolicy, "limits:")])
	calls := sample(theCalls(d.w))
	want, wantTree := d.session(calls)
	got, gotTree := d.slash(calls)
	compare(t, "slash", calls, want, got)
	if diff := cmp.Diff(wantTree, gotTree); diff != "" {
		t.Errorf("slash and session left different files (-session +slash):\n%s", diff)
	}
}

const probeManifest = `{"id": "probe", "name": "Probe", "version": "1.0.0", "description": "Tries things.", "author": "Ann", "license": "MIT",
  "permissions_required": ["exec", "filesystem.read", "filesystem.write"]}`

const probeCommands = `slash_commands:
  - name: /probe
    summary: Tries things
    maps_to:
      actions:
        - id: cat
          description: Reads a file of the workspace.
          runner: exec.cat
          folder: workspace
          argv: [--]
          arguments: [{name: path, description: Which., required: true, within: files.read}]
        - id: touch
          description: Makes a file in its own folder.
          runner: exec.touch
          argv: [--]
          arguments: [{name: path, description: Which., required: true, within: files.write}]
        - id: own
          description: Runs its own program.
          runner: exec.mine
        - id: curl
          description: Reaches the network, which it did not declare.
          runner: exec.curl
          argv: [-s, -m, "5"]
          arguments: [{name: url, description: Where., required: true, within: network}]
        - id: read
          description: Reads a file by a tool of Remit's.
          runner: tool.fs.read
          arguments: [{name: path, description: Which., required: true}]
        - id: write
          description: Writes a file by a tool of Remit's, where it may not.
          runner: tool.fs.write
          arguments: [{name: path, description: Which., required: true}, {name: content, description: What., required: true}]
`

const probePolicy = `
version: 1
name: probe
files:
  read: {allow: ["**"], deny: ["private/**"]}
  write: {allow: ["**"], deny: ["locked/**"]}
network: {allow: ["http://%[1]s/ok/**"]}
commands: {allow: ["cat **", "touch **", "curl **"], env: [LANG]}
tools: {allow: ["ext:probe:*", "fs.*", "http.*"]}
`

// An extension's tools, too, are decided alike at every door: by the caller's policy
// and by what the extension declared.
func TestEveryDoorGivesTheSameVerdictOnAnExtensionsTools(t *testing.T) {
	d := newDoors(t, probePolicy)
	d.w.needSandbox()
	folder := filepath.Join(t.TempDir(), "probe")
	for name, content := range map[string]string{"manifest.json": probeManifest, "commands/commands.yaml": probeCommands, "bin/mine": "#!/bin/sh\necho mine\n"} {
		file := filepath.Join(folder, name)
		d.w.mkdir(filepath.Dir(file))
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	d.w.must(0, "ext", "install", folder, "--yes")
	var err error // one that knows the extension
	if d.rt, err = remit.Open(t.Context(), remit.Options{Home: d.w.home, Workspace: d.w.workspace, Policy: d.policy, Environ: d.w.environ()}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.rt.Close(); err != nil {
			t.Error(err)
		}
	})
	ext := func(action, wanted string, pairs ...any) call {
		return call{Tool: "ext:probe:" + action, Args: args(pairs...), wanted: wanted}
	}
	calls := []call{
		ext("cat", "completed", "path", "notes.txt"), ext("cat", "denied", "path", "private/key.txt"), ext("cat", "denied", "path", "../outside.txt"), ext("cat", "denied", "path", "escape.txt"),
		ext("cat", "denied", "path", ".env"), ext("cat", "failed", "path", "-x"), ext("cat", "failed"), ext("cat", "failed", "path", 1), ext("cat", "failed", "path", "a", "more", "b"),
		ext("cat", "denied", "path", d.w.home+"/remit.db"),
		ext("touch", "completed", "path", "made.txt"), ext("touch", "denied", "path", d.w.workspace+"/made.txt"), ext("touch", "denied", "path", "../made"), ext("touch", "denied", "path", "/tmp/made"),
		ext("touch", "denied", "path", "locked/x"),
		ext("own", "denied"), // its program has its whole path, which no entry names
		ext("curl", "denied", "url", "http://"+d.w.server+"/ok/x"), ext("nothing", ""),
	}
	for i, v := range d.agree(t, calls) {
		if calls[i].wanted != "" && v.Status != calls[i].wanted {
			t.Errorf("%s %v: %s, want %s: %s %s", calls[i].Tool, calls[i].Args, v.Status, calls[i].wanted, v.Code, v.Message)
		}
	}
	want, _ := d.session(calls)
	got, _ := d.slash(calls)
	compare(t, "slash", calls, want, got)
	// Typed as commands they are the same calls, and what the extension did not
	// declare is denied to what it calls, too.
	for line, wanted := range map[string]string{
		"/probe cat notes.txt": "completed", "/probe cat private/key.txt": "denied", "/probe touch made.txt": "completed", "/probe own": "denied",
		"/probe read notes.txt": "completed", "/probe read private/key.txt": "denied", "/probe write out/x y": "denied", "/probe curl http://" + d.w.server + "/ok/x": "denied",
	} {
		if v := d.slashLine(line); v.Status != wanted {
			t.Errorf("%s: %s, want %s: %s", line, v.Status, wanted, v.Message)
		}
	}
	if _, err := os.Stat(filepath.Join(d.w.home, "extensions", "probe", "work", "made.txt")); err != nil {
		t.Error(err)
	}
}

// An action with a module reaches the files that its arguments name, and no others.
func TestAnExtensionWithAModule(t *testing.T) {
	w := newWorld(t).durability("process")
	w.wasmExample()
	module, err := os.ReadFile(filepath.Join(w.workspace, "text.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	folder := filepath.Join(t.TempDir(), "text")
	for name, content := range map[string]string{
		"manifest.json": `{"id": "text", "name": "Text", "version": "1.0.0", "description": "Looks at texts.", "author": "Ann", "license": "MIT", "permissions_required": ["filesystem.read"]}`,
		"commands/commands.yaml": `slash_commands:
  - name: /text
    summary: Looks at texts
    maps_to:
      actions:
        - {id: count, description: Counts., runner: wasm.text, arguments: [{name: text, description: What., required: true}]}
        - {id: headings, description: Lists headings., runner: wasm.text, arguments: [{name: folder, description: Where., required: true, within: files.read}]}
`, "wasm/text.wasm": string(module),
	} {
		file := filepath.Join(folder, name)
		w.mkdir(filepath.Dir(file))
		if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	w.must(0, "ext", "install", folder, "--yes")
	w.write("docs/a.md", "# One\ntext\n")
	w.write("private/b.md", "# Two\n")
	w.write("p.yaml", "version: 1\nname: text\nfiles: {read: {allow: ['**'], deny: ['private/**']}}\ntools: {allow: ['ext:text:*']}\n")
	slash := func(status int, line string) string {
		t.Helper()
		return w.must(status, "slash", line, "-p", "p.yaml", "--json")
	}
	for line, want := range map[string]string{"/text count 'one two'": `"words": 2`, "/text headings docs": `"docs/a.md: One"`} {
		if got := slash(0, line); !strings.Contains(got, want) || !strings.Contains(got, `"runner": "wasm.text"`) {
			t.Errorf("%s: %s", line, got)
		}
	}
	id, _ := w.newestRun()
	for _, line := range []string{"/text headings private", "/text headings ..", "/text headings /etc"} {
		if got := slash(3, line); strings.Contains(got, "Two") {
			t.Errorf("%s: %s", line, got)
		}
	}
	w.must(0, "replay", id)
	w.must(0, "ext", "remove", "text")
}
