package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"testing"

	"github.com/google/uuid"

	rules "github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/gateway"
	"github.com/remitrun/remit/internal/service/grants"
)

// lister is a session that nobody calls.
type lister struct{ chain rules.Chain }

func (lister) ID() uuid.UUID        { return uuid.Nil }
func (l lister) Chain() rules.Chain { return l.chain }
func (lister) Call(context.Context, runner.Call) (runner.Outcome, error) {
	return runner.Outcome{}, nil
}
func (lister) Refuse(context.Context, runner.Call, error) (runner.Outcome, error) {
	return runner.Outcome{}, nil
}
func (lister) Usable(context.Context) error { return nil }
func (lister) End(context.Context) error    { return nil }
func (lister) Interrupted() bool            { return false }

// BenchmarkListOfAThousandTools is tools/list where the catalog has a thousand tools
// of a server.
func BenchmarkListOfAThousandTools(b *testing.B) {
	var all []*tool.Spec
	for i := range 1000 {
		all = append(all, &tool.Spec{ID: tool.ID(fmt.Sprintf("mcp:many:tool%d", i)), Source: "mcp", Description: "Does one of a thousand things, and says so in a sentence of some length.",
			Input: []byte(`{"type":"object","properties":{"path":{"type":"string","description":"where"},"n":{"type":"integer"}},"required":["path"]}`), Output: []byte(`{"type":"object"}`)})
	}
	p, err := rules.Parse("p", []byte("version: 1\nname: p\ntools: {allow: ['mcp:many:*']}\n"))
	if err != nil {
		b.Fatal(err)
	}
	bound, err := p.Bind(rules.Env{Workspace: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	g := gateway.New(gateway.Options{
		Tools: func(context.Context) []*tool.Spec { return all },
		Begin: func(context.Context, grants.Presented, gateway.Asker) (gateway.Session, error) {
			return lister{rules.Chain{bound}}, nil
		},
	})
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- g.Serve(ctx, inR, outW) }()
	out := bufio.NewReaderSize(outR, 4<<20)
	say := func(line string) (answer []byte) {
		if _, err := io.WriteString(inW, line+"\n"); err != nil {
			b.Fatal(err)
		}
		answer, err := out.ReadBytes('\n')
		if err != nil {
			b.Fatal(err)
		}
		return answer
	}
	say(`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-11-25","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`)
	if _, err := io.WriteString(inW, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		b.Fatal(err)
	}
	defer func() {
		stop()
		_ = inW.Close()
		<-done
	}()
	for b.Loop() { // what the client makes of the answer is not counted
		if got := say(`{"jsonrpc":"2.0","id":2,"method":"tools/list"}`); bytes.Count(got, []byte(`"inputSchema"`)) != 1000 {
			b.Fatalf("%d bytes", len(got))
		}
	}
}
