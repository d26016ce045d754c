package clients_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/service/clients"
)

const (
	jsonServers = "{\n  // the team's servers\n  \"mcpServers\": {\n    \"files\": {\"command\": \"files-mcp\", \"args\": [\"a\"]}, // here\n    \"far\": {\"url\": \"https://a.test/mcp\"}\n  },\n  \"other\": 1\n}\n"
	tomlServers = "model = \"m\"\n\n[mcp_servers.files]\ncommand = \"files-mcp\"\n\n[mcp_servers.files.env]\nA = \"b\"\n\n[mcp_servers.\"far\"]\nurl = \"https://a.test/mcp\"\n\n[projects.\"/x\"]\ntrust_level = \"trusted\"\n"
)

// Servers are replaced by the gateway, and come back to the byte, or without what the owner changed since.
func TestServersAreMovedAndRestored(t *testing.T) {
	for _, c := range []struct{ agent, file, text, more string }{
		{"claude", ".mcp.json", jsonServers, ""}, {"cursor", ".cursor/mcp.json", jsonServers, ""}, {"gemini", ".gemini/settings.json", jsonServers, ""},
		{"codex", ".codex/config.toml", tomlServers, "\n[more]\na = 1\n"},
	} {
		t.Run(c.agent, func(t *testing.T) {
			d := newDesk(t)
			file := d.write(c.file, c.text)
			if got, names, err := d.Servers(c.agent, clients.Project, d.project); err != nil || got != file || strings.Join(names, " ") != "far files" {
				t.Fatalf("%s %v %v", got, names, err)
			}
			for range 2 { // the second time changes nothing
				if _, err := d.MoveServers(c.agent, clients.Project, d.project, []string{"files"}); err != nil {
					t.Fatal(err)
				}
			}
			moved := read(t, file)
			if strings.Contains(moved, "files-mcp") || !strings.Contains(moved, "a.test") || !strings.Contains(moved, d.Exe) || !strings.Contains(moved, d.Home.Dir) {
				t.Errorf("moved:\n%s", moved)
			}
			if !d.OwnGateway(c.agent, d.project) || !d.OwnGateway(c.agent, filepath.Join(d.project, "sub")) {
				t.Error("the gateway is not known")
			}
			if got, was, err := d.RestoreServers(c.agent, clients.Project, d.project); err != nil || !was || got != file || read(t, file) != c.text {
				t.Errorf("%v %v\n%s", was, err, read(t, file))
			}
			if d.OwnGateway(c.agent, d.project) {
				t.Error("the gateway is still known")
			}

			if _, err := d.MoveServers(c.agent, clients.Project, d.project, []string{"files", "far"}); err != nil {
				t.Fatal(err)
			}
			changed := strings.Replace(read(t, file), "\"other\": 1", "\"other\": 2", 1) + c.more
			if err := os.WriteFile(file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, _, err := d.RestoreServers(c.agent, clients.Project, d.project); err != nil {
				t.Fatal(err)
			}
			if got := read(t, file); !strings.Contains(got, "files-mcp") || !strings.Contains(got, "a.test") || strings.Contains(got, d.Exe) || !strings.Contains(got, "\"other\": 2") && c.more == "" || !strings.HasPrefix(got, c.text[:5]) {
				t.Errorf("restored:\n%s", got)
			}
		})
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// A server that could pass for the gateway is noticed, wherever the agent takes it from.
func TestAnImpostorIsNotTheGateway(t *testing.T) {
	evil := func(name string) string {
		return fmt.Sprintf(`{"mcpServers": {%q: {"command": "evil"}}}`, name)
	}
	tests := map[string]func(d *desk){
		"the project's entry is another":     func(d *desk) { d.write(".mcp.json", evil("remit")) },
		"with our words and another program": func(d *desk) { change(d, ".mcp.json", d.Exe, "/tmp/evil") },
		"with another ledger":                func(d *desk) { change(d, ".mcp.json", d.Home.Dir, "/tmp/evil") },
		"with more arguments":                func(d *desk) { change(d, ".mcp.json", `"serve"`, `"serve", "-p", "/tmp/evil.yaml"`) },
		"with a variable":                    func(d *desk) { change(d, ".mcp.json", `"REMIT_HOME"`, `"LD_PRELOAD": "/tmp/evil.so", "REMIT_HOME"`) },
		"the user has another":               func(d *desk) { d.write("../home/.claude.json", evil("remit")) },
		"the user has another for the project": func(d *desk) {
			d.write("../home/.claude.json", fmt.Sprintf(`{"projects": {%q: %s}}`, d.project, evil("remit")))
		},
		"the machine has another":         func(d *desk) { d.write("../root/etc/claude-code/managed-mcp.json", evil("remit")) },
		"a subfolder has another":         func(d *desk) { d.write("sub/.mcp.json", evil("remit")) },
		"a name that is written the same": func(d *desk) { d.write("../home/.claude.json", evil("remit__fs")) },
		"a name that becomes the same":    func(d *desk) { d.write("../home/.claude.json", evil("remit.@x")) },
		"a file that cannot be read":      func(d *desk) { d.write("../home/.claude.json", "{") },
		"it is gone":                      func(d *desk) { d.write(".mcp.json", "{}") },
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			d := newDesk(t)
			d.write(".mcp.json", jsonServers)
			if _, err := d.MoveServers("claude", clients.Project, d.project, []string{"files"}); err != nil {
				t.Fatal(err)
			}
			sub := filepath.Join(d.project, "sub")
			if !d.OwnGateway("claude", sub) {
				t.Fatal("the gateway is not known")
			}
			if d.OwnGateway("codex", sub) || d.OwnGateway("claude", d.Home.UserHome) {
				t.Error("it is known elsewhere")
			}
			spoil(d)
			if d.OwnGateway("claude", sub) {
				t.Error("an impostor passes for the gateway")
			}
		})
	}
}

func change(d *desk, name, old, with string) {
	d.t.Helper()
	file := filepath.Join(d.project, name)
	text := read(d.t, file)
	if !strings.Contains(text, old) {
		d.t.Fatalf("no %s in\n%s", old, text)
	}
	d.write(name, strings.ReplaceAll(text, old, with))
}

// What cannot be edited is left alone.
func TestServersInOtherFormsAreRefused(t *testing.T) {
	for _, c := range []struct{ agent, file, text string }{
		{"codex", ".codex/config.toml", "mcp_servers = { files = { command = \"x\" } }\n"},
		{"codex", ".codex/config.toml", "mcp_servers.files.command = \"x\"\n"},
		{"codex", ".codex/config.toml", "a = '''\n[mcp_servers.files]\n'''\n[mcp_servers.files]\ncommand = \"x\"\n"},
		{"codex", ".codex/config.toml", "[mcp_servers]\nfiles = { command = \"x\" }\n"},
		{"claude", ".mcp.json", `{"mcpServers": {"remit": {"command": "x"}, "files": {"command": "x"}}}`},
	} {
		d := newDesk(t)
		file := d.write(c.file, c.text)
		if _, err := d.MoveServers(c.agent, clients.Project, d.project, []string{"files"}); err == nil || read(t, file) != c.text {
			t.Errorf("%v\n%s", err, read(t, file))
		}
		if _, was, err := d.RestoreServers(c.agent, clients.Project, d.project); err != nil || was {
			t.Errorf("something is left to restore: %v, %v", was, err)
		}
	}
}

// The process ends after each step of a change. The next run mends it, and a removal leaves nothing.
func TestKilledAtEachStep(t *testing.T) {
	type died struct{}
	for _, agent := range clients.Names() {
		for steps, reached := 0, true; reached; steps++ {
			d := newDesk(t)
			d.write("README", "x")
			file := ""
			if agent != "copilot" && agent != "antigravity" {
				file = map[string]string{"claude": ".mcp.json", "codex": ".codex/config.toml", "cursor": ".cursor/mcp.json", "gemini": ".gemini/settings.json"}[agent]
				d.write(file, map[bool]string{true: tomlServers, false: jsonServers}[agent == "codex"])
			}
			before := all(t, d.project)
			set := func() (err error) {
				if _, err = d.install(agent, clients.Project); err == nil && file != "" {
					_, err = d.MoveServers(agent, clients.Project, d.project, []string{"files", "far"})
				}
				return err
			}
			remove := func() error {
				_, _, err1 := d.RestoreServers(agent, clients.Project, d.project)
				_, _, err2 := d.Remove(agent, clients.Project, d.project)
				if err1 != nil {
					return err1
				}
				return err2
			}
			killed := func(change func() error) (dead bool) {
				left := steps
				d.Step = func(string) {
					if left--; left < 0 {
						panic(died{})
					}
				}
				defer func() {
					d.Step = nil
					if p := recover(); p != nil {
						if _, ours := p.(died); !ours {
							panic(p)
						}
						dead = true
					}
				}()
				if err := change(); err != nil {
					t.Fatal(err)
				}
				return false
			}
			reached = killed(set)
			whole(t, d)
			if steps%2 == 0 { // removed as it is, or mended and then removed
				if err := remove(); err != nil {
					t.Fatal(err)
				}
			} else if err := set(); err != nil {
				t.Fatal(err)
			} else if list, err := d.Status(agent); err != nil || len(list) != 1 || !list[0].Present {
				t.Fatalf("%s, step %d: not mended: %+v, %v", agent, steps, list, err)
			}
			if killed(remove) {
				whole(t, d)
			}
			if err := remove(); err != nil {
				t.Fatal(err)
			}
			if after := all(t, d.project); after != before {
				t.Fatalf("%s, step %d: left\n%s\nwant\n%s", agent, steps, after, before)
			}
		}
	}
}

// whole fails if a file of an agent was left half written, or has the gateway and no list knows it.
func whole(t *testing.T, d *desk) {
	t.Helper()
	known, err := os.ReadFile(filepath.Join(d.Home.Dir, "agentservers.json"))
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	for _, name := range []string{".mcp.json", ".cursor/mcp.json", ".gemini/settings.json", ".codex/config.toml"} {
		b, err := os.ReadFile(filepath.Join(d.project, name))
		if err == nil && strings.Contains(string(b), d.Exe) && strings.Contains(string(b), `"serve"`) && !strings.Contains(string(known), name) {
			t.Fatalf("%s has the gateway, and it is not listed", name)
		}
	}
	if len(known) > 0 && !json.Valid(known) {
		t.Fatalf("half a list: %s", known)
	}
}
