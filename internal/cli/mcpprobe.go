package cli

import (
	"context"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/service/servers"
)

// mcpTest starts a server and prints its tools. If the server fails, so does the
// command.
func (s *session) mcpTest(ctx context.Context, a *app.App, name string) error {
	began := time.Now()
	busy := s.startActivity("starting the server " + show(name))
	p, err := a.Servers.Test(ctx, name)
	busy.stop()
	if err != nil {
		return err
	}
	if p.Err != nil {
		for _, fix := range p.Fixes {
			s.errorf("%s may need in its policy: allow %s\n", s.paintErr(yellow, "!"), show(fix))
		}
		return p.Err
	}
	return s.printProbe(name, p, time.Since(began))
}

// mcpTried starts a server that was just added. A failure is only a warning, because
// the server was added.
func (s *session) mcpTried(ctx context.Context, a *app.App, name string) error {
	began := time.Now()
	busy := s.startActivity("starting the server " + show(name))
	p, err := a.Servers.Test(ctx, name)
	busy.stop()
	if err != nil {
		return err
	}
	if p.Err == nil || s.json {
		return s.printProbe(name, p, time.Since(began))
	}
	s.errorf("%s the server does not work yet: %s\n", s.paintErr(yellow, "!"), show(firstLine(fault.Message(p.Err))))
	if len(p.Fixes) == 0 {
		s.errorf("  its log is %s\n", show(a.Servers.Log(name)))
		return nil
	}
	s.errorf("  a policy with these entries under allow may help:\n")
	for _, fix := range p.Fixes {
		s.errorf("    %s\n", show(fix))
	}
	s.errorf("  then: remit mcp add %s --replace -p POLICY …\n", name)
	return nil
}

type probedTool struct {
	ID       string            `json:"id"`
	Title    string            `json:"title"`
	Findings []inspect.Finding `json:"findings,omitempty"`
}

// printProbe prints a server's tools and the findings in their texts.
func (s *session) printProbe(name string, p servers.Probe, took time.Duration) error {
	if s.json {
		tools := make([]probedTool, len(p.Tools))
		for i, t := range p.Tools {
			tools[i] = probedTool{string(t.Spec.ID), t.Spec.Title, t.Findings}
		}
		out := map[string]any{"name": name, "tools": tools}
		if p.Err != nil {
			out["error"] = map[string]any{"code": fault.CodeOf(p.Err).Error(), "message": fault.Message(p.Err), "fixes": append([]string{}, p.Fixes...)}
		}
		return s.printJSON(out)
	}
	s.printf("%s %s works: %s, listed in %s\n", s.paint(green, "✓"), name, counted(len(p.Tools), "tool"), ms(took))
	for _, t := range p.Tools {
		s.printf("  %s  %s\n", show(string(t.Spec.ID)), s.paint(dim, s.clip(show(t.Spec.Title), len(t.Spec.ID)+gap)))
		for _, f := range t.Findings {
			s.printf("    %s %s in its %s: %s: %s\n", s.paint(yellow, "[!]"), show(string(f.Kind)), show(f.Where), show(f.Why), show(strings.TrimSpace(f.Quote)))
		}
	}
	for _, r := range p.Refused {
		s.printf("  %s refused: %s\n", show(r.ID), show(r.Why))
	}
	return nil
}
