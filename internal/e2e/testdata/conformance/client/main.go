// Command client plays the client scenarios of the public MCP conformance suite through Remit: the
// server under the suite's eyes is added to Remit as a server elsewhere, and an ordinary client of
// the SDK uses it behind remit mcp serve. So the suite sees Remit's own client on the wire, and its
// OAuth is that of remit mcp login.
//
// The suite gives the server's URL as the last argument, and the scenario in the
// environment; REMIT names the remit to try.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

const policy = `version: 1
name: conformance
tools: {allow: ["mcp:c:*"]}
mcp: {elicitation: ask, sampling: ask, roots: ask}
`

// user is somebody with Remit of their own.
type user struct {
	ctx   context.Context
	dir   string
	url   string
	known map[string]any // what the suite tells of the scenario
}

func main() {
	log.SetFlags(0)
	dir, err := os.MkdirTemp("", "remit-conformance-")
	if err != nil {
		log.Fatal(err)
	}
	ctx, stop := context.WithTimeout(context.Background(), 80*time.Second)
	u := &user{ctx: ctx, dir: dir, url: os.Args[len(os.Args)-1]}
	err = u.play(os.Getenv("MCP_CONFORMANCE_SCENARIO"))
	stop()
	if err := os.RemoveAll(dir); err != nil {
		log.Print(err)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func (u *user) play(scenario string) error {
	_ = json.Unmarshal([]byte(os.Getenv("MCP_CONFORMANCE_CONTEXT")), &u.known) // most have none
	for name, text := range map[string]string{"home/config.yaml": "ledger: {durability: process}\n", "work/x": "", "policy.yaml": policy} {
		file := filepath.Join(u.dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			return err
		}
	}
	if out, err := u.remit("mcp", "add", "c", "--url", u.url, "--asks", "elicitation,sampling,roots").CombinedOutput(); err != nil {
		return fmt.Errorf("mcp add: %w\n%s", err, out)
	}
	if strings.HasPrefix(scenario, "auth/") {
		return u.authorised()
	}
	do := scenarios[scenario]
	if do == nil {
		return fmt.Errorf("no scenario %q", scenario)
	}
	return u.session(func(cs *mcp.ClientSession) error { return do(u, cs) })
}

func (u *user) remit(args ...string) *exec.Cmd {
	c := exec.CommandContext(u.ctx, os.Getenv("REMIT"), args...)
	c.Env = []string{"HOME=" + u.dir, "REMIT_HOME=" + filepath.Join(u.dir, "home"), "USER=ann", "PATH=/usr/local/bin:/usr/bin:/bin", "NO_COLOR=1"}
	return c
}

// session uses the server behind the gateway.
func (u *user) session(do func(cs *mcp.ClientSession) error) error {
	cmd := u.remit("mcp", "serve", "--server", "c", "-p", filepath.Join(u.dir, "policy.yaml"), "-w", filepath.Join(u.dir, "work"))
	cmd.Stderr = os.Stderr
	client := mcp.NewClient(&mcp.Implementation{Name: "conformance", Version: "1"}, &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, r *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			content := map[string]any{}
			if b, err := json.Marshal(r.Params.RequestedSchema); err == nil && strings.Contains(string(b), `"confirmed"`) {
				content["confirmed"] = true
			}
			return &mcp.ElicitResult{Action: "accept", Content: content}, nil
		},
	})
	cs, err := client.Connect(u.ctx, &mcp.CommandTransport{Command: cmd, TerminateDuration: 20 * time.Second}, nil)
	if err != nil {
		return err
	}
	return errors.Join(do(cs), cs.Close())
}

// call calls a tool; the suite checks the outcome.
func (u *user) call(cs *mcp.ClientSession, name string, args map[string]any) (text string, err error) {
	res, err := cs.CallTool(u.ctx, &mcp.CallToolParams{Name: name, Arguments: args})
	if err != nil {
		log.Printf("%s: %v", name, err)
		return err.Error(), err
	}
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text += t.Text
		}
	}
	if res.IsError {
		log.Printf("%s: %s", name, text)
		return text, nil
	}
	return "", nil
}

