package model_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"math/big"
	"net/http"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

func TestParseID(t *testing.T) {
	tests := map[string]struct{ provider, name string }{
		"anthropic/claude-sonnet-4-5": {"anthropic", "claude-sonnet-4-5"}, "local/qwen2.5:7b": {"local", "qwen2.5:7b"},
		"openrouter/meta-llama/llama-3": {"openrouter", "meta-llama/llama-3"}, "scripted:a.yaml": {"scripted", "a.yaml"},
		"scripted:/tmp/a b.yaml": {"scripted", "/tmp/a b.yaml"}, "scripted/a.yaml": {"scripted", "a.yaml"},
		"": {}, "gpt-4": {}, "/x": {}, ":x": {}, "openai/": {}, "openai:gpt-4": {}, "a/b\nc": {}, "a/\u202eb": {}, "a/\xff": {},
		"a/" + strings.Repeat("x", 2000): {},
	}
	for id, want := range tests {
		p, n, err := model.ParseID(id)
		if p != want.provider || n != want.name || (err != nil) != (want.provider == "") || err != nil && !errors.Is(err, fault.ModelUnknown) {
			t.Errorf("%.80q: got %q and %.80q (%v), want %q and %q", id, p, n, err, want.provider, want.name)
		}
	}
}

// TestOneSpelling: whatever a policy is asked about has one spelling.
func TestOneSpelling(t *testing.T) {
	for id, want := range map[string]string{
		"scripted:a.yaml": "scripted:a.yaml", "scripted/a.yaml": "scripted:a.yaml", "scripted:./x/../a.yaml": "scripted:a.yaml",
		"scripted:///etc//shadow": "scripted:/etc/shadow", "scripted:tests/../../etc/x": "scripted:../etc/x", "openai/a/../b": "openai/a/../b",
	} {
		if got, err := model.Canonical(id); got != want || err != nil {
			t.Errorf("%q: got %q (%v), want %q", id, got, err, want)
		}
	}
	rapid.Check(t, func(t *rapid.T) {
		id := "scripted" + rapid.SampledFrom([]string{":", "/"}).Draw(t, "sep") + rapid.StringMatching(`[a./ -~]{1,30}`).Draw(t, "name")
		once, err := model.Canonical(id)
		if err != nil {
			t.Skip("no ID")
		}
		if twice, err := model.Canonical(once); err != nil || twice != once {
			t.Fatalf("%q became %q, then %q (%v)", id, once, twice, err)
		}
	})
}

type fake struct {
	model.Provider
	name string
}

func (f fake) Name() string               { return f.name }
func (f fake) Limits(string) model.Limits { return model.Limits{Context: 7} }

func TestRegistry(t *testing.T) {
	r := &model.Registry{Providers: []model.Provider{fake{name: "one"}, fake{name: "two"}}, Prices: map[string]model.Prices{
		"one/*": {Input: 1}, "one/big*": {Input: 2}, "one/big-exact": {Input: 3}},
		Bounds: map[string]model.Bounds{"two/*": {MaxOutput: 5}, "two/exact": {Context: 9}}}
	for id, want := range map[string]int64{"one/small": 1, "one/bigger": 2, "one/big-exact": 3} {
		if l := r.Limits(id); l.Prices == nil || l.Prices.Input != want || l.Context != 7 {
			t.Errorf("%s: got %+v, want a price of %d", id, l, want)
		}
	}
	if l := r.Limits("two/x"); l.Context != 7 || l.MaxOutput != 5 {
		t.Errorf("what is said and what is known: got %+v", l)
	}
	if l := r.Limits("two/exact"); l.Context != 9 || l.MaxOutput != 0 {
		t.Errorf("the ID itself counts before all: got %+v", l)
	}
	if l := r.Limits("two/x"); l.Prices != nil {
		t.Errorf("got the price %+v of a model that has none", l.Prices)
	}
	for _, none := range []*model.Registry{r, nil} {
		var e *fault.Error
		if _, _, err := none.Find("three/x"); !errors.As(err, &e) || e.Code != fault.ModelUnknown || e.Hint == "" {
			t.Errorf("got %v", err)
		}
	}
}

