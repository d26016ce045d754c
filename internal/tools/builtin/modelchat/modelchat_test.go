package modelchat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/modelchat"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/openai"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

const (
	script = "- text: Hello there, I look.\n  tool_calls: [{name: read, args: {path: /a}}]\n- text: Done.\n"
	key    = "sk-test-0123456789"
	pol    = "version: 1\nname: test\nfiles: {read: {allow: [\"*.yaml\"]}}\nmodels: {allow: [\"scripted:*\", \"local/*\"]}\n"
)

// options are those of a registry with scripted models and a service at a URL.
func options(url string) modelchat.Options {
	return modelchat.Options{
		Registry: &model.Registry{
			Providers: []model.Provider{scripted.New(), openai.New(openai.Options{Name: "local", Base: url, Key: "LOCAL_KEY",
				Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() }})},
			Prices: map[string]model.Prices{"local/priced*": {Input: 2_000_000, Output: 10_000_000, CacheRead: 200_000}},
		},
		Secret: func(name string) (string, bool) { return key, name == "LOCAL_KEY" },
	}
}

func world() permittest.World {
	return permittest.World{Policy: pol, Files: map[string]string{"demo.yaml": script}}
}

// args are a call's arguments, read as the runner reads them.
func args(t *testing.T, doc string) tool.Args {
	t.Helper()
	v, err := canon.Decode([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	return tool.Args(v.(map[string]any))
}

func hello(t *testing.T, id string) tool.Args {
	t.Helper()
	return args(t, fmt.Sprintf(`{"model":%q,"messages":[{"role":"user","text":"Hello"}]}`, id))
}

func TestConformance(t *testing.T) {
	s := service(t, "chat-text.sse")
	permittest.Tool(t, modelchat.New(options(s.URL)), world(),
		hello(t, "scripted:demo.yaml"), hello(t, "local/any"),
		args(t, `{"model":"scripted/demo.yaml","system":"Be brief.","max_tokens":50,"temperature":0.5,
		 "tools":[{"name":"read","description":"Reads.","input":{"type":"object"}}],
		 "messages":[{"role":"user","text":"Go"},{"role":"assistant","text":"x","tool_calls":[{"id":"1","name":"read","args":{"a":1}}],"reasoning":[{"type":"x"}]},
		  {"role":"tool","tool_call_id":"1","text":"no","is_error":true}]}`),
	)
}

// service answers with a recorded stream, or by a handler.
type fakeService struct {
	*httptest.Server
	asked  atomic.Int64
	header atomic.Pointer[http.Header]
	body   atomic.Pointer[map[string]any]
}

func service(t *testing.T, file string) *fakeService {
	t.Helper()
	body, err := os.ReadFile(filepath.Join("..", "..", "model", "openai", "testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	return serving(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = w.Write(body)
	})
}

func serving(t *testing.T, h http.HandlerFunc) *fakeService {
	t.Helper()
	s := &fakeService{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.header.Store(&r.Header)
		var sent map[string]any
		if json.NewDecoder(r.Body).Decode(&sent) == nil {
			s.body.Store(&sent)
		}
		h(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// run makes a call with a permit that may spend so much.
func run(t *testing.T, o modelchat.Options, a tool.Args, tokens, money int64) (model.Response, permit.Permit, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "demo.yaml"), []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	p := permitFor(t, dir, pol, tokens, money)
	res, err := permittest.Run(t.Context(), modelchat.New(o), p, a)
	if res.Output == nil {
		return model.Response{}, p, err
	}
	r, rerr := modelchat.Answer(res.Output)
	if rerr != nil {
		t.Fatal(rerr)
	}
	return r, p, err
}

func permitFor(t *testing.T, dir, doc string, tokens, money int64) permit.Permit {
	t.Helper()
	parsed, err := policy.Parse("policy.yaml", []byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	rules, err := parsed.Bind(policy.Env{Workspace: dir})
	if err != nil {
		t.Fatal(err)
	}
	return permit.Mint(permit.Terms{Chain: policy.Chain{rules}, Env: tool.Env{Workspace: dir}, Tokens: tokens, Money: money})
}

func TestWhatIsSpentIsCharged(t *testing.T) {
	s := service(t, "chat-text.sse") // 20 fresh tokens, 300 from a cache, 9 of the answer
	tests := map[string]struct {
		model         string
		tokens, money int64 // that may be spent
		want          fault.Code
		spent, cost   int64
		max           float64 // tokens of the answer that the service is asked for; 0: as many as it likes
	}{
		"scripted":                   {"scripted:demo.yaml", 0, 0, 0, 17, 0, 0},
		"a price":                    {"local/priced", 0, 0, 0, 329, 20*2 + 9*10 + 300*2/10, 0},
		"no price":                   {"local/any", 0, 0, 0, 329, 0, 0},
		"enough is left":             {"local/any", 1 << 20, 0, 0, 329, 0, 8192},
		"less is left":               {"local/any", 500, 0, 0, 329, 0, 500 - 19},
		"too little is left":         {"local/any", 30, 0, fault.BudgetSpent, 0, 0, 0},
		"it used more than was left": {"local/any", 300, 0, 0, 329, 0, 300 - 19},
		"money":                      {"local/priced", 0, 1_000_000, 0, 329, 190, 8192},
		"little money":               {"local/priced", 0, 1038, 0, 329, 190, 100},
		"too little money":           {"local/priced", 0, 100, fault.BudgetSpent, 0, 0, 0},
		"money, and no price":        {"local/any", 0, 1_000_000, fault.BudgetSpent, 0, 0, 0},
		"money, and nothing costs":   {"scripted:demo.yaml", 0, 1, 0, 17, 0, 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s.body.Store(nil)
			r, p, err := run(t, options(s.URL), hello(t, tt.model), tt.tokens, tt.money)
			if (err != nil) != (tt.want != 0) || err != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v, want %v", err, tt.want)
			}
			spent := p.Spent()
			tokens, money := spent.Tokens(), spent.Money
			if tt.model == "scripted:demo.yaml" {
				tt.spent = r.Usage.Tokens()
			}
			if tokens != tt.spent || money != tt.cost || err == nil && (tokens == 0 || r.Usage.Money != money) {
				t.Errorf("spent %d tokens and %d, want %d and %d; told of %+v", tokens, money, tt.spent, tt.cost, r.Usage)
			}
			if sent := s.body.Load(); sent != nil && tt.max > 0 {
				if got, _ := (*sent)["max_tokens"].(float64); got > tt.max || got < tt.max-20 {
					t.Errorf("asked for %v tokens, want about %v", got, tt.max)
				}
			}
		})
	}
}

// TestWhatNobodyCountsIsReckoned: a service that tells no usage, and one that breaks
// off, is charged all the same.
func TestWhatNobodyCountsIsReckoned(t *testing.T) {
	piece := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"0123456789abcdef"}}]}` + "\n\n"
	end := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	odd := `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[],"usage":{"prompt_tokens":-5,"completion_tokens":1,"total_tokens":1}}` + "\n\n"
	for name, tt := range map[string]struct {
		body string
		want fault.Code
	}{"it does not say": {piece + end, 0}, "it breaks off": {piece, fault.ModelFailed}, "it says what cannot be": {piece + strings.Replace(end, "data: [DONE]", odd+"data: [DONE]", 1), fault.ModelFailed}} {
		t.Run(name, func(t *testing.T) {
			s := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(tt.body)) })
			r, p, err := run(t, options(s.URL), hello(t, "local/any"), 0, 0)
			if (err != nil) != (tt.want != 0) || err != nil && !errors.Is(err, tt.want) {
				t.Fatalf("got %v", err)
			}
			if tokens := p.Spent().Tokens(); tokens != 2+4 {
				t.Errorf("spent %d tokens, want 6", tokens)
			}
			if err == nil && !r.Usage.Estimated {
				t.Errorf("%+v does not say that it is reckoned", r.Usage)
			}
		})
	}
}

func TestSpends(t *testing.T) {
	tl := modelchat.New(options("http://127.0.0.1:1"))
	spends := func(args tool.Args) (tokens, money int64) {
		call, err := tl.Prepare(tool.Env{}, args)
		if err != nil {
			t.Fatal(err)
		}
		s := call.Spends()
		return s.Tokens(), s.Money
	}
	if tokens, money := spends(hello(t, "local/priced")); tokens < 8192 || tokens > 9000 || money != (2+1+16)*2+8192*10 {
		t.Errorf("got %d tokens and %d", tokens, money)
	}
	if tokens, money := spends(hello(t, "local/any")); tokens < 8192 || money != 1 {
		t.Errorf("without a price: got %d tokens and %d", tokens, money)
	}
	if tokens, money := spends(hello(t, "scripted:demo.yaml")); tokens < 8192 || money != 0 {
		t.Errorf("scripted: got %d tokens and %d", tokens, money)
	}
	if tokens, money := spends(tool.Args{}); tokens != 1 || money != 1 {
		t.Errorf("of a call that makes no sense: got %d tokens and %d", tokens, money)
	}
}

// TestTheKeyStaysAtTheEdge: the service is sent it, and nobody else sees it, also if
// the service tells it.
func TestTheKeyStaysAtTheEdge(t *testing.T) {
	s := serving(t, func(w http.ResponseWriter, r *http.Request) {
		sent := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		_, _ = fmt.Fprintf(w, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"your key is %s and so on"},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n", sent)
	})
	r, _, err := run(t, options(s.URL), hello(t, "local/any"), 0, 0)
	if err != nil || strings.Contains(r.Message.Text, key) || !strings.Contains(r.Message.Text, "***") {
		t.Errorf("got %q (%v)", r.Message.Text, err)
	}
	if got := s.header.Load().Get("Authorization"); got != "Bearer "+key {
		t.Errorf("the service was sent %q", got)
	}
	refusing := serving(t, func(w http.ResponseWriter, r *http.Request) {
		http.Error(w, "bad key "+r.Header.Get("Authorization"), 401)
	})
	if _, _, err := run(t, options(refusing.URL), hello(t, "local/any"), 0, 0); !errors.Is(err, fault.ModelKey) || strings.Contains(err.Error(), key) {
		t.Errorf("got %v", err)
	}
}

func TestErrorsSayTheWayOut(t *testing.T) {
	gone := service(t, "chat-text.sse")
	gone.Close()
	silent := serving(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	there := service(t, "chat-text.sse")
	keyless, quick := options(there.URL), options(silent.URL)
	keyless.Secret = nil
	quick.Wait = 50 * time.Millisecond
	tests := map[string]struct {
		o    modelchat.Options
		doc  string
		want fault.Code
		hint string
	}{
		"no key":               {keyless, `{"model":"local/any","messages":[{"role":"user","text":"a"}]}`, fault.ModelKey, "remit secret set local_key"},
		"nothing is there":     {options(gone.URL), `{"model":"local/any","messages":[{"role":"user","text":"a"}]}`, fault.ModelFailed, "models.providers.local.base_url"},
		"it does not answer":   {quick, `{"model":"local/any","messages":[{"role":"user","text":"a"}]}`, fault.ModelFailed, "models.wait"},
		"no such provider":     {options(""), `{"model":"other/any","messages":[{"role":"user","text":"a"}]}`, fault.ModelUnknown, "local, scripted"},
		"no model":             {options(""), `{"model":"","messages":[{"role":"user","text":"a"}]}`, fault.ModelUnknown, "models.default"},
		"no script":            {options(""), `{"model":"scripted:other.yaml","messages":[{"role":"user","text":"a"}]}`, fault.NotFound, ""},
		"after the last turn":  {options(""), `{"model":"scripted:demo.yaml","messages":[{"role":"user","text":"a"},{"role":"assistant","text":"b"},{"role":"assistant","text":"b"},{"role":"user","text":"a"}]}`, fault.ModelFailed, "repeat: true"},
		"no session":           {options(""), `{"model":"scripted:demo.yaml","session":"x","upto":1,"digest":"","system_digest":"","tools_digest":""}`, fault.ArgsInvalid, "messages"},
		"a conversation apart": {options(""), `{"model":"scripted:demo.yaml","messages":[{"role":"tool","tool_call_id":"1"}]}`, fault.ArgsInvalid, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, err := run(t, tt.o, args(t, tt.doc), 0, 0)
			var e *fault.Error
			if !errors.As(err, &e) || e.Code != tt.want || !strings.Contains(e.Hint, tt.hint) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.hint)
			}
		})
	}
}

// TestAScriptedModelReadsWhatFilesReadAllows: naming a model opens no file. What
// files.read does not allow is refused with one message, whether or not it exists.
func TestAScriptedModelReadsWhatFilesReadAllows(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	for name, content := range map[string]string{dir + "/demo.yaml": script, outside + "/secret.yaml": "- {hunter2: x}\n", outside + "/good.yaml": script} {
		if err := os.WriteFile(name, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink(outside+"/good.yaml", dir+"/link.yaml"); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		models, allow, deny, id string
		want                    error
		text                    string
	}{
		"allowed":                     {"scripted:*", "demo.yaml", "", "demo.yaml", nil, ""},
		"under another spelling":      {"scripted:demo.yaml", "demo.yaml", "", "./x/../demo.yaml", nil, ""},
		"another model":               {"scripted:demo.yaml", "**", "", "../demo.yaml", fault.HandleRefused, "models.allow"},
		"no entry of files.read":      {"scripted:*", "", "", "demo.yaml", fault.HandleRefused, "files.read.allow is empty"},
		"outside of the workspace":    {"scripted:*", "**", "", outside + "/good.yaml", fault.HandleRefused, "files.read"},
		"outside, and not there":      {"scripted:*", "**", "", outside + "/none.yaml", fault.HandleRefused, "files.read"},
		"outside, allowed":            {"scripted:*", outside + "/**", "", outside + "/good.yaml", nil, ""},
		"a link to a file not opened": {"scripted:*", "**", "", "link.yaml", fault.HandleRefused, "files.read"},
		"a link to a file opened":     {"scripted:*", outside + "/**\", \"**", "", "link.yaml", nil, ""},
		"denied":                      {"scripted:*", "**", "demo.yaml", "demo.yaml", fault.HandleRefused, "files.read.deny"},
		"denied where a link leads":   {"scripted:*", outside + "/**\", \"**", outside + "/good.yaml", "link.yaml", fault.HandleRefused, "files.read.deny"},
		"a device":                    {"scripted:*", "/dev/zero", "", "/dev/zero", fault.ToolFailed, "is a device"},
		"a reader is told":            {"scripted:*", outside + "/**", "", outside + "/secret.yaml", fault.ModelFailed, "hunter2"},
		"a reader is told of nothing": {"scripted:*", outside + "/**", "", outside + "/none.yaml", fault.NotFound, "does not exist"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			doc := fmt.Sprintf("version: 1\nname: t\nmodels: {allow: [%q]}\nfiles: {read: {allow: [\"%s\"], deny: [\"%s\"]}}\n", tt.models, tt.allow, tt.deny)
			doc = strings.ReplaceAll(doc, `[""]`, `[]`)
			_, err := permittest.Run(t.Context(), modelchat.New(options("")), permitFor(t, dir, doc, 0, 0), hello(t, "scripted:"+tt.id))
			if !errors.Is(err, tt.want) || err != nil && !strings.Contains(err.Error(), tt.text) {
				t.Errorf("got %v, want %v with %q", err, tt.want, tt.text)
			}
		})
	}
}

func TestASessionRefersToItsConversation(t *testing.T) {
	turn := modelchat.Turn{System: "s", Messages: []model.Message{{Role: model.User, Text: "Hello"}}, Tools: []model.Tool{{Name: "read", Input: json.RawMessage(`{}`)}}}
	var err error
	for _, m := range turn.Messages {
		if turn.Digests.Messages, err = modelchat.Extend(turn.Digests.Messages, m); err != nil {
			t.Fatal(err)
		}
	}
	if turn.Digests.System, err = modelchat.DigestOf(turn.System); err != nil {
		t.Fatal(err)
	}
	if turn.Digests.Tools, err = modelchat.DigestOf(turn.Tools); err != nil {
		t.Fatal(err)
	}
	tl := modelchat.ForSession(options(""), func(int) (modelchat.Turn, error) { return turn, nil })
	plain := modelchat.New(options(""))
	if tl.Spec().Digest() != plain.Spec().Digest() {
		t.Error("a session's tool is another one")
	}
	ask := func(a tool.Args) (model.Response, error) {
		res, err := permittest.Run(t.Context(), tl, world().Permit(t), a)
		if err != nil {
			return model.Response{}, err
		}
		return modelchat.Answer(res.Output)
	}
	short := modelchat.Refer("scripted:demo.yaml", "session-1", 1, turn.Digests, 100)
	got, err := ask(short)
	want, werr := ask(args(t, `{"model":"scripted:demo.yaml","system":"s","messages":[{"role":"user","text":"Hello"}],"tools":[{"name":"read","input":{}}],"max_tokens":100}`))
	if err != nil || werr != nil {
		t.Fatal(err, werr)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	for _, field := range []string{"digest", "system_digest", "tools_digest"} {
		other := modelchat.Refer("scripted:demo.yaml", "session-1", 1, turn.Digests, 100)
		other[field] = tool.Digest{}.String()
		var e *fault.Error
		if _, err := ask(other); !errors.As(err, &e) || e.Code != fault.ArgsInvalid || e.Field != field {
			t.Errorf("another %s: got %v", field, err)
		}
	}
}

// TestTheAnswerIsToldWordByWord: each word whole, all of them in order.
func TestTheAnswerIsToldWordByWord(t *testing.T) {
	var b strings.Builder
	text := "sk-secret-value 東京 is " + strings.Repeat("x", 20_000) + " done"
	for _, r := range text {
		fmt.Fprintf(&b, `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":%q}}]}`+"\n\n", string(r))
	}
	b.WriteString(`data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n")
	s := serving(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(b.String())) })
	var told []string
	ctx := tool.WithProgress(t.Context(), func(p tool.Progress) { told = append(told, p.Message) })
	if _, err := permittest.Run(ctx, modelchat.New(options(s.URL)), world().Permit(t), hello(t, "local/any")); err != nil {
		t.Fatal(err)
	}
	if strings.Join(told, "") != text || len(told) < 5 || told[0] != "sk-secret-value " {
		t.Errorf("told in %d pieces, first %q", len(told), told[0])
	}
}

func TestActions(t *testing.T) {
	tl := modelchat.New(options(""))
	for id, want := range map[string]string{
		"scripted/x/../a.yaml": `models scripted:a.yaml, files.read "/w/a.yaml"`, "scripted:/etc/shadow": `models scripted:/etc/shadow, files.read "/etc/shadow"`,
		"local/any": "models local/any", "none/of/these": "models none/of/these",
	} {
		actions, err := permittest.Actions(tl, tool.Env{Workspace: "/w"}, hello(t, id))
		var got []string
		for _, a := range actions {
			got = append(got, a.String())
		}
		if err != nil || strings.Join(got, ", ") != want {
			t.Errorf("%s: got %s (%v), want %s", id, got, err, want)
		}
	}
	for id, unknown := range map[string]int{"x\x1b/y": 0, "scripted:" + strings.Repeat("x", 300): 1} {
		actions, err := permittest.Actions(tl, tool.Env{Workspace: "/w"}, tool.Args{"model": id})
		if err != nil || len(actions) != unknown+1 || actions[unknown].Unknown == "" {
			t.Errorf("%.20q: got %v (%v)", id, actions, err)
		}
	}
}
