package clients_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/service/clients"
)

// decide gives what a confined agent may do with a file.
func (d *desk) decide(c clients.Confined, file string) (read, write policy.Effect) {
	d.t.Helper()
	r, err := c.Policy.Bind(d.Home.Env(d.project))
	if err != nil {
		d.t.Fatal(err)
	}
	chain := policy.Chain{r}.Owning(c.Home)
	at := func(kind tool.ActionKind) policy.Effect {
		return chain.DecideAction(tool.Action{Kind: kind, Path: file, Real: file}).Effect
	}
	return at(tool.FileRead), at(tool.FileWrite)
}

// put writes a file of the person.
func (d *desk) put(file, text string, mode os.FileMode) {
	d.t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), mode); err != nil {
		d.t.Fatal(err)
	}
}

// TestAConfinedAgentHasThePersonsTools: the folders of version managers are on its PATH and can be read, each in one version. Those in
// the project are not, since the agent could write them.
func TestAConfinedAgentHasThePersonsTools(t *testing.T) {
	d := newDesk(t)
	home := d.Home.UserHome
	for _, at := range []string{home, d.project} {
		for _, dir := range []string{".rustup/toolchains/1.80.0-x/bin", ".rustup/toolchains/stable-x/bin", ".pyenv/versions/3.12.1/bin", ".nvm/versions/node/v20.1.0/bin"} {
			d.put(filepath.Join(at, dir, "tool"), "", 0o755)
		}
	}
	d.put(filepath.Join(home, ".rustup/settings.toml"), "default_toolchain = \"stable-x\"\n", 0o600)
	for _, name := range profile.AgentNames() {
		c, err := d.Confine(name, name, d.project, true)
		if err != nil {
			t.Fatal(err)
		}
		r, err := c.Policy.Bind(d.Home.Env(d.project))
		if err != nil {
			t.Fatal(err)
		}
		path := policy.Chain{r}.Limits().Path
		for dir, want := range map[string]bool{".rustup/toolchains/1.80.0-x": false, ".rustup/toolchains/stable-x": true, ".pyenv/versions/3.12.1": true, ".nvm/versions/node/v20.1.0": true} {
			read, write := d.decide(c, filepath.Join(home, dir, "lib/x"))
			if slices.Contains(path, filepath.Join(home, dir, "bin")) != want || (read == policy.Allow) != want || write == policy.Allow {
				t.Errorf("%s: of %s, reading is %v and writing %v, with the path %q", name, dir, read, write, path)
			}
			if slices.Contains(path, filepath.Join(d.project, dir, "bin")) {
				t.Errorf("%s: a folder of the project is on the path", name)
			}
		}
	}
}