func TestPricesNeverOverflowAndRoundUp(t *testing.T) {
	if got := (model.Prices{Input: 1}).Of(model.Usage{Input: 1}); got != 1 {
		t.Errorf("one token at the least price costs %d, want 1", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Int64Range(0, math.MaxInt64)
		p := model.Prices{Input: n.Draw(t, "pi"), Output: n.Draw(t, "po"), CacheRead: n.Draw(t, "pr"), CacheWrite: n.Draw(t, "pw")}
		u := model.Usage{Input: n.Draw(t, "i"), Output: n.Draw(t, "o"), CacheRead: n.Draw(t, "r"), CacheWrite: n.Draw(t, "w")}
		sum := new(big.Int)
		for _, f := range [][2]int64{{u.Input, p.Input}, {u.Output, p.Output}, {u.CacheRead, p.CacheRead}, {u.CacheWrite, p.CacheWrite}} {
			sum.Add(sum, new(big.Int).Mul(big.NewInt(f[0]), big.NewInt(f[1])))
		}
		sum.Add(sum, big.NewInt(999_999))
		sum.Div(sum, big.NewInt(1_000_000))
		want := int64(math.MaxInt64)
		if sum.IsInt64() {
			want = sum.Int64()
		}
		if got := p.Of(u); got != want {
			t.Fatalf("got %d, want %d", got, want)
		}
	})
}

func TestUsageThatCannotBe(t *testing.T) {
	for _, u := range []model.Usage{{Input: -1}, {Output: 1 << 60}, {CacheRead: math.MinInt64}} {
		if err := u.Check(); !errors.Is(err, fault.ModelFailed) {
			t.Errorf("%+v: got %v", u, err)
		}
	}
	if err := (model.Usage{Input: 1 << 30}).Check(); err != nil {
		t.Error(err)
	}
}

func TestNewCall(t *testing.T) {
	tests := map[string]struct {
		name, args string
		want       string // of Args
		malformed  bool
		cut        bool
	}{
		"an object":           {"a", ` {"x" : [1, 2] } `, `{"x":[1,2]}`, false, false},
		"nothing":             {"a", "  ", `{}`, false, false},
		"a list":              {"a", `[1]`, `"[1]"`, true, false},
		"two values":          {"a", `{} {}`, `"{} {}"`, true, false},
		"a key twice":         {"a", `{"x":1,"x":2}`, `"{\"x\":1,\"x\":2}"`, true, false},
		"a comma too many":    {"a", `{"x":1,}`, `"{\"x\":1,}"`, true, false},
		"cut in a text":       {"a", `{"x":"ab`, `"{\"x\":\"ab"`, true, true},
		"cut in a word":       {"a", `{"x":tr`, `"{\"x\":tr"`, true, true},
		"cut after a colon":   {"a", `{"x":`, `"{\"x\":"`, true, true},
		"not UTF-8":           {"a", "{\"x\":\"\xff\"}", `"{\"x\":\"�\"}"`, true, false},
		"a number too large":  {"a", `{"x":1e999}`, `"{\"x\":1e999}"`, true, false},
		"no name":             {"", `{}`, `"{}"`, true, false},
		"a name of two lines": {"a\nb", `{}`, `"{}"`, true, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			c := model.NewCall("id", tt.name, tt.args)
			if string(c.Args) != tt.want || (c.Malformed != "") != tt.malformed {
				t.Errorf("got %s (%s)", c.Args, c.Malformed)
			}
			if got := model.CutOff(tt.args); got != tt.cut {
				t.Errorf("cut off: got %v", got)
			}
		})
	}
	long := model.NewCall("id", strings.Repeat("x", 5000), "{}")
	if len(long.Name) > 300 || long.Malformed == "" {
		t.Errorf("a name of 5000 bytes became one of %d", len(long.Name))
	}
}

// FuzzNewCall: what a model writes becomes JSON that can be kept, whatever it is.
func FuzzNewCall(f *testing.F) {
	f.Add("id", "name", `{"a":1}`)
	f.Add("", "\n", `{"a`)
	f.Fuzz(func(t *testing.T, id, name, args string) {
		c := model.NewCall(id, name, args)
		b, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		var back model.Call
		if err := json.Unmarshal(b, &back); err != nil || back.Malformed != c.Malformed {
			t.Fatalf("%s is read as %+v (%v)", b, back, err)
		}
		var v any
		if err := json.Unmarshal(c.Args, &v); err != nil {
			t.Fatal(err)
		}
		if _, isObject := v.(map[string]any); isObject == (c.Malformed != "") {
			t.Fatalf("%s: malformed is %q", c.Args, c.Malformed)
		}
		for _, safe := range []string{model.SafeID(id), model.SafeName(name)} {
			if safe == "" || len(safe) > 64 || strings.Trim(safe, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-") != "" {
				t.Fatalf("%q is not safe", safe)
			}
		}
	})
}

