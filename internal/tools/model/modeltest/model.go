// Package modeltest is the contract of model providers as tests: every provider
// passes [Model]. Start there.
package modeltest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
)

// KeyValue is the key that services of the suite want.
const KeyValue = "sk-conform-0123456789"

// Case is a provider's input to the tests of its contract.
type Case struct {
	// Provider makes the provider of a service at a URL, and its way there: where
	// no key is to be sent, the way has none. Between requests it waits as pause
	// says.
	Provider func(t *testing.T, url string, keyed bool, pause func(context.Context, time.Duration) error) (model.Provider, model.Reach)
	Model    string   // the name of a model
	Streams  []Stream // of the service, at least one of them with text
	// Endless begins an answer of text; Piece is a piece of it that can come again
	// and again.
	Endless, Piece string
	// TooLong is the body of a refusal (status 400) of a conversation that is too
	// long, Overloaded that of one that came within an answer.
	TooLong, Overloaded string
}

// Stream is an answer as a service sends it.
type Stream struct {
	Name string
	Body []byte
	Want Answer
}

// Answer is the expected reading of a stream.
type Answer struct {
	Text   string
	Calls  []model.Call
	Stop   model.Stop
	Tokens int64      // in all
	Fresh  bool       // Tokens are without those that caches gave or took
	Err    fault.Code // 0: none
}

// diff tells how a response differs; "" where it does not.
func (w Answer) diff(r model.Response, err error) string {
	if w.Err != 0 {
		if errors.Is(err, w.Err) && r.Message.Role == "" && r.Stop == "" {
			return ""
		}
		return fmt.Sprintf("got %v and %+v, want %v and nothing else", err, r.Message, w.Err)
	}
	if err != nil {
		return err.Error()
	}
	got := Answer{Text: r.Message.Text, Calls: r.Message.Calls, Stop: r.Stop, Tokens: r.Usage.Tokens(), Fresh: w.Fresh}
	if w.Fresh {
		got.Tokens = r.Usage.Input + r.Usage.Output
	}
	if d := cmp.Diff(w, got); d != "" {
		return d
	}
	if r.Message.Role != model.Assistant {
		return fmt.Sprintf("the role is %q", r.Message.Role)
	}
	return ""
}

// Model is the contract of every provider with a service.
func Model(t *testing.T, c Case) {
	t.Helper()
	if len(c.Streams) == 0 {
		t.Fatal("no streams: the contract would not be tested")
	}
	t.Run("it says where it is", func(t *testing.T) {
		p, _ := c.Provider(t, "http://127.0.0.1:1/base", true, nil)
		if n := p.Name(); n == "" || strings.ContainsAny(n, "/: ") {
			t.Errorf("the name %q cannot begin a model's ID", n)
		}
		if e := p.Endpoint(); e.Base != "http://127.0.0.1:1/base" || e.Header == "" || e.Key == "" {
			t.Errorf("got %+v", e)
		}
		if l := p.Limits("no-such-model"); l.Context != 0 || l.MaxOutput != 0 || l.Prices != nil {
			t.Errorf("of a model that nobody knows: %+v", l)
		}
	})
	t.Run("streams", func(t *testing.T) { checkStreams(t, c) })
	t.Run("trouble", func(t *testing.T) { checkTrouble(t, c) })
	t.Run("the way", func(t *testing.T) { checkWay(t, c) })
}

// modelService is a service that answers as it is told.
type modelService struct {
	*httptest.Server
	answer atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int64
	keys   sync.Map // the received keys
}

func newModelService(t *testing.T) *modelService {
	t.Helper()
	s := &modelService{}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.asked.Add(1)
		s.keys.Store(r.Header.Get("Authorization")+r.Header.Get("X-Api-Key"), true)
		_, _ = io.Copy(io.Discard, r.Body)
		(*s.answer.Load())(w, r)
	}))
	t.Cleanup(s.Close)
	return s
}

// says sets the answer from now on, and resets the count of requests.
func (s *modelService) says(h http.HandlerFunc) {
	s.asked.Store(0)
	s.answer.Store(&h)
}

// stream answers in pieces of at most n bytes, each sent by itself.
func stream(body []byte, n int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for piece := range slices.Chunk(body, n) {
			if _, err := w.Write(piece); err != nil {
				return
			}
			_ = http.NewResponseController(w).Flush()
		}
	}
}

// several reports whether the stream is of several answers, one after the other:
// a part of it may be a whole answer.
func (x Stream) several() bool {
	return bytes.Count(x.Body, []byte("event: message_start")) > 1 || bytes.Count(x.Body, []byte("event: response.completed")) > 1
}