// The agent's own home leads to the settings of the person, and has a file that stands for the login. What the agent put in their
// places is gone at the next start.
func TestConfinedHome(t *testing.T) {
	d := newDesk(t)
	d.Hook = d.Exe + "-hook"
	login, settings := filepath.Join(d.Home.UserHome, ".claude/.credentials.json"), filepath.Join(d.Home.UserHome, ".claude/settings.json")
	const theirs = `{"claudeAiOauth": {"accessToken": "theirs", "refreshToken": "theirs", "expiresAt": 32503680000000, "scopes": ["a"]}, "mcpOAuth": {"x": "theirs"}}`
	d.put(login, theirs, 0o600)
	d.put(settings, "settings", 0o600)
	c, err := d.Confine("claude", "claude", d.project, true)
	if err != nil {
		t.Fatal(err)
	}
	own := func(name string) string { return filepath.Join(c.Home, ".claude", name) }
	content := func(file string) string {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if got := content(own(".credentials.json")); strings.Contains(got, "theirs") || !strings.Contains(got, "accessToken") || content(own("settings.json")) != "settings" {
		t.Errorf("the home has another login or other settings: %s", got)
	}
	if _, err := os.Lstat(own("CLAUDE.md")); err == nil {
		t.Error("a link points to a missing file")
	}
	for _, name := range []string{".credentials.json", "settings.json"} {
		if err := os.Remove(own(name)); err != nil {
			t.Fatal(err)
		}
		d.put(own(name), "of the agent", 0o600)
	}
	if _, err := d.Confine("claude", "claude", d.project, true); err != nil {
		t.Fatal(err)
	}
	if content(own(".credentials.json")) == "of the agent" || content(own("settings.json")) != "settings" || content(login) != theirs {
		t.Error("a file of the agent was kept")
	}
	for file, want := range map[string][2]policy.Effect{
		login:                                  {policy.Deny, policy.Deny},
		own(".credentials.json"):               {policy.Allow, policy.Allow},
		settings:                               {policy.Allow, policy.Deny},
		own("history.jsonl"):                   {policy.Allow, policy.Allow},
		filepath.Join(d.Home.Dir, "ledger.db"): {policy.Deny, policy.Deny},
		d.Exe:                                  {policy.Allow, policy.Deny},
		d.Hook:                                 {policy.Allow, policy.Deny},
	} {
		if r, w := d.decide(c, file); r != want[0] || w != want[1] {
			t.Errorf("%s: %v to read, %v to write", file, r, w)
		}
	}
}

// Links that the agent made in its home lead Remit nowhere.
func TestConfinedHomeIsNotLeft(t *testing.T) {
	d := newDesk(t)
	d.put(filepath.Join(d.Home.UserHome, ".claude/settings.json"), "settings", 0o600)
	victim := t.TempDir()
	own := filepath.Join(d.Home.Env("").State, "confined", "claude")
	if err := os.MkdirAll(own, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(victim, filepath.Join(own, ".claude")); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Confine("claude", "claude", d.project, true); err != nil {
		t.Errorf("a link out of the home keeps the agent from its start: %v", err)
	}
	if list, err := os.ReadDir(victim); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
}

// Programs of package managers bring what they are made of. A program of the project is not found.
func TestConfinedPrograms(t *testing.T) {
	d := newDesk(t)
	base := filepath.Dir(d.Home.UserHome)
	npm, venv, python := filepath.Join(base, "npm"), filepath.Join(base, "tools/aider"), filepath.Join(base, "py/3.12")
	d.put(filepath.Join(npm, "lib/node_modules/@x/claude/cli.js"), "", 0o755)
	d.put(filepath.Join(npm, "bin/other"), "", 0o755)
	d.put(filepath.Join(venv, "bin/aider"), "", 0o755)
	d.put(filepath.Join(venv, "pyvenv.cfg"), "home = "+filepath.Join(python, "bin")+"\n", 0o644)
	d.put(filepath.Join(python, "lib/os.py"), "", 0o644)
	d.write("node_modules/.bin/gemini", "")
	for _, name := range []string{filepath.Join(npm, "bin"), filepath.Join(base, "local")} {
		if err := os.MkdirAll(name, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for from, to := range map[string]string{"npm/bin/claude": "../lib/node_modules/@x/claude/cli.js", "local/aider": filepath.Join(venv, "bin/aider")} {
		if err := os.Symlink(to, filepath.Join(base, from)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Join(d.project, "node_modules/.bin/gemini"), 0o755); err != nil {
		t.Fatal(err)
	}
	vars := map[string]string{
		"PATH":               strings.Join([]string{filepath.Join(d.project, "node_modules/.bin"), npm + "/bin", filepath.Join(base, "local")}, ":"),
		"ANTHROPIC_BASE_URL": "http://127.0.0.1:8080/v1", "OPENAI_API_BASE": "file:///etc", "SECRET": "x", "ANTHROPIC_API_KEY": "k",
	}
	d.Home.Lookup = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	for name, files := range map[string][]string{
		"claude": {npm + "/lib/node_modules/@x/claude/cli.js", npm + "/lib/node_modules/y/z.js"},
		"aider":  {venv + "/bin/aider", venv + "/lib/x.py", python + "/lib/os.py"},
		"gemini": {},
	} {
		c, err := d.Confine(name, name, d.project, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if r, w := d.decide(c, file); r != policy.Allow || w != policy.Deny {
				t.Errorf("%s: %s: %v to read, %v to write", name, file, r, w)
			}
		}
		if r, _ := d.decide(c, base+"/home/.profile"); r != policy.Deny {
			t.Errorf("%s reads the home folder", name)
		}
		src := string(c.Policy.Source())
		if strings.Contains(src, d.project) || strings.Contains(src, "file:") || c.Env["SECRET"] != "" {
			t.Errorf("%s: %s", name, src)
		}
		if name != "gemini" && (!strings.Contains(src, "'http://127.0.0.1:8080'") || c.Env["ANTHROPIC_API_KEY"] == "k") {
			t.Errorf("%s: %v\n%s", name, c.Env, src)
		}
	}
	if _, err := d.Confine("emacs", "emacs", d.project, true); err == nil {
		t.Error("an unknown agent is confined")
	}
}

// The folders of settings are there before a confined agent could make them.
func TestGuardFolders(t *testing.T) {
	d := newDesk(t)
	d.put(filepath.Join(d.Home.UserHome, ".codex/config.toml"), "", 0o600)
	c, err := d.Confine("gemini", "gemini", d.project, true)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.GuardFolders(c, d.project); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{".gemini": true, ".codex": true, ".cursor": false} {
		if _, err := os.Lstat(filepath.Join(d.project, name)); (err == nil) != want {
			t.Errorf("%s: %v", name, err)
		}
	}
}
