package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/remitrun/remit/bench/stat"
)

const (
	gatewayCalls   = 1500 // by one client, of each kind
	gatewayTurns   = 50   // calls in a row before the other server's turn
	gatewayClients = 16
	gatewayRound   = 2000 // calls of all clients
	gatewayRounds  = 5
)

const gatewayConfig = `sources:
  mcp_local: {per_minute: 10000000, at_once: 64}
tools:
  "mcp:notes:write_note": {risk: low, effects: [fs.write]}
  "mcp:notes:read_note": {risk: low, effects: []}
`

const gatewayPolicy = `version: 1
name: notes
tools: {allow: ["mcp:notes:*"]}
`

// world is a home with an MCP server, and the same server without Remit.
type world struct {
	*bench
	dir, server string
	env         []string
}

func (b *bench) gatewayWorld() (*world, error) {
	dir, err := b.workspace("gateway", map[string]string{"policy.yaml": gatewayPolicy})
	if err != nil {
		return nil, err
	}
	own, err := os.Executable()
	if err != nil {
		return nil, err
	}
	home, program := filepath.Join(dir, "home"), filepath.Join(dir, "server", "bench-server")
	w := &world{bench: b, dir: dir, server: program, env: []string{"HOME=" + home, "REMIT_HOME=" + home, "PATH=/usr/bin:/bin"}}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(own), "bench-server"))
	if err != nil {
		return nil, err
	}
	for _, err := range []error{os.Mkdir(filepath.Dir(program), 0o755), os.Mkdir(home, 0o700),
		os.WriteFile(program, text, 0o755), os.WriteFile(filepath.Join(home, "config.yaml"), []byte(gatewayConfig), 0o600)} {
		if err != nil {
			return nil, err
		}
	}
	_, err = b.start(home, dir, "mcp", "add", "notes", "-w", filepath.Dir(program), "--", program)
	return w, err
}

func (w *world) direct() (*mcpClient, error) {
	return startServer(w.ctx, w.env, w.dir, w.server)
}

func (w *world) gateway() (*mcpClient, error) {
	return startServer(w.ctx, w.env, w.dir, w.remit, "mcp", "serve", "-p", "policy.yaml", "--server", "notes")
}

// gateway measures calls of MCP clients, beside the same calls without Remit.
func (b *bench) gateway() error {
	w, err := b.gatewayWorld()
	if err != nil {
		return err
	}
	for _, measure := range []func(*world) error{(*world).oneClient, (*world).overHTTP, (*world).manyGateways} {
		if err := measure(w); err != nil {
			return err
		}
	}
	b.table.note("gateway: other gateways", "skipped: this benchmark installs none")
	return nil
}

// oneClient measures one client over stdio, in turns with the server itself.
func (w *world) oneClient() (err error) {
	direct, err := w.direct()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, direct.session.Close()) }()
	gate, err := w.gateway()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.session.Close()) }()
	for _, kind := range []struct {
		what, tool string
		bar        float64
	}{{"with side effects", "write_note", 3}, {"without side effects", "read_note", 2.2}} {
		var own, other []time.Duration
		if _, _, err := callAll(w.ctx, []*mcpClient{gate, direct}, warm, kind.tool); err != nil {
			return err
		}
		before, err := gate.cpu()
		if err != nil {
			return err
		}
		for n := 0; n < gatewayCalls; n += gatewayTurns {
			_, a, err := callAll(w.ctx, []*mcpClient{gate}, gatewayTurns, kind.tool)
			_, b, err2 := callAll(w.ctx, []*mcpClient{direct}, gatewayTurns, kind.tool)
			if err := errors.Join(err, err2); err != nil {
				return err
			}
			own, other = append(own, a...), append(other, b...)
		}
		after, err := gate.cpu()
		if err != nil {
			return err
		}
		cpu := (after - before) / gatewayCalls
		x := float64(stat.Median(own)) / float64(stat.Median(other))
		w.table.add("gateway: a call "+kind.what+", stdio to stdio, one client, p50, beside the server itself", fmt.Sprintf("≤ %.1f ×", kind.bar),
			fmt.Sprintf("%.1f × (%s beside %s)", x, us(stat.Median(own)), us(stat.Median(other))), x <= kind.bar)
		w.table.add("gateway: CPU time of Remit for such a call", "≤ 1 ms", ms(cpu), cpu <= time.Millisecond)
	}
	return nil
}

