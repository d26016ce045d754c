package openai_test

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
	"github.com/remitrun/remit/internal/tools/model/modeltest"
	"github.com/remitrun/remit/internal/tools/model/openai"
)

const policy = "version: 1\nname: test\nmodels: {allow: [\"openai/*\"]}\n"

func own(t *testing.T, name string, want modeltest.Answer) modeltest.Stream {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	return modeltest.Stream{Name: name, Body: body, Want: want}
}

func call(id, name, args string) model.Call { return model.NewCall(id, name, args) }

// through makes providers of one API with the way that calls have.
func through(api openai.API) func(*testing.T, string, bool, func(context.Context, time.Duration) error) (model.Provider, model.Reach) {
	return func(t *testing.T, url string, keyed bool, pause func(context.Context, time.Duration) error) (model.Provider, model.Reach) {
		t.Helper()
		p := openai.New(openai.Options{Base: url, Key: "TEST_KEY", API: api, Sleep: pause})
		e := p.Endpoint()
		rt, err := network.NewModelTransport(permittest.World{Policy: policy}.Permit(t), network.ModelService{
			Model: "openai/gpt-test", Base: e.Base, Header: e.Header, Prefix: e.Prefix, Key: e.Key,
		})
		if err != nil {
			t.Fatal(err)
		}
		rt.Secret = func(string) (string, bool) { return modeltest.KeyValue, keyed }
		return p, model.Reach{HTTP: rt}
	}
}

func TestChatConformance(t *testing.T) {
	const tokens = 329
	streams := []modeltest.Stream{
		own(t, "chat-text.sse", modeltest.Answer{Text: "Grüße 東京 👋", Stop: model.StopEnd, Tokens: tokens}),
		own(t, "chat-calls.sse", modeltest.Answer{Stop: model.StopCalls, Tokens: tokens, Calls: []model.Call{
			call("call_1", "weather", `{"city":"Paris"}`), call("call_2", "weather", `{"city":"Rome"}`), call("call_3", "now", ""),
		}}),
		own(t, "chat-alike.sse", modeltest.Answer{Stop: model.StopCalls, Tokens: tokens, Calls: []model.Call{
			call("call_1", "a", "{}"), call("call_x", "b", "{}"), call("call_2", "c", "{}"),
		}}),
		own(t, "chat-bad-json.sse", modeltest.Answer{Stop: model.StopCalls, Tokens: tokens, Calls: []model.Call{call("call_1", "weather", `{"city":"Paris"}}`)}}),
		own(t, "chat-cut-call.sse", modeltest.Answer{Err: fault.ModelCall}),
		own(t, "chat-refused.sse", modeltest.Answer{Text: "I cannot do that.", Stop: model.StopRefused, Tokens: tokens}),
	}
	modeltest.Model(t, modeltest.Case{
		Provider: through(openai.Chat), Model: "gpt-test",
		Streams:    append(streams, modeltest.RecordedStreams(t, "openai_chat_stream")...),
		Endless:    `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}` + "\n\n",
		Piece:      `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` + strings.Repeat("again and ", 50) + `"}}]}` + "\n\n",
		TooLong:    `{"error":{"message":"This model's maximum context length is 8192 tokens.","type":"invalid_request_error","param":"messages","code":"context_length_exceeded"}}`,
		Overloaded: `data: {"error":{"message":"The server is overloaded","type":"server_error","code":"server_overloaded"}}` + "\n\n",
	})
}

func TestResponsesConformance(t *testing.T) {
	const tokens = 329
	streams := []modeltest.Stream{
		own(t, "responses-text.sse", modeltest.Answer{Text: "Grüße 東京 👋", Stop: model.StopEnd, Tokens: tokens}),
		own(t, "responses-calls.sse", modeltest.Answer{Stop: model.StopCalls, Tokens: tokens, Calls: []model.Call{
			call("call_1", "weather", `{"city":"Paris"}`), call("call_2", "now", ""),
		}}),
		own(t, "responses-at-once.sse", modeltest.Answer{Text: "Grüße 東京 👋", Stop: model.StopCalls, Tokens: tokens, Calls: []model.Call{
			call("call_1", "weather", `{"city":"Paris"}`),
		}}),
		own(t, "responses-cut-call.sse", modeltest.Answer{Err: fault.ModelCall}),
		own(t, "responses-refused.sse", modeltest.Answer{Text: "I cannot.", Stop: model.StopRefused, Tokens: tokens}),
		own(t, "responses-failed.sse", modeltest.Answer{Err: fault.ModelFailed}),
	}
	modeltest.Model(t, modeltest.Case{
		Provider: through(openai.Responses), Model: "gpt-test",
		Streams:    append(streams, modeltest.RecordedStreams(t, "openai_responses_stream")...),
		Endless:    "event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"id\":\"r\",\"output\":[]}}\n\n",
		Piece:      "event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"output_index\":0,\"delta\":\"" + strings.Repeat("again and ", 50) + "\"}\n\n",
		TooLong:    `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`,
		Overloaded: "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"server_error\",\"code\":\"server_overloaded\",\"message\":\"overloaded\"}}\n\n",
	})
}

// talk is a conversation that has everything, after a first answer of the service.
func talk(first, answer model.Message) []model.Message {
	ms := []model.Message{first, answer}
	for _, c := range answer.Calls {
		ms = append(ms, model.Message{Role: model.ToolRole, CallID: c.ID, Text: "sunny", Failed: c.Name == "now"})
	}
	return append(ms, model.Message{Role: model.User, Text: "Go on"})
}

