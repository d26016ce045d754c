package anthropic_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/anthropic"
	"github.com/remitrun/remit/internal/tools/model/modeltest"
)

const policy = "version: 1\nname: test\nmodels: {allow: [\"anthropic/*\"]}\n"

func own(t *testing.T, name string, want modeltest.Answer) modeltest.Stream {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return modeltest.Stream{Name: name, Body: body, Want: want}
}

func call(id, name, args string) model.Call { return model.NewCall(id, name, args) }

func streams(t *testing.T) []modeltest.Stream {
	t.Helper()
	return []modeltest.Stream{
		own(t, "text.sse", modeltest.Answer{Text: "Grüße aus 東京. 👋", Stop: model.StopEnd, Tokens: 29}),
		own(t, "calls.sse", modeltest.Answer{Text: "I look at both.", Stop: model.StopCalls, Tokens: 420, Calls: []model.Call{
			call("toolu_1", "weather", `{"city":"Paris"}`), call("toolu_2", "weather", `{"city":"Rome"}`), call("toolu_3", "now", ""),
		}}),
		own(t, "bad-json.sse", modeltest.Answer{Stop: model.StopCalls, Tokens: 30, Calls: []model.Call{
			call("toolu_1", "weather", `{"city":"Paris"}}`), call("toolu_2", "weather", `["Rome"]`),
		}}),
		own(t, "cut-call.sse", modeltest.Answer{Err: fault.ModelCall}),
		own(t, "refused.sse", modeltest.Answer{Text: "I", Stop: model.StopRefused, Tokens: 22}),
		own(t, "length.sse", modeltest.Answer{Text: "Once upon a", Stop: model.StopLength, Tokens: 23}),
	}
}

func event(kind, data string) string {
	return "event: " + kind + "\ndata: {\"type\":\"" + kind + "\"," + data + "}\n\n"
}

func TestConformance(t *testing.T) {
	modeltest.Model(t, modeltest.Case{
		Provider: provider, Model: "claude-test",
		Streams: append(streams(t), modeltest.RecordedStreams(t, "anthropic_stream")...),
		Endless: event("message_start", `"message":{"id":"m","type":"message","role":"assistant","content":[],"model":"c","usage":{"input_tokens":1,"output_tokens":1}}`) +
			event("content_block_start", `"index":0,"content_block":{"type":"text","text":""}`),
		Piece:      event("content_block_delta", `"index":0,"delta":{"type":"text_delta","text":"`+strings.Repeat("again and ", 50)+`"}`),
		TooLong:    `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`,
		Overloaded: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"Overloaded\"}}\n\n",
	})
}

// provider makes a provider with the way that calls have.
func provider(t *testing.T, url string, keyed bool, pause func(context.Context, time.Duration) error) (model.Provider, model.Reach) {
	t.Helper()
	p := anthropic.New(anthropic.Options{Base: url, Key: "TEST_KEY", Sleep: pause})
	e := p.Endpoint()
	rt, err := network.NewModelTransport(permittest.World{Policy: policy}.Permit(t), network.ModelService{
		Model: "anthropic/claude-test", Base: e.Base, Header: e.Header, Prefix: e.Prefix, Key: e.Key,
	})
	if err != nil {
		t.Fatal(err)
	}
	rt.Secret = func(string) (string, bool) { return modeltest.KeyValue, keyed }
	return p, model.Reach{HTTP: rt}
}