// torn answers with a part of the body and then tears the connection, or ends as
// if that were all.
func torn(body []byte, tear bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		stream(body, max(len(body), 1))(w, r)
		if tear {
			panic(http.ErrAbortHandler)
		}
	}
}

func soaking() bool { return os.Getenv("REMIT_SOAK") != "" }

// hello is a request with all that one can have.
func (c Case) hello() model.Request {
	return model.Request{
		Model: c.Model, System: "Be brief.", MaxTokens: 1000,
		Messages: []model.Message{
			{Role: model.User, Text: "What is the weather in Paris and Rome?"},
			{Role: model.Assistant, Text: "Let me look.", Calls: []model.Call{
				{ID: "call_a", Name: "weather", Args: json.RawMessage(`{"city":"Paris"}`)},
				{ID: "call/b?", Name: "weather of", Args: json.RawMessage(`"{\"city\""`), Malformed: "unexpected end"},
			}},
			{Role: model.ToolRole, CallID: "call_a", Text: "sunny"},
			{Role: model.ToolRole, CallID: "call/b?", Text: "the arguments are no JSON", Failed: true},
			{Role: model.User, Text: "Go on."},
		},
		Tools: []model.Tool{{Name: "weather", Description: "Tells the weather.", Input: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}`)}},
	}
}

func atOnce(ctx context.Context, _ time.Duration) error { return ctx.Err() }

func checkStreams(t *testing.T, c Case) {
	s := newModelService(t)
	p, via := c.Provider(t, s.URL, true, atOnce)
	ask := func(on func(model.Delta)) (model.Response, error) { return p.Chat(t.Context(), via, c.hello(), on) }
	for _, x := range c.Streams {
		t.Run(x.Name, func(t *testing.T) {
			var told strings.Builder
			var calls int
			s.says(stream(x.Body, len(x.Body)))
			r, err := ask(func(d model.Delta) {
				told.WriteString(d.Text)
				if d.Call != nil {
					calls++
				}
			})
			if d := x.Want.diff(r, err); d != "" {
				t.Fatal(d)
			}
			if x.Want.Err == 0 && !x.several() && (!strings.HasSuffix(told.String(), x.Want.Text) || calls != len(x.Want.Calls)) {
				t.Errorf("told of %q and %d calls on the way", told.String(), calls)
			}
			if len(x.Body) < 10<<10 || soaking() {
				s.says(stream(x.Body, 1))
				if d := x.Want.diff(ask(nil)); d != "" {
					t.Errorf("byte by byte: %s", d)
				}
			}
			checkCuts(t, x, s, ask)
			checkSplits(t, c, x)
		})
	}
}

// offsets are places in a body: all of them, or a spread of them.
func offsets(n, few int) []int {
	step := 1
	if n > few {
		step = n/few + 1
	}
	var out []int
	for i := 0; i < n; i += step {
		out = append(out, i)
	}
	return append(out, max(n-1, 0))
}

// checkCuts cuts the stream anywhere: the rest is never taken for an answer.
func checkCuts(t *testing.T, x Stream, s *modelService, ask func(func(model.Delta)) (model.Response, error)) {
	few := 12
	if soaking() {
		few = 60
	}
	for i, at := range offsets(len(x.Body), few) {
		s.says(torn(x.Body[:at], i%2 == 0))
		r, err := ask(nil)
		switch {
		case err != nil && r.Message.Role != "":
			t.Fatalf("cut at byte %d: a part of the answer came with %v", at, err)
		case err == nil || x.Want.Err != 0 && errors.Is(err, x.Want.Err):
			want := x.Want
			if r.Usage == (model.Usage{}) { // the cut is between the end of the answer and its usage, which is then estimated
				want.Tokens, want.Fresh = 0, false
			}
			if d := want.diff(r, err); d != "" && !x.several() {
				t.Fatalf("cut at byte %d: %s", at, d)
			}
		case !errors.Is(err, fault.ModelFailed) && !errors.Is(err, fault.ModelCall):
			t.Fatalf("cut at byte %d: got %v", at, err)
		}
	}
}

// pieces answers requests with a body in two pieces, or where at is negative in
// pieces of one byte, without a network.
type pieces struct {
	body []byte
	at   int
}

func (w pieces) RoundTrip(req *http.Request) (*http.Response, error) {
	h := http.Header{"Content-Type": {"text/event-stream"}}
	r := iotest.OneByteReader(bytes.NewReader(w.body))
	if w.at >= 0 {
		r = io.MultiReader(bytes.NewReader(w.body[:w.at]), bytes.NewReader(w.body[w.at:]))
	}
	return &http.Response{StatusCode: http.StatusOK, Status: "200 OK", Header: h, Body: io.NopCloser(r), Request: req, ProtoMajor: 1, ProtoMinor: 1}, nil
}

// checkSplits lets the stream come split at every byte at once, and in two pieces,
// whichever they are.
func checkSplits(t *testing.T, c Case, x Stream) {
	few := 30
	if soaking() {
		few = max(100, 1<<20/len(x.Body)) // each reads all of the body
	}
	p, _ := c.Provider(t, "http://127.0.0.1:1", false, atOnce)
	for _, at := range append(offsets(len(x.Body), few), -1) {
		r, err := p.Chat(t.Context(), model.Reach{HTTP: pieces{x.Body, at}}, c.hello(), nil)
		if d := x.Want.diff(r, err); d != "" {
			t.Fatalf("split at byte %d (-1: at every one): %s", at, d)
		}
	}
}

// withText is a stream whose answer has text.
func (c Case) withText(t *testing.T) Stream {
	t.Helper()
	for _, x := range c.Streams {
		if x.Want.Err == 0 && x.Want.Text != "" {
			return x
		}
	}
	t.Fatal("no stream has text")
	return Stream{}
}

// RecordedStreams loads the recorded streams of a kind from $REMIT_TESTDATA; none
// if that is not set.
func RecordedStreams(t *testing.T, kind string) []Stream {
	t.Helper()
	dir := os.Getenv("REMIT_TESTDATA")
	if dir == "" {
		t.Log("REMIT_TESTDATA names no folder with recorded streams: only our own are tested")
		return nil
	}
	src, err := os.ReadFile(filepath.Join(dir, "llm", "index.json"))
	if err != nil {
		t.Fatal(err)
	}
	var index []recorded
	if err := json.Unmarshal(src, &index); err != nil {
		t.Fatal(err)
	}
	var out []Stream
	for _, x := range index {
		if x.Kind != kind {
			continue
		}
		body, err := os.ReadFile(filepath.Join(dir, "llm", x.File))
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, Stream{Name: filepath.Base(x.File), Body: body, Want: x.want(t)})
	}
	if len(out) == 0 {
		t.Fatalf("no recorded stream is of the kind %s", kind)
	}
	return out
}

// recorded is an entry of the index of recorded streams. The kinds have different
// fields.
type recorded struct {
	Kind, File string
	Expected   struct {
		Text         string
		ToolCalls    []recordedCall `json:"tool_calls"`
		StopReason   string         `json:"stop_reason"`
		InputTokens  int64          `json:"input_tokens"`
		OutputTokens int64          `json:"output_tokens"`
		Malformed    bool           `json:"malformed_tool_json"`
		Choices      []struct {
			Text, Refusal string
			ToolCalls     []recordedCall `json:"tool_calls"`
			FinishReason  string         `json:"finish_reason"`
		}
		TotalTokens int64 `json:"total_tokens"`
		Status      string
		UsageTotal  int64 `json:"usage_total"`
	}
}

type recordedCall struct {
	ID, Name, Arguments string
	CallID              string `json:"call_id"`
	Input               json.RawMessage
}

func (r recorded) want(t *testing.T) Answer {
	t.Helper()
	e := r.Expected
	w := Answer{Text: e.Text, Fresh: r.Kind == "anthropic_stream", Tokens: e.InputTokens + e.OutputTokens + e.TotalTokens + e.UsageTotal}
	calls, reason := e.ToolCalls, e.StopReason+e.Status
	if len(e.Choices) > 0 {
		c := e.Choices[0]
		w.Text, calls, reason = c.Text+c.Refusal, c.ToolCalls, c.FinishReason
		if c.Refusal != "" {
			reason = "refusal"
		}
	}
	for _, c := range calls {
		args := c.Arguments
		if c.Input != nil {
			var b bytes.Buffer
			if err := json.Compact(&b, c.Input); err != nil {
				t.Fatal(err)
			}
			args = b.String()
		}
		w.Calls = append(w.Calls, model.NewCall(c.ID+c.CallID, c.Name, args))
	}
	stops := map[string]model.Stop{"end_turn": model.StopEnd, "stop": model.StopEnd, "completed": model.StopEnd, "tool_use": model.StopCalls,
		"tool_calls": model.StopCalls, "max_tokens": model.StopLength, "length": model.StopLength, "refusal": model.StopRefused}
	w.Stop = stops[reason]
	if len(w.Calls) > 0 && w.Stop == model.StopEnd {
		w.Stop = model.StopCalls
	}
	switch {
	case e.Malformed:
		return Answer{Err: fault.ModelCall}
	case reason == "failed":
		return Answer{Err: fault.ModelBusy} // the one that is recorded: no quota is left
	case w.Stop == "":
		t.Fatalf("%s: nobody knows what %q stands for", r.File, reason)
	}
	return w
}
