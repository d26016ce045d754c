package openai_test

import (
	"bytes"
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
	"github.com/remitrun/remit/internal/tools/model/openai"
)

// said answers each request with one body.
type said struct{ contentType, body string }

func (s said) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {s.contentType}}, Body: io.NopCloser(strings.NewReader(s.body)), Request: req}, nil
}

func (s said) ask(ctx context.Context, api openai.API) (model.Response, error) {
	p := openai.New(openai.Options{Base: "http://127.0.0.1:1", API: api, Sleep: func(context.Context, time.Duration) error { return nil }})
	return p.Chat(ctx, model.Reach{HTTP: s}, model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "Hi"}}}, nil)
}

const (
	hel    = `{"id":"x","choices":[{"index":0,"delta":{"role":"assistant","content":"hel"},"finish_reason":null}]}`
	lo     = `{"id":"x","choices":[{"index":0,"delta":{"content":"lo"},"finish_reason":null}]}`
	stop   = `{"id":"x","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`
	tokens = `{"id":"x","choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}`
)

// spelled writes events in one of the ways in which services write them.
func spelled(t *rapid.T, events []string) string {
	end := rapid.SampledFrom([]string{"\n", "\r\n", "\r"}).Draw(t, "end")
	space := rapid.SampledFrom([]string{"", " "}).Draw(t, "space")
	between := rapid.SampledFrom([]string{"", ": ping\n\n", ":\n", "id: 1\nretry: 10\n", "event: message\n", "other: x\n"})
	var out strings.Builder
	out.WriteString(rapid.SampledFrom([]string{"", "\xef\xbb\xbf"}).Draw(t, "mark"))
	for _, e := range events {
		out.WriteString(strings.ReplaceAll(between.Draw(t, "between"), "\n", end))
		if at := strings.IndexByte(e, ','); at > 0 && rapid.Bool().Draw(t, "two lines") {
			out.WriteString("data:" + space + e[:at+1] + end)
			e = e[at+1:]
		}
		out.WriteString("data:" + space + e + end + end)
	}
	return out.String()
}

// However a stream is written, the answer is the same, and a part of it is an error.
func TestAnySpellingOfAStream(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		events := []string{hel, lo, stop}
		if rapid.Bool().Draw(t, "usage") {
			events = append(events, tokens)
		}
		if rapid.Bool().Draw(t, "done") {
			events = append(events, "[DONE]")
		}
		kind := rapid.SampledFrom([]string{"text/event-stream", "text/event-stream; charset=utf-8", "text/plain", ""}).Draw(t, "type")
		r, err := said{kind, spelled(t, events)}.ask(t.Context(), openai.Chat)
		if err != nil || r.Message.Text != "hello" || r.Stop != model.StopEnd {
			t.Fatalf("got %q, %v, %v", r.Message.Text, r.Stop, err)
		}
		n := rapid.IntRange(0, 2).Draw(t, "events that came")
		part := events[:n:n]
		if rapid.Bool().Draw(t, "done all the same") {
			part = append(part, "[DONE]")
		}
		if r, err := (said{kind, spelled(t, part)}).ask(t.Context(), openai.Chat); !errors.Is(err, fault.ModelFailed) || r.Message.Text != "" {
			t.Fatalf("of %d events: got %q, %v", n, r.Message.Text, err)
		}
	})
}

// A stream that is cut anywhere is an error, or the whole answer.
func TestAStreamCutAnywhere(t *testing.T) {
	for _, end := range []string{"\n", "\r\n", "\r"} {
		var body bytes.Buffer
		whole := 0
		for _, e := range []string{hel, lo, stop, tokens, "[DONE]"} {
			body.WriteString("data: " + e)
			if e == stop {
				whole = body.Len()
			}
			body.WriteString(end + end)
		}
		for at := range body.Len() {
			r, err := said{"text/event-stream", body.String()[:at]}.ask(t.Context(), openai.Chat)
			if at < whole && (!errors.Is(err, fault.ModelFailed) || r.Message.Text != "") || at >= whole && (err != nil || r.Message.Text != "hello") {
				t.Fatalf("%q cut at %d: got %q, %v", end, at, r.Message.Text, err)
			}
		}
	}
}

