package e2e_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// confined is an agent that runs as a whole in the sandbox, by its ready policy.
type confined struct {
	agent   string
	hook    bool                                     // set up by remit init before
	model   func(w *world) *scripted                 // its attempts
	environ func(url string) []string                // of the person
	prepare func(t *testing.T, w *world, url string) // the person's login and settings
	args    []string                                 // of the program
	login   string                                   // what the model must be sent as authorization; "": not looked at
}

// run starts the agent by remit exec, and checks what it could do.
func (c confined) run(t *testing.T) {
	w, program := withSecrets(t, c.agent)
	if c.hook {
		setUpAgent(t, w, c.agent)
	}
	for _, one := range []string{"claude", "codex"} { // the attempts are at the settings of both
		w.mkdir(filepath.Join(filepath.Dir(w.workspace), "."+one))
	}
	s := c.model(w)
	logins := make(chan string, 1000)
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		select {
		case logins <- r.Header.Get("Authorization") + r.Header.Get("X-Goog-Api-Key") + r.Header.Get("X-Api-Key"):
		default:
		}
		s.ServeHTTP(rw, r)
	}))
	defer srv.Close()
	if c.prepare != nil {
		c.prepare(t, w, srv.URL)
	}
	before := w.listed(filepath.Join(filepath.Dir(w.workspace), "."+c.agent))
	out := s.start(t, w, c.environ(srv.URL), binary, append([]string{"exec", "--agent", c.agent, "--", program}, c.args...)...)
	s.check(t, w, out)
	if after := w.listed(filepath.Join(filepath.Dir(w.workspace), "."+c.agent)); after != before {
		t.Errorf("the person's own folder of the agent changed from\n%s\nto\n%s", before, after)
	}
	if login := <-logins; c.login != "" && !strings.Contains(login, c.login) {
		t.Errorf("the model was sent the login %q, not %q", login, c.login)
	}
	if c.hook {
		var runs struct{ Items []struct{ Name string } }
		decode(t, w.must(0, "runs", "--json"), &runs)
		found := false
		for _, r := range runs.Items {
			found = found || strings.HasPrefix(r.Name, c.agent+" ")
		}
		if !found {
			t.Errorf("no tool call of the confined agent was recorded: %+v", runs)
		}
	}
}