// overHTTP measures many clients of one gateway, in turns with the server itself.
func (w *world) overHTTP() (err error) {
	ctx, stop := context.WithCancel(w.ctx)
	defer stop()
	out, err := w.start(filepath.Join(w.dir, "home"), w.dir, "grant", "issue", "-p", "policy.yaml", "--holder", "agent:bench", "-o", "bench.token")
	if err != nil {
		return err
	}
	token, err := os.ReadFile(filepath.Join(w.dir, "bench.token"))
	if err != nil {
		return fmt.Errorf("%w: %s", err, clip(out.out))
	}
	listen := func(args func(address string) []string) ([]*mcpClient, error) {
		address, err := freeAddress(ctx)
		if err != nil {
			return nil, err
		}
		line := args(address)
		cmd := exec.CommandContext(ctx, line[0], line[1:]...)
		cmd.Env, cmd.Dir = w.env, w.dir
		if err := cmd.Start(); err != nil {
			return nil, err
		}
		go func() { _ = cmd.Wait() }() // it is killed when ctx ends
		if err := waitFor(ctx, address); err != nil {
			return nil, err
		}
		return many(func() (*mcpClient, error) {
			return connectTo(ctx, "http://"+address, string(bytes.TrimSpace(token)))
		})
	}
	direct, err := listen(func(a string) []string { return []string{w.server, a} })
	if err != nil {
		return err
	}
	gate, err := listen(func(a string) []string {
		return []string{w.remit, "mcp", "serve", "--server", "notes", "--listen", a}
	})
	if err != nil {
		return err
	}
	own, other, times, err := w.inTurns(gate, direct)
	if err != nil {
		return err
	}
	w.table.note(fmt.Sprintf("gateway: over HTTP, %d clients", gatewayClients),
		fmt.Sprintf("%.0f calls/s, p99 %s (the server itself %.0f calls/s)", own, ms(stat.Quantile(times, 0.99)), other))
	return nil
}

// manyGateways measures gateways that share a ledger, each with its client.
func (w *world) manyGateways() (err error) {
	direct, err := many(w.direct)
	if err != nil {
		return err
	}
	gate, err := many(w.gateway)
	if err != nil {
		return err
	}
	own, other, times, err := w.inTurns(gate, direct)
	for _, c := range append(gate, direct...) {
		err = errors.Join(err, c.session.Close())
	}
	if err != nil {
		return err
	}
	last := stat.Quantile(times, 0.99)
	w.table.add(fmt.Sprintf("gateway: %d gateways on one ledger, each with a client over stdio", gatewayClients), "≥ 1,000 calls/s, p99 ≤ 60 ms",
		fmt.Sprintf("%.0f calls/s, p99 %s (the servers themselves %.0f calls/s)", own, ms(last), other), own >= 1000 && last <= 60*time.Millisecond)
	return nil
}

func many(start func() (*mcpClient, error)) ([]*mcpClient, error) {
	var all []*mcpClient
	for range gatewayClients {
		c, err := start()
		if err != nil {
			return nil, err
		}
		all = append(all, c)
	}
	return all, nil
}

// inTurns gives the median rates of two groups of clients, and the first one's times.
func (w *world) inTurns(gate, direct []*mcpClient) (own, other float64, times []time.Duration, err error) {
	var rates, others []float64
	for i := range gatewayRounds + 1 {
		r, t, err := callAll(w.ctx, gate, gatewayRound, "write_note")
		o, _, err2 := callAll(w.ctx, direct, gatewayRound, "write_note")
		if err := errors.Join(err, err2); err != nil {
			return 0, 0, nil, err
		}
		if i > 0 { // the first starts the servers
			rates, others, times = append(rates, r), append(others, o), append(times, t...)
		}
	}
	return stat.Median(rates), stat.Median(others), times, nil
}

// freeAddress is a loopback address that nobody listens at.
func freeAddress(ctx context.Context) (string, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// waitFor waits until somebody listens at an address.
func waitFor(ctx context.Context, address string) error {
	var d net.Dialer
	for end := time.Now().Add(10 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		c, err := d.DialContext(ctx, "tcp", address)
		if err == nil {
			return c.Close()
		}
		if time.Now().After(end) || ctx.Err() != nil || !strings.Contains(err.Error(), "refused") {
			return err
		}
	}
}
