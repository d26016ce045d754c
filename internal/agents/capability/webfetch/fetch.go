package webfetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
)

// The last line of an incomplete content.
const (
	timedOut = "[..more content timed out...]"
	tooLarge = "[..more content left out: it is larger than %d bytes...]"
)

// The causes of a request's end.
var (
	errFirstByte = errors.New("the first byte did not arrive in time")
	errBody      = errors.New("the body did not arrive in time")
)

type fetcher struct {
	opts Options
	most int64
}

func (f fetcher) fetch(ctx context.Context, p permit.Permit, a arguments) (map[string]any, error) {
	inner, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	resp, err := f.ask(inner, cancel, p, a)
	if err != nil {
		return nil, f.failed(ctx, inner, err)
	}
	defer func() { _ = resp.Body.Close() }() // the body is read by then, or not wanted
	out := about(a.URL, resp)
	switch kind := classify(resp.Header); {
	case a.Method == "HEAD":
		return out, nil
	case kind == binary:
		return refuse(out), nil
	}
	timer := time.AfterFunc(f.opts.Body, func() { cancel(errBody) })
	defer timer.Stop()
	body, cut, err := f.read(ctx, inner, resp.Body)
	if err != nil {
		return nil, err
	}
	out["size"] = len(body)
	if isBinary(resp.Header, body) {
		return refuse(out), nil
	}
	content, format, note := present(ctx, body, cut != "", resp, a)
	if ctx.Err() != nil {
		return nil, permit.Ended(ctx)
	}
	if cut != "" {
		content += "\n\n" + cut
		out["truncated"] = true
	}
	if note != "" {
		out["note"] = note
	}
	out["content"], out["format"] = content, format
	return out, nil
}

// ask sends the request. Each answer, also of a redirect, must start in time, and its
// header must be complete within the same time again.
func (f fetcher) ask(ctx context.Context, cancel context.CancelCauseFunc, p permit.Permit, a arguments) (*network.Response, error) {
	timer := time.AfterFunc(f.opts.FirstByte, func() { cancel(errFirstByte) })
	defer timer.Stop()
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotFirstResponseByte: func() { timer.Reset(f.opts.FirstByte) }})
	client := network.NewClient(p)
	client.Transport.Secret = f.opts.Secret
	accept := "text/html, application/xhtml+xml, text/plain;q=0.9, application/json;q=0.9, */*;q=0.5"
	if a.AsMarkdown {
		accept = "text/markdown, " + accept
	}
	return client.Do(traced, network.Request{Method: a.method(), URL: a.URL, Header: http.Header{"Accept": {accept}}})
}

// failed makes the error of a request without an answer.
func (f fetcher) failed(ctx, inner context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return permit.Ended(ctx)
	case errors.Is(context.Cause(inner), errFirstByte):
		return fault.Wrap(fault.ToolTimeout, err, "server did not respond within %s", seconds(f.opts.FirstByte))
	}
	return err
}

func seconds(d time.Duration) string {
	if d == time.Second {
		return "1 second"
	}
	return fmt.Sprintf("%v", d)
}

// read reads a body within the bounds and the time; cut says why it ended early; "": it
// did not.
func (f fetcher) read(ctx, inner context.Context, body io.Reader) (content []byte, cut string, err error) {
	content, err = io.ReadAll(io.LimitReader(body, f.most+1))
	switch {
	case int64(len(content)) > f.most:
		return content[:f.most], fmt.Sprintf(tooLarge, f.most), nil
	case err == nil:
		return content, "", nil
	case ctx.Err() != nil:
		return nil, "", permit.Ended(ctx)
	case errors.Is(context.Cause(inner), errBody), errors.Is(err, fault.ToolTimeout):
		return content, timedOut, nil
	case errors.Is(err, fault.LimitReached):
		return content, fmt.Sprintf(tooLarge, len(content)), nil
	}
	return nil, "", err
}
