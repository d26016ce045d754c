package clients_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/agentlogins"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/home"
)

// desk is a machine with a project, and with a program that stands for Remit.
type desk struct {
	*clients.Clients
	t       *testing.T
	project string
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	base, err := home.Workspace(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(base, "remit")
	ledger, err := sqlite.Open(t.Context(), sqlite.Options{Home: dir, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ledger.Close() })
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + dir, "HOME=" + base, "USER=ann"})
	if err != nil {
		t.Fatal(err)
	}
	h := &home.Home{Config: cfg, Ledger: func(context.Context) (store.Backend, error) { return ledger, nil }}
	d := &desk{t: t, project: filepath.Join(base, "project"), Clients: &clients.Clients{Home: h, Logins: agentlogins.New(filepath.Join(base, "home"), h.Dir)}}
	for _, dir := range []string{"project", "home", "root", "bin", "root/etc"} {
		if err := os.MkdirAll(filepath.Join(base, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	d.Exe, d.Root = filepath.Join(base, "bin", "remit"), filepath.Join(base, "root")
	d.Home.UserHome = filepath.Join(base, "home")
	if err := os.WriteFile(d.Exe, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return d
}

func (d *desk) write(name, text string) string {
	d.t.Helper()
	file := filepath.Join(d.project, name)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o640); err != nil {
		d.t.Fatal(err)
	}
	return file
}

func (d *desk) install(agent string, scope clients.Scope) (clients.Installed, error) {
	one, _, err := d.Install(clients.Request{Agent: agent, Scope: scope, Folder: d.project})
	return one, err
}

// Agents start the small program if it is installed and executable, and no other user can replace it.
func TestTheSmallProgramIsTheHook(t *testing.T) {
	for name, c := range map[string]struct {
		mode fs.FileMode // 0: there is none
		want string      // how the command line begins, after the folder; "": it is refused
	}{
		"not there": {0, "remit hook claude "}, "no program": {0o644, "remit hook claude "}, "a program": {0o755, "remit-hook claude "}, "one that all can write": {0o757, ""},
	} {
		d := newDesk(t)
		if hook := d.Exe + "-hook"; c.mode != 0 {
			if err := errors.Join(os.WriteFile(hook, nil, 0o755), os.Chmod(hook, c.mode)); err != nil {
				t.Fatal(err)
			}
		}
		d.Hook = clients.HookBeside(d.Exe)
		one, err := d.install("claude", clients.Project)
		if (err == nil) != (c.want != "") || err == nil && !strings.HasPrefix(one.Command, filepath.Join(filepath.Dir(d.Exe), c.want)) {
			t.Errorf("%s: %q, %v", name, one.Command, err)
		}
	}
}

// all gives the files and folders below a folder.
func all(t *testing.T, dir string) string {
	t.Helper()
	var out []string
	err := filepath.WalkDir(dir, func(name string, e fs.DirEntry, err error) error {
		if err != nil || name == dir {
			return err
		}
		text := "/"
		if !e.IsDir() {
			b, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			text = " " + string(b)
		}
		out = append(out, strings.TrimPrefix(name, dir)+text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(out, "\n")
}

// Each agent's files are as before after installing, installing again, and removing.
func TestInstallAndRemoveLeaveNothing(t *testing.T) {
	for _, agent := range clients.Names() {
		for _, scope := range []clients.Scope{clients.Project, clients.User, clients.Managed} {
			t.Run(agent+" "+string(scope), func(t *testing.T) {
				d := newDesk(t)
				d.write("README", "x")
				before := all(t, filepath.Dir(d.Root)+"/project") + all(t, d.Root) + all(t, d.Home.UserHome)
				one, err := d.install(agent, scope)
				if agent == "antigravity" && scope == clients.Managed && err != nil {
					return // it has no such settings
				}
				if err != nil {
					t.Fatal(err)
				}
				text, err := os.ReadFile(one.File)
				if err != nil || !strings.Contains(string(text), one.Command) || !strings.Contains(one.Command, "--home "+d.Home.Dir) {
					t.Fatalf("%s: %v\n%s", one.Command, err, text)
				}
				if list, err := d.Status(agent); err != nil || len(list) != 1 || !list[0].Present || len(list[0].Problems) > 0 {
					t.Errorf("%+v, %v", list, err)
				}
				if _, changed, err := d.Install(clients.Request{Agent: agent, Scope: scope, Folder: d.project}); err != nil || changed {
					t.Errorf("the second time: changed %v, %v", changed, err)
				}
				if again, err := os.ReadFile(one.File); err != nil || string(again) != string(text) {
					t.Errorf("%v\n%s", err, again)
				}
				if _, was, err := d.Remove(agent, scope, d.project); err != nil || !was {
					t.Fatalf("%v, %v", was, err)
				}
				if after := all(t, d.project) + all(t, d.Root) + all(t, d.Home.UserHome); after != before {
					t.Errorf("left:\n%s\nwant:\n%s", after, before)
				}
				if _, was, err := d.Remove(agent, scope, d.project); err != nil || was {
					t.Errorf("a second removal: %v, %v", was, err)
				}
			})
		}
	}
}

// The owner's file keeps its content, comments and permissions.
func TestTheOwnersFileComesBack(t *testing.T) {
	d := newDesk(t)
	text := "{\n  // my model\n  \"model\": \"opus\",\n  \"hooks\": {\"PreToolUse\": [{\"hooks\": [{\"type\": \"command\", \"command\": \"own\"}]}]}\n}\n"
	file := d.write(".claude/settings.local.json", text)
	if _, err := d.install("claude", clients.Project); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || !strings.Contains(string(b), "// my model") || !strings.Contains(string(b), `"own"`) {
		t.Errorf("%v\n%s", err, b)
	}
	if st, err := os.Stat(file); err != nil || st.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", st.Mode(), err)
	}
	if _, _, err := d.Remove("claude", clients.Project, d.project); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("%v\n%s", err, b)
	}
}

// Files that a repository brings lead nowhere else, and widen nothing.
func TestHostileProjects(t *testing.T) {
	outside := func(d *desk) string { return filepath.Join(d.Home.UserHome, "outside") }
	for name, c := range map[string]struct {
		make func(d *desk) error
		want string
	}{
		"the file is a link": {func(d *desk) error {
			d.write(".claude/x", "")
			return os.Symlink(outside(d), filepath.Join(d.project, ".claude/settings.local.json"))
		}, "not a regular file, or a symbolic link"},
		"the folder is a link": {func(d *desk) error { return os.Symlink(d.Home.UserHome, filepath.Join(d.project, ".claude")) }, "not a folder, or a symbolic link"},
		"a folder in its place": {func(d *desk) error {
			return os.MkdirAll(filepath.Join(d.project, ".claude/settings.local.json"), 0o755)
		}, "not a regular file"},
		"two members of one name": {func(d *desk) error {
			d.write(".claude/settings.local.json", `{"hooks": {}, "hooks": {}}`)
			return nil
		}, "not valid JSON"},
		"hooks switched off": {func(d *desk) error {
			d.write(".claude/settings.local.json", `{"disableAllHooks": true}`)
			return nil
		}, "disableAllHooks"},
		"the program is in the project": {func(d *desk) error {
			d.Exe = d.write("bin/remit", "#!/bin/sh\n")
			return nil
		}, "the agent could replace it"},
		"everybody can write the program": {func(d *desk) error { return os.Chmod(d.Exe, 0o777) }, "every user can write"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if err := c.make(d); err != nil {
				t.Fatal(err)
			}
			before := all(t, d.Home.UserHome)
			if _, err := d.install("claude", clients.Project); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v", err)
			}
			if after := all(t, d.Home.UserHome); after != before {
				t.Errorf("written outside:\n%s", after)
			}
			if list, err := d.Status(""); err != nil || len(list) > 0 {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// Settings that come later are seen: they do not let a hook look whole.
func TestStatusSeesWhatWorksAgainstAHook(t *testing.T) {
	for name, c := range map[string]struct {
		agent      string
		scope      clients.Scope
		file, text string
		want       string // "": nothing
	}{
		"switched off over the person's settings":   {"claude", clients.User, ".claude/settings.json", `{"disableAllHooks": true}`, "switches all hooks off"},
		"switched off below the stronger file":      {"claude", clients.Project, ".claude/settings.json", `{"disableAllHooks": true}`, ""},
		"switched off below the machine's settings": {"claude", clients.Managed, ".claude/settings.json", `{"disableAllHooks": true}`, ""},
		"switched off for Copilot":                  {"copilot", clients.Project, ".github/copilot/settings.json", `{"disableAllHooks": true}`, "switches all hooks off"},
		"a loader variable":                         {"claude", clients.Project, ".claude/settings.json", `{"env": {"LD_PRELOAD": "./x.so"}}`, "LD_PRELOAD"},
		"another ledger":                            {"claude", clients.Project, ".claude/settings.json", `{"env": {"REMIT_HOME": "./x"}}`, "REMIT_HOME"},
		"a harmless variable":                       {"claude", clients.Project, ".claude/settings.json", `{"env": {"CI": "1"}}`, ""},
		"the entries are gone":                      {"claude", clients.Project, ".claude/settings.local.json", `{}`, "entries in"},
		"one entry is gone":                         {"gemini", clients.Project, ".gemini/settings.json", `{"hooks": {}}`, "3 of 3 entries"},
		"the feature is off in the project":         {"codex", clients.Project, ".codex/config.toml", "[features]\nhooks = false\n", "switches all hooks off (features.hooks)"},
		"the feature's older name":                  {"codex", clients.User, ".codex/config.toml", "features.codex_hooks = false\n", "features.codex_hooks"},
		"the feature is off for the person":         {"codex", clients.User, "../home/.codex/config.toml", "[features]\nhooks = false\n", "home/.codex/config.toml switches all hooks off"},
		"the feature is on":                         {"codex", clients.User, ".codex/config.toml", "[features]\nhooks = true\n", ""},
		"the feature is pinned for the machine":     {"codex", clients.Managed, ".codex/config.toml", "[features]\nhooks = false\n", ""},
		"the machine's settings unpin it":           {"codex", clients.Managed, "../root/etc/codex/requirements.toml", "[features]\nhooks = false\n", "5 of 5 entries"},
		"TOML that cannot be read":                  {"codex", clients.Project, ".codex/config.toml", "[", "not valid TOML"},
		"it cannot be read":                         {"claude", clients.Project, ".claude/settings.json", `{`, "not valid JSON"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			if _, err := d.install(c.agent, c.scope); err != nil {
				t.Fatal(err)
			}
			d.write(c.file, c.text)
			list, err := d.Status(c.agent)
			if err != nil || len(list) != 1 {
				t.Fatalf("%+v, %v", list, err)
			}
			problems := strings.Join(list[0].Problems, "; ")
			if (c.want == "") != (problems == "") || !strings.Contains(problems, c.want) || list[0].Held() {
				t.Errorf("problems %q, held %v", problems, list[0].Held())
			}
		})
	}
	d := newDesk(t)
	if _, err := d.install("claude", clients.Project); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(d.Exe); err != nil {
		t.Fatal(err)
	}
	if list, err := d.Status(""); err != nil || list[0].Present || !strings.Contains(strings.Join(list[0].Problems, ""), "program of the hook is gone") {
		t.Errorf("%+v, %v", list, err)
	}
}

// --mcp-only denies the agent's own tools, installs no hook, and keeps the owner's entries.
func TestMCPOnlyDeniesTheAgentsOwnTools(t *testing.T) {
	d := newDesk(t)
	text := "{\"permissions\": {\"deny\": [\"Bash\"], \"allow\": [\"Read\"]}}\n"
	file := d.write(".claude/settings.local.json", text)
	if _, err := d.install("claude", clients.Project); err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.Install(clients.Request{Agent: "claude", Scope: clients.Project, Folder: d.project, MCPOnly: true}); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil || strings.Contains(string(b), "remit hook") || strings.Count(string(b), `"Bash"`) != 1 {
		t.Errorf("%v\n%s", err, b)
	}
	for _, name := range []string{"Grep", "Glob", "NotebookEdit", "Task", "Agent", "Read", "WebFetch", "LS"} {
		if !strings.Contains(string(b), `"`+name+`"`) {
			t.Errorf("%s is not denied:\n%s", name, b)
		}
	}
	if _, _, err := d.Remove("claude", clients.Project, d.project); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(file); err != nil || string(b) != text {
		t.Errorf("%v\n%s", err, b)
	}
	if _, _, err := d.Install(clients.Request{Agent: "codex", Scope: clients.Project, Folder: d.project, MCPOnly: true}); err == nil {
		t.Error("codex has no list of denied tools")
	}
}

// Two hooks of one agent would both run, and the second would refuse what the first rewrote.
func TestOneHookForEachAgent(t *testing.T) {
	d := newDesk(t)
	if _, err := d.install("copilot", clients.Project); err != nil {
		t.Fatal(err)
	}
	for _, scope := range []clients.Scope{clients.User, clients.Managed} {
		if _, err := d.install("copilot", scope); err == nil || !strings.Contains(err.Error(), "both would run") {
			t.Errorf("%s: %v", scope, err)
		}
	}
	if _, err := d.install("claude", clients.User); err != nil {
		t.Errorf("another agent: %v", err)
	}
	if _, _, err := d.Remove("copilot", clients.Project, d.project); err != nil {
		t.Fatal(err)
	}
	if _, err := d.install("copilot", clients.User); err != nil {
		t.Error(err)
	}
}

// A canary fails where the hook answers anything but what it must.
func TestTheCanaryFailsWhereTheHookDoes(t *testing.T) {
	deny := `{"hookSpecificOutput":{"permissionDecision":"deny"}}`
	sandbox := `{"hookSpecificOutput":{"permissionDecision":"allow","updatedInput":{"command":"confined"}}}`
	for name, c := range map[string]struct {
		read, shell clients.Ran
		confined    [2]int // the status of what must be denied, and of what must be allowed
		want        string
	}{
		"it holds":                {clients.Ran{Out: deny}, clients.Ran{Out: sandbox}, [2]int{3, 0}, ""},
		"it is missing":           {clients.Ran{Status: 127, Err: "sh: not found"}, clients.Ran{}, [2]int{}, "status 127: sh: not found"},
		"it allows a key":         {clients.Ran{}, clients.Ran{Out: sandbox}, [2]int{3, 0}, "reading a key was not denied"},
		"it prints text":          {clients.Ran{Out: "no"}, clients.Ran{}, [2]int{}, "agents cannot read"},
		"it blocks by an error":   {clients.Ran{Status: 2, Err: "remit hook\nerror: E1 broken"}, clients.Ran{}, [2]int{}, "E1 broken"},
		"it does not confine":     {clients.Ran{Out: deny}, clients.Ran{}, [2]int{}, "does not send commands to the sandbox"},
		"the sandbox lets it":     {clients.Ran{Out: deny}, clients.Ran{Out: sandbox}, [2]int{0, 0}, "was not denied"},
		"the sandbox is broken":   {clients.Ran{Out: deny}, clients.Ran{Out: sandbox}, [2]int{5, 0}, "status 5"},
		"honest work is refused":  {clients.Ran{Out: deny}, clients.Ran{Out: sandbox}, [2]int{3, 3}, "status 3"},
		"every command is denied": {clients.Ran{Out: deny}, clients.Ran{Out: deny}, [2]int{}, "does not send commands to the sandbox"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			one, err := d.install("claude", clients.Project)
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			d.Run = func(_ context.Context, line, _ string, input []byte) (clients.Ran, error) {
				switch {
				case line == "confined":
					n++
					return clients.Ran{Status: c.confined[n-1]}, nil
				case line != one.Command:
					t.Errorf("ran %q", line)
				case strings.Contains(string(input), "SessionEnd"):
					return clients.Ran{}, nil
				case strings.Contains(string(input), `"Read"`):
					return c.read, nil
				}
				return c.shell, nil
			}
			p, err := d.Prove(t.Context(), one)
			if err != nil || p.OK != (c.want == "") || !strings.Contains(p.Detail, c.want) {
				t.Errorf("%+v, %v", p, err)
			}
			if list, err := d.Status("claude"); err != nil || list[0].Held() != (c.want == "") {
				t.Errorf("%+v, %v", list, err)
			}
		})
	}
}

// The cache of npx may be deleted at any time: agents get copies, and programs elsewhere stay where they are.
func TestProgramsOfACacheAreCopied(t *testing.T) {
	for folder, copied := range map[string]bool{
		".npm/_npx/0123/node_modules/@remit/linux-x64/bin": true, ".cache/pnpm/dlx/0123/node_modules/.bin": true, "bunx-0-remit@latest/node_modules": true,
		"xfs-1/dlx-22/node_modules": true, "lib/node_modules/@remit/linux-x64/bin": false, "my_npx/bin": false,
	} {
		d := newDesk(t)
		from, to := filepath.Join(filepath.Dir(d.project), folder), filepath.Join(d.Home.UserHome, ".local/bin")
		d.Exe, d.Hook = filepath.Join(from, "remit"), filepath.Join(from, "remit-hook")
		err := os.MkdirAll(from, 0o755)
		for _, name := range []string{d.Exe, d.Hook} {
			err = errors.Join(err, os.WriteFile(name, []byte("program "+filepath.Base(name)), 0o755))
		}
		if err != nil {
			t.Fatal(err)
		}
		d.UseCopies(to)
		one, err := d.install("claude", clients.Project)
		if !copied {
			to = from
		}
		if want := filepath.Join(to, "remit-hook") + " claude "; err != nil || !strings.HasPrefix(strings.ReplaceAll(one.Command, "'", ""), want) || (d.CopiesTo() != "") != copied {
			t.Errorf("%s: %q and copies to %q, %v; want %q", folder, one.Command, d.CopiesTo(), err, want)
		}
		for _, name := range []string{"remit", "remit-hook"} {
			at := filepath.Join(to, name)
			st, err := os.Stat(at)
			if err != nil || st.Mode() != 0o755 {
				t.Errorf("%s: %v, %v", at, st, err)
			}
			if b, err := os.ReadFile(at); err != nil || string(b) != "program "+name {
				t.Errorf("%s: %q, %v", at, b, err)
			}
		}
	}
}

// Without a copy that lasts, no agent is told to start the program.
func TestNoHookWithoutItsCopy(t *testing.T) {
	d := newDesk(t)
	d.Exe = filepath.Join(filepath.Dir(d.project), "_npx", "remit") // which is not there
	d.UseCopies(filepath.Join(d.Home.UserHome, ".local/bin"))
	if one, err := d.install("claude", clients.Project); err == nil {
		t.Errorf("installed %q", one.Command)
	}
	if _, err := os.Stat(filepath.Join(d.project, ".claude")); err == nil {
		t.Error("the agent's settings were written")
	}
}