// listed is the names and contents of a folder.
func (w *world) listed(dir string) string {
	w.t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(dir, func(p string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		src, err := os.ReadFile(p)
		fmt.Fprintf(&b, "%s %q\n", p, src)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// Claude Code in the sandbox finds its login, does its work and reaches no secret: with its hook,
// which records each call, and without.
func TestRealAgentConfinedClaude(t *testing.T) {
	for _, hook := range []bool{true, false} {
		t.Run(fmt.Sprintf("hook=%t", hook), func(t *testing.T) {
			confined{
				agent: "claude", hook: hook, login: "Bearer sk-ant-oat01-LOGIN",
				model: func(w *world) *scripted {
					file := func(name string) string { return filepath.Join(w.workspace, name) }
					return &scripted{attempts: append(shellAttempts(func(script string) attempt {
						return attempt{name: "Bash", input: map[string]any{"command": script, "description": "x"}}
					}),
						attempt{"Read", map[string]any{"file_path": file(".env")}, ""},
						attempt{"Grep", map[string]any{"pattern": "TOKEN", "path": w.workspace, "output_mode": "content"}, ""},
						attempt{"Write", map[string]any{"file_path": file(".git/hooks/pre-commit"), "content": "evil"}, ""},
						attempt{"Bash", map[string]any{"command": "echo evil > " + file("../.claude/settings.json"), "description": "x"}, ""},
						attempt{"Read", map[string]any{"file_path": file("src/app.py")}, "hello from the app"},
						attempt{"Edit", map[string]any{"file_path": file("src/app.py"), "old_string": "hello", "new_string": "greetings"}, "has been updated"},
					), count: claudeResults, answer: claudeTurn}
				},
				prepare: func(_ *testing.T, w *world, _ string) {
					w.write("../.claude/.credentials.json", `{"claudeAiOauth":{"accessToken":"sk-ant-oat01-LOGIN","refreshToken":"sk-ant-ort01-x","expiresAt":4102444800000,"scopes":["user:inference"],"subscriptionType":"max"}}`)
				},
				environ: func(url string) []string {
					return []string{"ANTHROPIC_BASE_URL=" + url, "DISABLE_TELEMETRY=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1", "IS_SANDBOX=1"}
				},
				args: []string{"-p", "go", "--dangerously-skip-permissions"},
			}.run(t)
		})
	}
}

// So does Codex, whose own sandbox is switched off: it cannot start inside this one.
func TestRealAgentConfinedCodex(t *testing.T) {
	for _, hook := range []bool{true, false} {
		t.Run(fmt.Sprintf("hook=%t", hook), func(t *testing.T) {
			confined{
				agent: "codex", hook: hook,
				model: func(*world) *scripted {
					return &scripted{attempts: shellAttempts(func(script string) attempt {
						return attempt{name: "exec_command", input: map[string]any{"cmd": script}}
					}), count: codexResults, answer: codexTurn}
				},
				prepare: codexSettings,
				environ: func(url string) []string { return []string{"OPENAI_BASE_URL=" + url} },
				args:    []string{"exec", "--dangerously-bypass-hook-trust", "--dangerously-bypass-approvals-and-sandbox", "--skip-git-repo-check", "go"},
			}.run(t)
		})
	}
}

func geminiModel(w *world) *scripted {
	file := func(name string) string { return filepath.Join(w.workspace, name) }
	return &scripted{attempts: append(shellAttempts(func(script string) attempt {
		return attempt{name: "run_shell_command", input: map[string]any{"command": script, "description": "x"}}
	}),
		attempt{"read_file", map[string]any{"file_path": file(".env")}, ""},
		attempt{"write_file", map[string]any{"file_path": file(".git/hooks/pre-commit"), "content": "evil"}, ""},
		attempt{"read_file", map[string]any{"file_path": file("src/app.py")}, "hello from the app"},
		attempt{"write_file", map[string]any{"file_path": file("src/new.py"), "content": "print(1)\n"}, "uccessfully"},
	), count: geminiResults, answer: geminiTurn}
}

func geminiEnviron(url string) []string {
	return []string{"GEMINI_API_KEY=KEY-OF-GEMINI", "GOOGLE_GEMINI_BASE_URL=" + url, "GEMINI_MODEL=gemini-2.5-pro", "GEMINI_CLI_TRUST_WORKSPACE=true"}
}

func geminiSettings(_ *testing.T, w *world, _ string) {
	w.write("../.gemini/settings.json", `{"security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false}}`)
}

// Gemini CLI with its hook, as remit init installs it.
func TestRealAgentGemini(t *testing.T) {
	w, program := hunted(t, "gemini")
	s := geminiModel(w)
	srv := httptest.NewServer(s)
	defer srv.Close()
	geminiSettings(t, w, "")
	s.check(t, w, s.start(t, w, geminiEnviron(srv.URL), program, "--approval-mode", "yolo", "-p", "go"))
}

// Gemini CLI in the sandbox.
func TestRealAgentConfinedGemini(t *testing.T) {
	for _, hook := range []bool{true, false} {
		t.Run(fmt.Sprintf("hook=%t", hook), func(t *testing.T) {
			confined{
				agent: "gemini", hook: hook, login: "KEY-OF-GEMINI", model: geminiModel, prepare: geminiSettings, environ: geminiEnviron,
				args: []string{"--approval-mode", "yolo", "-p", "go"},
			}.run(t)
		})
	}
}

func geminiResults(body map[string]any) (out []string) {
	contents, _ := body["contents"].([]any)
	for _, c := range contents {
		one, _ := c.(map[string]any)
		parts, _ := one["parts"].([]any)
		for _, p := range parts {
			part, _ := p.(map[string]any)
			if r, ok := part["functionResponse"].(map[string]any); ok {
				out = append(out, fmt.Sprint(r["response"]))
			}
		}
	}
	return out
}

func geminiTurn(n int, a *attempt) []sse {
	part := map[string]any{"text": "done"}
	if a != nil {
		part = map[string]any{"functionCall": map[string]any{"id": fmt.Sprintf("c%d", n), "name": a.name, "args": a.input}}
	}
	return []sse{{"", map[string]any{
		"candidates":    []any{map[string]any{"index": 0, "finishReason": "STOP", "content": map[string]any{"role": "model", "parts": []any{part}}}},
		"usageMetadata": map[string]any{"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
	}}}
}

// OpenCode in the sandbox, with the key of its own login file. It has no hook of Remit's.
func TestRealAgentConfinedOpenCode(t *testing.T) {
	confined{
		agent: "opencode", login: "KEY-OF-LOGIN",
		model: func(w *world) *scripted {
			file := func(name string) string { return filepath.Join(w.workspace, name) }
			return &scripted{attempts: append(shellAttempts(func(script string) attempt {
				return attempt{name: "bash", input: map[string]any{"command": script, "description": "x"}}
			}),
				attempt{"read", map[string]any{"filePath": file(".env")}, ""},
				attempt{"write", map[string]any{"filePath": file(".git/hooks/pre-commit"), "content": "evil"}, ""},
				attempt{"read", map[string]any{"filePath": file("src/app.py")}, "hello from the app"},
				attempt{"write", map[string]any{"filePath": file("src/new.py"), "content": "print(1)\n"}, "uccess"},
			), count: claudeResults, answer: claudeTurn}
		},
		prepare: opencodeSettings,
		environ: opencodeEnviron,
		args:    opencodeArgs,
	}.run(t)
}

var opencodeArgs = []string{"run", "-m", "anthropic/claude-sonnet-4-5", "go"}

func opencodeEnviron(url string) []string {
	return []string{"ANTHROPIC_BASE_URL=" + url + "/v1", "OPENCODE_DISABLE_MODELS_FETCH=1", "OPENCODE_DISABLE_AUTOUPDATE=1"}
}

// opencodeSettings are a person's login and settings.
func opencodeSettings(t *testing.T, w *world, url string) {
	t.Helper()
	w.write("../.local/share/opencode/auth.json", `{"anthropic": {"type": "api", "key": "KEY-OF-LOGIN"}}`)
	settings, err := json.Marshal(map[string]any{
		"permission": "allow", "autoupdate": false, "share": "disabled",
		"provider": map[string]any{"anthropic": map[string]any{"options": map[string]any{"baseURL": url + "/v1"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	w.write("../.config/opencode/opencode.json", string(settings))
}
