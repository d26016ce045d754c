package clients_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/service/clients"
)

const claudesLogin = `{"claudeAiOauth": {"accessToken": "REAL-access", "refreshToken": "REAL-refresh", "expiresAt": 32503680000000}}`

// secretsAt are the credentials for a request of a confined agent.
func (d *desk) secretsAt(p *policy.Policy, t tool.Target) []policy.Secret {
	d.t.Helper()
	r, err := p.Bind(d.Home.Env(d.project))
	if err != nil {
		d.t.Fatal(err)
	}
	list, err := policy.Chain{r}.Secrets(t)
	if err != nil {
		d.t.Fatal(err)
	}
	return list
}

// Each agent, with each set of its variables and logins, gets placeholders alone. A request with a placeholder gets the key of that
// variable or login, and only at the key's own host.
func TestKeysStayOutside(t *testing.T) {
	for _, name := range profile.AgentNames() {
		a, err := profile.FindAgent(name)
		if err != nil {
			t.Fatal(err)
		}
		d := newDesk(t)
		for set := range 1 << len(a.Keys) {
			for _, made := range []string{d.Home.UserHome, filepath.Join(d.Home.Env("").State, "confined")} {
				if err := os.RemoveAll(made); err != nil {
					t.Fatal(err)
				}
			}
			vars, want := map[string]string{}, 0
			for i, k := range a.Keys {
				switch {
				case set&(1<<i) == 0:
				case k.Login == "claude":
					d.put(filepath.Join(d.Home.UserHome, ".claude/.credentials.json"), claudesLogin, 0o600)
					want++
				case k.Login == "codex":
					d.put(filepath.Join(d.Home.UserHome, ".codex/auth.json"), `{"tokens": {"access_token": "REAL-access", "refresh_token": "REAL-refresh", "id_token": "a.b.REAL-signature"}}`, 0o600)
					want++
				default:
					vars[k.Variable] = "REAL-" + k.Variable
					want++
				}
			}
			d.Home.Lookup = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
			c, err := d.Confine(name, name, d.project, true)
			if err != nil {
				t.Fatal(err)
			}
			for v, text := range c.Env {
				if strings.Contains(text, "REAL") && !(name == "aider" && v == "GEMINI_API_KEY") {
					t.Errorf("%s, set %b: %s=%s", name, set, v, text)
				}
			}
			_ = filepath.WalkDir(c.Home, func(p string, _ os.DirEntry, _ error) error {
				if b, err := os.ReadFile(p); err == nil && strings.Contains(string(b), "REAL") {
					t.Errorf("%s, set %b: %s has %s", name, set, p, b)
				}
				return nil
			})
			if strings.Contains(string(c.Policy.Source()), "REAL") {
				t.Errorf("%s, set %b: the policy has a key", name, set)
			}
			for i, k := range a.Keys {
				has := 0
				for _, s := range d.secretsAt(c.Policy, tool.Target{Method: "POST", Scheme: "https", Host: k.Host, Port: 443, Path: "/v1/x"}) {
					mine := s.Env == k.Variable && s.Login == k.Login && !s.None
					switch {
					case !s.None && s.InsteadOf == "", want == 0, s.None && strings.EqualFold(s.Header, k.Header) && set&(1<<i) != 0:
						t.Errorf("%s, set %b: %+v", name, set, s)
					case mine && k.Login != "" && !d.agentHas(c, s.InsteadOf), mine && k.Login == "" && c.Env[k.Variable] != s.InsteadOf:
						t.Errorf("%s, set %b: the agent has not the placeholder of %+v", name, set, s)
					case mine:
						has++
					}
				}
				if wants := set >> i & 1; has != wants {
					t.Errorf("%s, set %b: %d entries for %s%s\n%s", name, set, has, k.Variable, k.Login, c.Policy.Source())
				}
				if got := d.secretsAt(c.Policy, tool.Target{Method: "POST", Scheme: "https", Host: k.Host + ".example", Port: 443, Path: "/v1/x"}); len(got) > 0 {
					t.Errorf("%s: %+v for another host", name, got)
				}
			}
		}
	}
}

