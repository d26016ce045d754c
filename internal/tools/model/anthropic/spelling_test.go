package anthropic_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/anthropic"
)

// said answers each request with one body.
type said string

func (s said) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(s))), Request: req}, nil
}

func (s said) ask(ctx context.Context) (model.Response, error) {
	p := anthropic.New(anthropic.Options{Base: "http://127.0.0.1:1", Sleep: func(context.Context, time.Duration) error { return nil }})
	return p.Chat(ctx, model.Reach{HTTP: s}, model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "Hi"}}}, nil)
}

var hello = []string{
	`{"type":"message_start","message":{"id":"m","model":"m","content":[],"usage":{"input_tokens":3,"output_tokens":1}}}`,
	`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"hel"}}`,
	`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"lo"}}`,
	`{"type":"content_block_stop","index":0}`,
	`{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`,
	`{"type":"message_stop"}`,
}

// However a stream is written, the answer is the same, and a part of it is an error.
func TestAnySpellingOfAStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
		space := rapid.SampledFrom([]string{"", " "}).Draw(t, "space")
		between := rapid.SampledFrom([]string{"", ": ping\n\n", "id: 1\nretry: 10\n", "event: ping\ndata: {\"type\":\"ping\"}\n\n", "event: later\ndata: {\"type\":\"later\"}\n\n"})
		named := rapid.Bool().Draw(t, "named")
		n := rapid.IntRange(0, len(hello)).Draw(t, "events")
		in := rapid.SampledFrom([]string{"", "\xef\xbb\xbf"}).Draw(t, "mark")
		for _, e := range hello[:n] {
			in += strings.ReplaceAll(between.Draw(t, "between"), "\n", end)
			if named {
				in += "event:" + space + strings.Split(e, `"`)[3] + end
			}
			in += "data:" + space + e + end + end
		}
		r, err := said(in).ask(t.Context())
		if whole := n >= len(hello)-1; whole && (err != nil || r.Message.Text != "hello") || !whole && (!errors.Is(err, fault.ModelFailed) || r.Message.Text != "") {
			t.Fatalf("%d events: got %q, %v", n, r.Message.Text, err)
		}
	})
}

func TestAnswersThatAreNoStream(t *testing.T) {
	r, err := said(`{"type":"message","model":"m","content":[{"type":"text","text":"hello"},{"type":"tool_use","id":"t","name":"a","input":{"x":1}}],
		"stop_reason":"tool_use","usage":{"input_tokens":3,"output_tokens":2}}`).ask(t.Context())
	if err != nil || r.Message.Text != "hello" || len(r.Message.Calls) != 1 || string(r.Message.Calls[0].Args) != `{"x":1}` || r.Usage != (model.Usage{Input: 3, Output: 2}) {
		t.Errorf("got %+v, %v", r, err)
	}
	for body, says := range map[string]string{
		`{"type":"message","content":[{"type":"text","text":"hello"}],"stop_reason":null}`: "broke off",
		`{"status":"ok"}`: "no message of a model",
		`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`: "Overloaded",
		`{"type":"message","content":[{"type":"te`:                                    "cannot be read",
	} {
		if r, err := said(body).ask(t.Context()); err == nil || r.Message.Text != "" || !strings.Contains(fault.Message(err), says) {
			t.Errorf("%s: got %q, %v; want an error with %q", body, r.Message.Text, err, says)
		}
	}
}
