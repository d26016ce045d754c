package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/bench/stat"
)

// mcpClient makes one call after the other.
type mcpClient struct {
	session *mcp.ClientSession
	process *os.Process // of the server; nil over HTTP
}

func connect(ctx context.Context, t mcp.Transport) (*mcpClient, error) {
	s, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx, t, &mcp.ClientSessionOptions{ProtocolVersion: "2025-11-25"})
	return &mcpClient{session: s}, err
}

// startServer starts an MCP server and connects to its standard input and output.
func startServer(ctx context.Context, env []string, dir string, args ...string) (*mcpClient, error) {
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Env, cmd.Dir = env, dir
	c, err := connect(ctx, &mcp.CommandTransport{Command: cmd})
	c.process = cmd.Process
	return c, err
}

// connectTo connects to an MCP server over HTTP.
func connectTo(ctx context.Context, url, token string) (*mcpClient, error) {
	return connect(ctx, &mcp.StreamableClientTransport{Endpoint: url, DisableStandaloneSSE: true, HTTPClient: &http.Client{Transport: bearer(token)}})
}

// bearer presents a token with every request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return sockets.RoundTrip(r)
}

var sockets = &http.Transport{MaxIdleConnsPerHost: 64}

func (c *mcpClient) call(ctx context.Context, n int, tool string) error {
	res, err := c.session.CallTool(ctx, &mcp.CallToolParams{Name: tool, Arguments: map[string]any{"key": fmt.Sprintf("customer/%d", n)}})
	if err == nil && res.IsError {
		err = fmt.Errorf("the call was not carried out: %v", res.Content)
	}
	return err
}

// cpu is the CPU time that the server's process has used, without its children.
func (c *mcpClient) cpu() (time.Duration, error) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.process.Pid))
	if err != nil {
		return 0, err
	}
	fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
	var user, system int64
	_, err = fmt.Sscan(fields[11]+" "+fields[12], &user, &system)
	return time.Duration(user+system) * (time.Second / 100), err // the kernel's USER_HZ
}

// callAll makes n calls with all clients at once, and gives the rate and the times.
func callAll(ctx context.Context, clients []*mcpClient, n int, tool string) (rate float64, times []time.Duration, err error) {
	var next atomic.Int64
	var mu sync.Mutex
	var wg sync.WaitGroup
	d := stat.Time(func() {
		for _, c := range clients {
			wg.Go(func() {
				var own []time.Duration
				var failed error
				for i := int(next.Add(1)); i <= n && failed == nil; i = int(next.Add(1)) {
					own = append(own, stat.Time(func() { failed = c.call(ctx, i, tool) }))
				}
				mu.Lock()
				defer mu.Unlock()
				times, err = append(times, own...), errors.Join(err, failed)
			})
		}
		wg.Wait()
	})
	return float64(n) / d.Seconds(), times, err
}