func TestRequests(t *testing.T) {
	tests := map[string]struct {
		api             openai.API
		file, path, out string
	}{
		"chat completions": {openai.Chat, "chat-calls.sse", "/chat/completions", `{"model":"gpt-test","max_tokens":77,"stream":true,"temperature":0.5,
		 "stream_options":{"include_usage":true},
		 "tools":[{"type":"function","function":{"name":"now","description":"Tells the time.","parameters":{"type":"object","additionalProperties":false}}}],
		 "messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hello"},
		 {"role":"assistant","reasoning_content":"Both cities.","tool_calls":[
		  {"id":"call_1","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Paris\"}"}},
		  {"id":"call_2","type":"function","function":{"name":"weather","arguments":"{\"city\":\"Rome\"}"}},
		  {"id":"call_3","type":"function","function":{"name":"now","arguments":"{}"}}]},
		 {"role":"tool","tool_call_id":"call_1","content":"sunny"},{"role":"tool","tool_call_id":"call_2","content":"sunny"},
		 {"role":"tool","tool_call_id":"call_3","content":"error: sunny"},{"role":"user","content":"Go on"}]}`},
		"responses": {openai.Responses, "responses-calls.sse", "/responses", `{"model":"gpt-test","max_output_tokens":77,"stream":true,"temperature":0.5,
		 "store":false,"instructions":"Be brief.",
		 "tools":[{"type":"function","name":"now","description":"Tells the time.","strict":false,"parameters":{"type":"object","additionalProperties":false}}],
		 "input":[{"role":"user","content":"Hello"},
		 {"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"c2VjcmV0"},
		 {"type":"function_call","call_id":"call_1","name":"weather","arguments":"{\"city\":\"Paris\"}"},
		 {"type":"function_call","call_id":"call_2","name":"now","arguments":"{}"},
		 {"type":"function_call_output","call_id":"call_1","output":"sunny"},{"type":"function_call_output","call_id":"call_2","output":"error: sunny"},
		 {"role":"user","content":"Go on"}]}`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			body, err := os.ReadFile(filepath.Join("testdata", tt.file))
			if err != nil {
				t.Fatal(err)
			}
			var sent []byte
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				sent, _ = io.ReadAll(r.Body)
				if r.URL.Path != "/v1"+tt.path {
					t.Errorf("sent to %s", r.URL.Path)
				}
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = w.Write(body)
			}))
			defer s.Close()
			p, via := through(tt.api)(t, s.URL+"/v1", true, nil)
			warm, first := 0.5, model.Message{Role: model.User, Text: "Hello"}
			r, err := p.Chat(t.Context(), via, model.Request{Model: "gpt-test", Messages: []model.Message{first}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			_, err = p.Chat(t.Context(), via, model.Request{Model: "gpt-test", System: "Be brief.", Messages: talk(first, r.Message), MaxTokens: 77, Temperature: &warm,
				Tools: []model.Tool{{Name: "now", Description: "Tells the time.", Input: json.RawMessage(`{"type":"object","additionalProperties":false}`)}}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(decode(t, []byte(tt.out)), decode(t, sent)); d != "" {
				t.Error(d)
			}
		})
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
	for api, file := range map[openai.API]string{openai.Chat: "chat-text.sse", openai.Responses: "responses-text.sse"} {
		body, err := os.ReadFile(filepath.Join("testdata", file))
		if err != nil {
			t.Fatal(err)
		}
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(body) }))
		defer s.Close()
		p, via := through(api)(t, s.URL, true, nil)
		r, err := p.Chat(t.Context(), via, model.Request{Model: "gpt-test", Messages: []model.Message{{Role: model.User, Text: "Hello"}}}, nil)
		if want := (model.Usage{Input: 20, Output: 9, CacheRead: 300}); err != nil || r.Usage != want || r.Model != "gpt-test" {
			t.Errorf("%s: got %+v of %q (%v), want %+v", api, r.Usage, r.Model, err, want)
		}
	}
}

func TestLimitsAreOfTheOwnServiceAlone(t *testing.T) {
	if l := openai.New(openai.Options{}).Limits("gpt-4o-mini"); l.Context != 128_000 || l.MaxOutput != 16_384 {
		t.Errorf("got %+v", l)
	}
	if l := openai.New(openai.Options{Base: "http://127.0.0.1:11434/v1"}).Limits("gpt-4o-mini"); l != (model.Limits{}) {
		t.Errorf("of another service: got %+v", l)
	}
}

// TestTheEnvironmentIsNotRead: a service gets only the key that Remit keeps for it. Vendors' own
// clients read these variables.
func TestTheEnvironmentIsNotRead(t *testing.T) {
	for k, v := range map[string]string{"OPENAI_API_KEY": "sk-env", "OPENAI_ORG_ID": "env", "OPENAI_BASE_URL": "http://127.0.0.1:1", "OPENAI_CUSTOM_HEADERS": "X-Env: 1"} {
		t.Setenv(k, v)
	}
	body, err := os.ReadFile(filepath.Join("testdata", "chat-text.sse"))
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
	p, via := through(openai.Chat)(t, s.URL, true, nil)
	if _, err := p.Chat(t.Context(), via, model.Request{Model: "m", Messages: []model.Message{{Role: model.User, Text: "Hello"}}}, nil); err != nil {
		t.Error(err)
	}
}