func TestEachCallHasAnIDOfItsOwn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ids := rapid.SliceOf(rapid.SampledFrom([]string{"", "a", "b", "call_1", "call_2", "x\n", strings.Repeat("y", 600)})).Draw(t, "ids")
		list := make([]model.Call, len(ids))
		first := map[string]int{}
		for i, id := range ids {
			list[i].ID = id
			if _, ok := first[id]; !ok {
				first[id] = i
			}
		}
		seen := map[string]bool{}
		for i, c := range model.Calls(list) {
			if c.ID == "" || seen[c.ID] {
				t.Fatalf("call %d has the ID %q of another", i, c.ID)
			}
			if ids[i] != "" && len(ids[i]) < 500 && ids[i] != "x\n" && first[ids[i]] == i && c.ID != ids[i] {
				t.Fatalf("call %d lost its ID %q", i, ids[i])
			}
			seen[c.ID] = true
		}
	})
}

func TestRequestCheck(t *testing.T) {
	user, asked := model.Message{Role: model.User, Text: "a"}, model.Message{Role: model.Assistant, Calls: []model.Call{{ID: "1"}, {ID: "2"}}}
	result := func(id string) model.Message { return model.Message{Role: model.ToolRole, CallID: id} }
	tests := map[string]struct {
		ms    []model.Message
		field string
	}{
		"one message":            {[]model.Message{user}, ""},
		"results":                {[]model.Message{user, asked, result("2"), result("1"), user}, ""},
		"nothing":                {nil, "messages"},
		"the assistant first":    {[]model.Message{asked}, "messages[0].role"},
		"a role that is none":    {[]model.Message{{Role: "system"}}, "messages[0].role"},
		"a result of nothing":    {[]model.Message{user, result("1")}, "messages[1].tool_call_id"},
		"a result twice":         {[]model.Message{user, asked, result("1"), result("1")}, "messages[3].tool_call_id"},
		"a result that is due":   {[]model.Message{user, asked, result("1")}, "messages"},
		"a result that is late":  {[]model.Message{user, asked, user, result("1")}, "messages[2]"},
		"the person calls tools": {[]model.Message{{Role: model.User, Calls: asked.Calls}}, "messages[0].tool_calls"},
	}
	for name, tt := range tests {
		err := model.Request{Messages: tt.ms}.Check()
		var e *fault.Error
		if (err != nil) != (tt.field != "") || errors.As(err, &e) && (e.Field != tt.field || e.Code != fault.ArgsInvalid) {
			t.Errorf("%s: got %v, want an error of %q", name, err, tt.field)
		}
	}
}

func TestRetry(t *testing.T) {
	failed := errors.New("no")
	var slept []time.Duration
	sleep := func(ctx context.Context, d time.Duration) error {
		slept = append(slept, d)
		return ctx.Err()
	}
	n := 0
	_, err := model.Retry(t.Context(), sleep, func() (model.Response, error) { n++; return model.Response{}, model.Again(failed, 0) })
	if !errors.Is(err, failed) || n != 4 || len(slept) != 3 || slept[2] <= slept[1] {
		t.Errorf("got %v after %d times and %v", err, n, slept)
	}
	n = 0
	if _, err := model.Retry(t.Context(), sleep, func() (model.Response, error) { n++; return model.Response{}, failed }); err != failed || n != 1 {
		t.Errorf("what is not marked: got %v after %d times", err, n)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := model.Retry(ctx, sleep, func() (model.Response, error) { return model.Response{}, model.Again(failed, 0) }); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: got %v", err)
	}
}

func TestHearWhatServicesSay(t *testing.T) {
	tests := map[string]struct {
		body string
		want model.Said
	}{
		"Anthropic":        {`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, model.Said{Kind: "overloaded_error", Text: "Overloaded"}},
		"OpenAI":           {`{"error":{"message":"no","type":"invalid_request_error","code":"model_not_found"}}`, model.Said{Kind: "model_not_found", Text: "no"}},
		"what the SDK has": {`{"message":"no","type":"server_error","code":null}`, model.Said{Kind: "server_error", Text: "no"}},
		"llama.cpp":        {`{"error":{"code":400,"message":"the request exceeds the available context size","type":"exceed_context_size_error"}}`, model.Said{Kind: "exceed_context_size_error", Text: "the request exceeds the available context size"}},
		"a plain text":     {`{"error":"model not found"}`, model.Said{Text: "model not found"}},
		"no JSON":          {`<html>`, model.Said{Text: `<html>`}},
	}
	for name, tt := range tests {
		if got := model.Hear(0, nil, tt.body); got != tt.want {
			t.Errorf("%s: got %+v, want %+v", name, got, tt.want)
		}
	}
	for value, want := range map[string]time.Duration{"7": 7 * time.Second, "0.5": time.Second / 2, "-3": 0, "x": 0, "": 0} {
		if got := model.Hear(429, http.Header{"Retry-After": {value}}, "").After; got != want {
			t.Errorf("Retry-After %q: got %v, want %v", value, got, want)
		}
	}
}