// agentHas reports whether a file in the agent's home has a text.
func (d *desk) agentHas(c clients.Confined, text string) (found bool) {
	_ = filepath.WalkDir(c.Home, func(p string, _ os.DirEntry, _ error) error {
		b, err := wholefile.ReadRegular(p, 1<<20)
		found = found || err == nil && strings.Contains(string(b), text)
		return nil
	})
	return found
}

// Keys go to the host in ANTHROPIC_BASE_URL, over TLS or on this machine. For other hosts the sandbox holds the key.
func TestKeysGoToTheNamedHost(t *testing.T) {
	for url, hidden := range map[string]bool{
		"https://gateway.example/v1": true, "https://api.anthropic.com:443": true, "https://API.anthropic.com/": true, "http://127.0.0.1:4000": true, "http://localhost:4000/": true, "http://[::1]:4000": true,
		"http://gateway.example": false, "http://10.0.0.5:4000": false,
	} {
		d := newDesk(t)
		vars := map[string]string{"ANTHROPIC_BASE_URL": url, "ANTHROPIC_API_KEY": "REAL-key"}
		d.Home.Lookup = func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
		c, err := d.Confine("claude", "claude", d.project, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Env["ANTHROPIC_API_KEY"]; (got == "REAL-key") == hidden || (len(c.Exposed) == 0) != hidden {
			t.Errorf("%s: the agent has %s, inside %v", url, got, c.Exposed)
		}
		for _, s := range d.secretsAt(c.Policy, tool.Target{Method: "POST", Scheme: "https", Host: "api.anthropic.com", Port: 443, Path: "/v1/x"}) {
			if !s.None && !strings.Contains(strings.ToLower(url), "api.anthropic.com") {
				t.Errorf("%s: the key of another host goes to api.anthropic.com: %+v", url, s)
			}
		}
	}
}

// A login that the agent made itself stays while the person has none, and no longer.
func TestALoginOfTheAgentsOwn(t *testing.T) {
	d := newDesk(t)
	c, err := d.Confine("claude", "claude", d.project, true)
	if err != nil {
		t.Fatal(err)
	}
	own := filepath.Join(c.Home, ".claude/.credentials.json")
	content := func() string {
		if _, err := d.Confine("claude", "claude", d.project, true); err != nil {
			t.Fatal(err)
		}
		b, _ := os.ReadFile(own)
		return string(b)
	}
	if !strings.Contains(string(c.Policy.Source()), "platform.claude.com") || strings.Contains(string(c.Policy.Source()), "instead_of") {
		t.Error("without a login, the agent cannot log in")
	}
	d.put(own, "of the agent", 0o600)
	if got := content(); got != "of the agent" {
		t.Errorf("it is gone: %s", got)
	}
	login := filepath.Join(d.Home.UserHome, ".claude/.credentials.json")
	d.put(login, claudesLogin, 0o600)
	if got := content(); !strings.Contains(got, "accessToken") || strings.Contains(got, "REAL") {
		t.Errorf("it is not the person's: %s", got)
	}
	if err := os.Remove(login); err != nil {
		t.Fatal(err)
	}
	if got := content(); got != "" {
		t.Errorf("a placeholder is left: %s", got)
	}
	if err := os.Symlink(login, own); err != nil { // as older versions made it
		t.Fatal(err)
	}
	if content(); func() bool { _, err := os.Lstat(own); return err == nil }() {
		t.Error("a link to the login is left")
	}
}

// Under another policy the agent has its keys and its login itself, as the policy says nothing of them, and the person is told.
func TestUnderAnotherPolicyKeysAreInside(t *testing.T) {
	d := newDesk(t)
	login := filepath.Join(d.Home.UserHome, ".claude/.credentials.json")
	d.put(login, claudesLogin, 0o600)
	d.Home.Lookup = func(name string) (string, bool) { return "REAL-key", name == "ANTHROPIC_API_KEY" }
	for _, ready := range []bool{true, false, true} {
		c, err := d.Confine("claude", "claude", d.project, ready)
		if err != nil {
			t.Fatal(err)
		}
		to, _ := os.Readlink(filepath.Join(c.Home, ".claude/.credentials.json"))
		if (to == login) == ready || (c.Env["ANTHROPIC_API_KEY"] == "REAL-key") == ready || (len(c.Exposed) == 0) != ready {
			t.Errorf("ready %v: %v, a link to %q, inside %v", ready, c.Env, to, c.Exposed)
		}
	}
}

// Keys in the agent's own settings go on working: requests with them are not refused.
func TestKeysInSettings(t *testing.T) {
	for text, own := range map[string]bool{`{"env": {"ANTHROPIC_API_KEY": "sk-x"}}`: true, `{"apiKeyHelper": "pass show key"}`: true, `{"model": "opus"}`: false, `env_key = "OPENAI_API_KEY"`: false} {
		d := newDesk(t)
		d.put(filepath.Join(d.Home.UserHome, ".claude/.credentials.json"), claudesLogin, 0o600)
		d.put(filepath.Join(d.Home.UserHome, ".claude/settings.json"), text, 0o600)
		c, err := d.Confine("claude", "claude", d.project, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(c.Policy.Source()), "none: true"); got == own {
			t.Errorf("%s: other keys are refused: %v", text, got)
		}
	}
}

// A file of the login that is damaged, or cannot be read, ends the start: the person would take the agent for logged out.
func TestADamagedLogin(t *testing.T) {
	d := newDesk(t)
	d.put(filepath.Join(d.Home.UserHome, ".claude/.credentials.json"), "{", 0o600)
	if _, err := d.Confine("claude", "claude", d.project, true); err == nil || !strings.Contains(err.Error(), ".credentials.json") {
		t.Errorf("%v", err)
	}
}

// FIFOs, links, folders and large files in the agent's home do not stop the next start: it writes the placeholder, and nothing outside.
func TestAHomeFullOfTraps(t *testing.T) {
	victim := t.TempDir()
	traps := map[string]func(at string) error{
		"a FIFO":            func(at string) error { return unix.Mkfifo(at, 0o600) },
		"a link":            func(at string) error { return os.Symlink(victim, at) },
		"a link to nothing": func(at string) error { return os.Symlink(filepath.Join(victim, "x"), at) },
		"a folder":          func(at string) error { return os.MkdirAll(filepath.Join(at, "x"), 0o700) },
		"a file":            func(at string) error { return os.WriteFile(at, []byte("x"), 0) },
		"a large file": func(at string) error {
			return errors.Join(os.WriteFile(at, nil, 0o600), os.Truncate(at, 1<<40))
		},
	}
	for name, trap := range traps {
		for _, at := range []string{".claude/.credentials.json", ".claude/.credentials.json.new", ".claude", ".claude/settings.json"} {
			d := newDesk(t)
			d.put(filepath.Join(d.Home.UserHome, ".claude/.credentials.json"), claudesLogin, 0o600)
			d.put(filepath.Join(d.Home.UserHome, ".claude/settings.json"), "{}", 0o600)
			own := filepath.Join(d.Home.Env("").State, "confined", "claude")
			if err := errors.Join(os.MkdirAll(filepath.Dir(filepath.Join(own, at)), 0o700), trap(filepath.Join(own, at))); err != nil {
				if strings.Contains(err.Error(), "file too large") {
					continue
				}
				t.Fatal(err)
			}
			c, err := d.Confine("claude", "claude", d.project, true)
			if err != nil || !d.agentHas(c, "login-of-claude-kept-outside") {
				t.Errorf("%s at %s: %v", name, at, err)
			}
			if list, err := os.ReadDir(victim); err != nil || len(list) > 0 {
				t.Errorf("%s at %s: outside there is %v, %v", name, at, list, err)
			}
		}
	}
}

// A file that the agent writes does not open its hosts for the keys of others.
func TestTheAgentCannotAllowOtherKeys(t *testing.T) {
	d := newDesk(t)
	d.Home.Lookup = func(name string) (string, bool) { return "REAL-key", name == "ANTHROPIC_API_KEY" }
	d.put(filepath.Join(d.Home.Env("").State, "confined", "claude", ".claude/.credentials.json"), claudesLogin, 0o600)
	c, err := d.Confine("claude", "claude", d.project, true)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{"api.anthropic.com", "platform.claude.com", "console.anthropic.com"} {
		refused := false
		for _, s := range d.secretsAt(c.Policy, tool.Target{Method: "POST", Scheme: "https", Host: host, Port: 443, Path: "/v1/x"}) {
			refused = refused || s.None && s.Header == "Authorization"
		}
		if !refused {
			t.Errorf("%s takes other logins", host)
		}
	}
}
