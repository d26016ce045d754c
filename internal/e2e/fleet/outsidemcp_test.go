package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpUser is a program with an MCP client. It keeps one session as long as the client says that it is
// there, and never repeats a call whose answer it did not get: MCP has no key for that.
type mcpUser struct {
	*crowd
	to   way
	cs   *mcp.ClientSession
	at   time.Time // when the session began
	lost []lostSession
	left []string // sessions that the client itself gave up after its stream could not be opened for long
}

// lostSession is a session that the nodes did not know any more.
type lostSession struct {
	began time.Time
	text  string
}

// callWithin is how long a program waits for the answer to a call.
const callWithin = 10 * time.Second

// connect begins a session.
func (m *mcpUser) connect() error {
	ctx, stop := context.WithTimeout(m.ctx, callWithin)
	defer stop()
	web := m.connections(m.token)
	web.Timeout = 0 // streams stay open
	cs, err := mcp.NewClient(&mcp.Implementation{Name: "outside", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: m.to.url + "/mcp", HTTPClient: web}, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	m.cs, m.at = cs, time.Now()
	return err
}

// leave ends the session of a client that does not need it any more.
func (m *mcpUser) leave() {
	if m.cs != nil {
		_ = m.cs.Close() // the node may be away
		m.cs = nil
	}
}

// call makes one call in the session.
func (m *mcpUser) call(i *intent) ending {
	if m.cs == nil {
		if err := m.connect(); err != nil {
			i.note(m.to.name, "initialize: %s", failure(err))
			return refused
		}
	}
	ctx, stop := context.WithTimeout(m.ctx, callWithin)
	defer stop()
	id := m.cs.ID()
	res, err := m.cs.CallTool(ctx, &mcp.CallToolParams{Name: "http_request", Arguments: map[string]any{"method": "POST", "url": m.f.world + i.path}})
	if err != nil {
		i.note(m.to.name, "tools/call in session %s: %s", id, failure(err))
		if errors.Is(err, mcp.ErrSessionMissing) || errors.Is(err, mcp.ErrConnectionClosed) {
			m.mu.Lock()
			text := fmt.Sprintf("%s %s at %s: %v", time.Now().Format("15:04:05.000"), id, m.to.name, err)
			if errors.Is(err, mcp.ErrSessionMissing) || strings.Contains(text, mcp.ErrSessionMissing.Error()) {
				m.lost = append(m.lost, lostSession{m.at, text})
			} else {
				m.left = append(m.left, text)
			}
			m.mu.Unlock()
			m.leave()
		}
		return unknown
	}
	var text strings.Builder
	for _, c := range res.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			text.WriteString(t.Text)
		}
	}
	i.note(m.to.name, "tools/call in session %s: error %t: %s", id, res.IsError, text.String())
	switch {
	case !res.IsError:
		return completed
	case mayHaveHappened(text.String()):
		return unknown
	}
	return refused
}

// mcpUser adds a program with an MCP client.
func (c *crowd) mcpUser(to way) *mcpUser {
	m := &mcpUser{crowd: c, to: to}
	c.keep("mcp", outside, m.call)
	return m
}

// verdict says which sessions ended early. Several nodes keep them; one with a file does not.
func (m *mcpUser) verdict(kept bool) {
	m.f.Helper()
	if len(m.left) > 0 {
		m.f.Logf("MCP sessions that their client gave up:\n%s", strings.Join(m.left, "\n"))
	}
	for _, l := range m.lost {
		if kept && l.began.After(m.jumped) {
			m.f.Errorf("LOST: an MCP session that the nodes did not know any more:\n%s", l.text)
		} else {
			m.f.Logf("an MCP session that was begun again, as one node does not keep it, or it was over by the clock of the database:\n%s", l.text)
		}
	}
}

// hookUser is an agent with remit hook around its calls, which it makes by itself.
type hookUser struct {
	*crowd
	session string
	env     []string
}

// hook starts remit hook for an event.
func (h *hookUser) hook(i *intent, event string, more map[string]any) (decision string, ok bool) {
	m := map[string]any{"event": event, "session": h.session, "tool": "http.request", "args": map[string]any{"method": "POST", "url": h.f.world + i.path}}
	for k, v := range more {
		m[k] = v
	}
	b, err := json.Marshal(m)
	if err != nil {
		return err.Error(), false
	}
	cmd := exec.CommandContext(h.ctx, os.Args[0], "hook", "generic", "-w", filepath.Join(h.f.dir, "work"), "-p", filepath.Join(h.f.dir, "hook.yaml"))
	cmd.Env = append(os.Environ(), h.env...)
	cmd.Stdin = bytes.NewReader(b)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var answer struct{ Decision string }
	_ = json.Unmarshal(out.Bytes(), &answer) // an event after a call has no answer
	i.note("hook", "%s: %v %s %s", event, err, out.String(), errs.String())
	return answer.Decision, err == nil
}

// act asks the hook, makes the call, and tells the hook of it.
func (h *hookUser) act(i *intent) ending {
	if decision, ok := h.hook(i, "before", nil); !ok || decision != "allow" {
		return refused // the agent does not make the call
	}
	r, err := http.NewRequestWithContext(h.ctx, http.MethodPost, h.f.world+i.path, http.NoBody)
	if err == nil {
		var res *http.Response
		if res, err = http.DefaultClient.Do(r); err == nil {
			_ = res.Body.Close()
		}
	}
	if err != nil {
		i.note("agent", "%v", err)
		return refused
	}
	if _, ok := h.hook(i, "after", map[string]any{"output": map[string]any{"status": 200}}); !ok {
		return unknown
	}
	return completed
}

// hookUser adds an agent whose hooks use a database, "" for the file of the home.
func (c *crowd) hookUser(db string) {
	c.mu.Lock()
	c.number++
	h := &hookUser{crowd: c, session: fmt.Sprintf("outside-%d", c.number),
		env: []string{"REMIT_TEST_CLI=1", "REMIT_HOME=" + filepath.Join(c.f.dir, "home"), "REMIT_DB=" + db, "HOME=" + c.f.dir, "USER=ann"}}
	c.mu.Unlock()
	c.keep("hook", outside, h.act)
}