func TestContentInOtherForms(t *testing.T) {
	for content, want := range map[string]string{
		`"hello"`: "hello", `null`: "", `""`: "", `[]`: "",
		`[{"type":"text","text":"hel"},{"type":"output_text","text":"lo"}]`: "hello",
		`{"type":"text","text":"hello"}`:                                    "hello",
		`["hel","lo"]`:                                                      "hello",
		`[null,{"type":"text","text":"hello"}]`:                             "hello",
		`[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"hello"}]`:        "hello",
		`[{"type":"text","text":"see"},{"type":"image_url","image_url":{"url":"data:image/png;base64,aGk="}}]`: `see(left out: content of the kind "image_url")`,
		`5`: "5",
	} {
		for _, form := range []string{
			`data: {"choices":[{"index":0,"delta":{"content":C},"finish_reason":"stop"}]}` + "\n\n",
			`{"choices":[{"index":0,"message":{"role":"assistant","content":C},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`,
		} {
			r, err := said{"", strings.ReplaceAll(form, "C", content)}.ask(t.Context(), openai.Chat)
			if err != nil || r.Message.Text != want {
				t.Errorf("%s: got %q, %v; want %q", content, r.Message.Text, err, want)
			}
		}
	}
}

func TestAnswersThatAreNoStream(t *testing.T) {
	call := `[{"id":"c1","type":"function","function":{"name":"a","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"b","arguments":"{\"x\":1}"}}]`
	tests := map[string]struct {
		api               openai.API
		contentType, body string
		want              string // the text, with the names of calls
		code              fault.Code
		says              string
	}{
		"chat":              {openai.Chat, "application/json", `{"choices":[{"index":0,"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}`, "hello", 0, ""},
		"chat with calls":   {openai.Chat, "application/json; charset=utf-8", "\n " + `{"choices":[{"index":0,"message":{"content":null,"tool_calls":` + call + `},"finish_reason":"tool_calls"}]}`, "a({})b({\"x\":1})", 0, ""},
		"called a stream":   {openai.Chat, "text/event-stream", "\xef\xbb\xbf" + `{"choices":[{"message":{"content":"hello"},"finish_reason":"stop"}]}`, "hello", 0, ""},
		"without an end":    {openai.Chat, "application/json", `{"choices":[{"message":{"content":"hello"},"finish_reason":null}]}`, "", fault.ModelFailed, "broke off"},
		"half of it":        {openai.Chat, "application/json", `{"choices":[{"message":{"content":"hello"},"finish_reason":"sto`, "", fault.ModelFailed, "cannot be read"},
		"an error":          {openai.Chat, "application/json", `{"error":{"message":"slow down","code":"rate_limit_exceeded"}}`, "", fault.ModelBusy, "slow down"},
		"a list":            {openai.Chat, "application/json", `[]`, "", fault.ModelFailed, "cannot be read"},
		"something else":    {openai.Chat, "application/json", `{"status":"ok"}`, "", fault.ModelFailed, "no message of a model"},
		"a page":            {openai.Chat, "text/html; charset=utf-8", `<!doctype html><p>Sign in</p>`, "", fault.ModelFailed, `answered with "text/html"`},
		"an error event":    {openai.Chat, "text/event-stream", "data: " + hel + "\n\nevent: error\ndata: {\"message\":\"gone\"}\n\n", "", fault.ModelFailed, "gone"},
		"responses":         {openai.Responses, "application/json", `{"object":"response","status":"completed","error":null,"output":[{"type":"message","content":[{"type":"output_text","text":"hello"}]},{"type":"function_call","call_id":"c1","name":"a","arguments":"{}"}]}`, "helloa({})", 0, ""},
		"responses, failed": {openai.Responses, "application/json", `{"object":"response","status":"failed","error":{"code":"server_error","message":"gone"},"output":[]}`, "", fault.ModelFailed, "gone"},
		"responses, begun":  {openai.Responses, "application/json", `{"object":"response","status":"in_progress","output":[{"type":"message","content":[{"text":"hel"}]}]}`, "", fault.ModelFailed, "in_progress"},
		"responses, other":  {openai.Responses, "application/json", `{"status":"ok"}`, "", fault.ModelFailed, "no message of a model"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			r, err := said{tc.contentType, tc.body}.ask(t.Context(), tc.api)
			got := r.Message.Text
			for _, c := range r.Message.Calls {
				got += c.Name + "(" + string(c.Args) + ")"
			}
			if got != tc.want || tc.code == 0 && err != nil || tc.code != 0 && !errors.Is(err, tc.code) {
				t.Fatalf("got %q, %v; want %q, %v", got, err, tc.want, tc.code)
			}
			if err != nil && !strings.Contains(fault.Message(err), tc.says) {
				t.Errorf("got the error %q, want one with %q", fault.Message(err), tc.says)
			}
		})
	}
}