// TestRequest compares what is sent with what the API documents.
func TestRequest(t *testing.T) {
	body, err := os.ReadFile(filepath.Join("testdata", "calls.sse"))
	if err != nil {
		t.Fatal(err)
	}
	var sent []byte
	var path, version string
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent, _ = io.ReadAll(r.Body)
		path, version = r.URL.Path, r.Header.Get("Anthropic-Version")
		for name := range r.Header {
			if strings.HasPrefix(name, "X-Stainless") {
				t.Errorf("the header %s tells of this machine", name)
			}
		}
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	}))
	defer s.Close()
	p, via := provider(t, s.URL, true, nil)
	warm := 0.5
	first := model.Message{Role: model.User, Text: "Hello"}
	r, err := p.Chat(t.Context(), via, model.Request{Model: "claude-test", Messages: []model.Message{first}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	answers := []model.Message{first, r.Message}
	for _, c := range r.Message.Calls {
		answers = append(answers, model.Message{Role: model.ToolRole, CallID: c.ID, Text: "sunny", Failed: c.Name == "now"})
	}
	answers = append(answers, model.Message{Role: model.User, Text: " "}, model.Message{Role: model.Assistant}, model.Message{Role: model.User, Text: "Go on"})
	_, err = p.Chat(t.Context(), via, model.Request{Model: "claude-test", System: "Be brief.", Messages: answers, MaxTokens: 77, Temperature: &warm,
		Tools: []model.Tool{{Name: "now", Description: "Tells the time.", Input: json.RawMessage(`{"type":"object","additionalProperties":false}`)}}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"model":"claude-test","max_tokens":77,"stream":true,"temperature":0.5,"system":[{"type":"text","text":"Be brief."}],
	 "tools":[{"name":"now","description":"Tells the time.","input_schema":{"type":"object","additionalProperties":false}}],
	 "messages":[{"role":"user","content":[{"type":"text","text":"Hello"}]},
	 {"role":"assistant","content":[{"type":"thinking","thinking":"Both cities.","signature":"c2ln"},{"type":"redacted_thinking","data":"ZGF0YQ=="},
	  {"type":"text","text":"I look at both."},
	  {"type":"tool_use","id":"toolu_1","name":"weather","input":{"city":"Paris"}},{"type":"tool_use","id":"toolu_2","name":"weather","input":{"city":"Rome"}},
	  {"type":"tool_use","id":"toolu_3","name":"now","input":{}}]},
	 {"role":"user","content":[{"type":"tool_result","tool_use_id":"toolu_1","content":[{"type":"text","text":"sunny"}],"is_error":false},
	  {"type":"tool_result","tool_use_id":"toolu_2","content":[{"type":"text","text":"sunny"}],"is_error":false},
	  {"type":"tool_result","tool_use_id":"toolu_3","content":[{"type":"text","text":"sunny"}],"is_error":true},
	  {"type":"text","text":"(empty)"},{"type":"text","text":"Go on"}]}]}`
	if d := cmp.Diff(decode(t, []byte(want)), decode(t, sent)); d != "" {
		t.Error(d)
	}
	if path != "/v1/messages" || version == "" {
		t.Errorf("sent to %q in version %q", path, version)
	}
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	if err := json.Unmarshal(b, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestUsageTellsCachesApart(t *testing.T) {
	body, err := os.ReadFile(filepath.Join("testdata", "calls.sse"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
	defer s.Close()
	p, via := provider(t, s.URL, true, nil)
	r, err := p.Chat(t.Context(), via, model.Request{Model: "claude-test", Messages: []model.Message{{Role: model.User, Text: "Hello"}}}, nil)
	if want := (model.Usage{Input: 20, Output: 60, CacheRead: 300, CacheWrite: 40}); err != nil || r.Usage != want {
		t.Errorf("got %+v (%v), want %+v", r.Usage, err, want)
	}
	if r.Model != "claude-test" || len(r.Message.Reasoning) != 2 {
		t.Errorf("got the model %q and %d parts of reasoning", r.Model, len(r.Message.Reasoning))
	}
}

func TestLimits(t *testing.T) {
	p := anthropic.New(anthropic.Options{})
	for name, want := range map[string]int64{"claude-sonnet-4-5": 200_000, "claude-3-5-haiku-latest": 200_000, "llama3": 0} {
		if l := p.Limits(name); l.Context != want || (want > 0) != (l.MaxOutput > 0) {
			t.Errorf("%s: got %+v, want a context of %d", name, l, want)
		}
	}
}

// TestTheEnvironmentIsNotRead: a service gets only the key that Remit keeps for it. Vendors' own
// clients read these variables.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	for k, v := range map[string]string{"ANTHROPIC_API_KEY": "sk-env", "ANTHROPIC_AUTH_TOKEN": "env", "ANTHROPIC_BASE_URL": "http://127.0.0.1:1", "ANTHROPIC_CUSTOM_HEADERS": "X-Env: 1"} {
		t.Setenv(k, v)
	}
	body, err := os.ReadFile(filepath.Join("testdata", "text.sse"))
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, values := range r.Header {
			if v := strings.Join(values, " "); strings.Contains(v, "env") || name == "X-Env" {
				t.Errorf("sent %s: %s", name, v)
			}
		}
		_, _ = w.Write(body)
	}))
	defer s.Close()
	p, via := provider(t, s.URL, true, nil)
	if _, err := p.Chat(t.Context(), via, model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "Hello"}}}, nil); err != nil {
		t.Error(err)
	}
}
