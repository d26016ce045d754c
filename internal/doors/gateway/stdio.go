package gateway

import (
	"context"
	"errors"
	"io"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/service/grants"
)

// maxMessage is the longest message of a client, in bytes.
const maxMessage = 16 << 20

// Serve serves one client on a pair of streams, as standard input and output, until the
// client closes its side or ctx ends. Then it ends the run and closes in and out.
func (g *Gateway) Serve(ctx context.Context, in io.ReadCloser, out io.WriteCloser) error {
	c, err := g.connect(ctx, grants.Presented{})
	if err != nil {
		return err
	}
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.watch(ctx)
	}()
	defer context.AfterFunc(ctx, c.stopCalls)()
	messages, answers := newLines(in, out)
	err = c.server.Run(ctx, &mcp.IOTransport{Reader: messages, Writer: answers, MaxLineLength: -1})
	stop()
	<-done
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled) {
		err = nil // the client has gone
	}
	return errors.Join(err, c.end(ctx))
}