var scenarios = map[string]func(*user, *mcp.ClientSession) error{
	"initialize":                          listed,
	"request-metadata":                    listed,
	"json-schema-ref-no-deref":            listed,
	"tools_call":                          calls("add_numbers", map[string]any{"a": 5, "b": 3}),
	"sse-retry":                           calls("test_reconnection", nil),
	"elicitation-sep1034-client-defaults": calls("test_client_elicitation_defaults", nil),
	"sep-2322-client-request-state": func(u *user, cs *mcp.ClientSession) error {
		for _, name := range []string{"test_mrtr_echo_state", "test_mrtr_no_state", "test_mrtr_unrelated", "test_mrtr_no_result_type"} {
			_, _ = u.call(cs, name, nil) // some are refused, as they should be
		}
		return nil
	},
	"json-schema-2020-12-preservation": func(u *user, cs *mcp.ClientSession) error {
		tools, err := cs.ListTools(u.ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range tools.Tools {
			if t.Name == "json_schema_2020_12_tool" {
				_, err = u.call(cs, "json_schema_echo", map[string]any{"schema": t.InputSchema})
			}
		}
		return err
	},
	"http-standard-headers": func(u *user, cs *mcp.ClientSession) error {
		if tools, err := cs.ListTools(u.ctx, nil); err == nil && len(tools.Tools) > 0 {
			_, _ = u.call(cs, tools.Tools[0].Name, nil)
		}
		if r, err := cs.ListResources(u.ctx, nil); err == nil && len(r.Resources) > 0 {
			_, err = cs.ReadResource(u.ctx, &mcp.ReadResourceParams{URI: r.Resources[0].URI})
			log.Print(err)
		}
		if p, err := cs.ListPrompts(u.ctx, nil); err == nil && len(p.Prompts) > 0 {
			_, err = cs.GetPrompt(u.ctx, &mcp.GetPromptParams{Name: p.Prompts[0].Name})
			log.Print(err)
		}
		return nil
	},
	"http-custom-headers": func(u *user, cs *mcp.ClientSession) error {
		raw, _ := json.Marshal(u.known["toolCalls"])
		var all []struct {
			Name      string         `json:"name"`
			Arguments map[string]any `json:"arguments"`
		}
		if err := json.Unmarshal(raw, &all); err != nil {
			return err
		}
		for _, c := range all {
			_, _ = u.call(cs, c.Name, c.Arguments)
		}
		return nil
	},
	"http-invalid-tool-headers": func(u *user, cs *mcp.ClientSession) error {
		tools, err := cs.ListTools(u.ctx, nil)
		if err != nil {
			return err
		}
		for _, t := range tools.Tools {
			_, _ = u.call(cs, t.Name, map[string]any{"region": "us-west1"})
		}
		return nil
	},
}

func listed(u *user, cs *mcp.ClientSession) error {
	_, err := cs.ListTools(u.ctx, nil)
	return err
}

func calls(name string, args map[string]any) func(*user, *mcp.ClientSession) error {
	return func(u *user, cs *mcp.ClientSession) error {
		_, err := u.call(cs, name, args)
		return err
	}
}

// authorised logs in as often as the server wants it, up to a point, and calls a
// tool.
func (u *user) authorised() error {
	var refused string
	for range 3 {
		if err := u.logIn(); err != nil {
			return err
		}
		if err := u.session(func(cs *mcp.ClientSession) (err error) {
			refused, err = u.call(cs, "test-tool", nil)
			return err
		}); err != nil {
			return err
		}
		if !strings.Contains(refused, "log in") {
			return nil
		}
	}
	return errors.New("the server is never content: " + refused)
}

var signIn = regexp.MustCompile(`(?m)^https?://\S+$`)

// logIn does the person's step after remit mcp login: it opens the URL.
func (u *user) logIn() error {
	args := []string{"mcp", "login", "c", "--anywhere", "--client-metadata", "https://conformance-test.local/client-metadata.json"}
	id, _ := u.known["client_id"].(string)
	if secret, _ := u.known["client_secret"].(string); id != "" && secret != "" {
		set := u.remit("secret", "set", "client")
		set.Stdin = strings.NewReader(secret)
		if out, err := set.CombinedOutput(); err != nil {
			return fmt.Errorf("secret set: %w\n%s", err, out)
		}
		args = append(args, "--client-id", id, "--client-secret", "client")
		if strings.HasPrefix(os.Getenv("MCP_CONFORMANCE_SCENARIO"), "auth/client-credentials") {
			args = append(args, "--service")
		}
	}
	cmd := u.remit(args...)
	errs, err := cmd.StderrPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	for in := bufio.NewScanner(errs); in.Scan(); {
		log.Print(in.Text())
		if at := signIn.FindString(in.Text()); at != "" {
			if err := browse(u.ctx, at); err != nil {
				log.Print(err)
			}
		}
	}
	return cmd.Wait()
}

// browse opens a URL as a browser does that is signed in already.
func browse(ctx context.Context, at string) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	return errors.Join(err, resp.Body.Close())
}
