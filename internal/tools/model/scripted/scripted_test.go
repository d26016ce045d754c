package scripted_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/model"
	"github.com/remitrun/remit/internal/tools/model/scripted"
)

// reach gives a way to one file.
func reach(content string) model.Reach {
	return model.Reach{File: func(string, int64) ([]byte, error) { return []byte(content), nil }}
}

const script = `# a demonstration
- text: I look.
  tool_calls:
    - {name: read_file, args: {path: /a.txt, limit: 10, deep: {yes: true, list: [1, 2.5, null, "x"]}}}
    - name: now
- tool_calls:
    - {name: write_file, id: own_id, args: '{"path": "/b", }'}
- text: Done.
- text: Nothing more to do.
  repeat: true
- {aside: true, text: In short.}
`

// said is a conversation in which the assistant spoke so often.
func said(n int) model.Request {
	r := model.Request{Model: "demo.yaml", Messages: []model.Message{{Role: model.User, Text: "Go"}}}
	for range n {
		r.Messages = append(r.Messages, model.Message{Role: model.Assistant, Text: "x"}, model.Message{Role: model.User, Text: "on"})
	}
	return r
}

func TestTurnsFollowTheConversation(t *testing.T) {
	tests := map[string]struct {
		r    model.Request
		text string
		call []model.Call
		stop model.Stop
	}{
		"the first": {said(0), "I look.", []model.Call{
			{ID: "call_1_1", Name: "read_file", Args: json.RawMessage(`{"deep":{"list":[1,2.5,null,"x"],"yes":true},"limit":10,"path":"/a.txt"}`)},
			{ID: "call_1_2", Name: "now", Args: json.RawMessage(`{}`)},
		}, model.StopCalls},
		"what a model wrote wrong": {said(1), "", []model.Call{model.NewCall("own_id", "write_file", `{"path": "/b", }`)}, model.StopCalls},
		"the third":                {said(2), "Done.", nil, model.StopEnd},
		"the last":                 {said(3), "Nothing more to do.", nil, model.StopEnd},
		"the last again":           {said(7), "Nothing more to do.", nil, model.StopEnd},
		"aside":                    {model.Request{Messages: said(0).Messages, Aside: true}, "In short.", nil, model.StopEnd},
		"after a summary":          {model.Request{Messages: said(1).Messages, Earlier: 1}, "Done.", nil, model.StopEnd},
		"no more than it may":      {model.Request{Messages: said(2).Messages, MaxTokens: 1}, "Done", nil, model.StopLength},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var told strings.Builder
			ask := func(on func(model.Delta)) model.Response {
				r, err := scripted.New().Chat(t.Context(), reach(script), tt.r, on)
				if err != nil {
					t.Fatal(err)
				}
				return r
			}
			got := ask(func(d model.Delta) { told.WriteString(d.Text) })
			if d := cmp.Diff(model.Message{Role: model.Assistant, Text: tt.text, Calls: tt.call}, got.Message); d != "" {
				t.Error(d)
			}
			if got.Stop != tt.stop || told.String() != tt.text || got.Usage.Tokens() <= 0 || got.Usage.Estimated {
				t.Errorf("stop %q, told %q, %+v", got.Stop, told.String(), got.Usage)
			}
			if d := cmp.Diff(got, ask(nil)); d != "" {
				t.Errorf("the same request is answered in another way: %s", d)
			}
		})
	}
}

func TestAfterTheLastTurn(t *testing.T) {
	_, err := scripted.New().Chat(t.Context(), reach("- text: a\n- text: b\n"), said(2), nil)
	var e *fault.Error
	if !errors.As(err, &e) || e.Code != fault.ModelFailed || !strings.Contains(e.Msg, "2 turns") || !strings.Contains(e.Hint, "repeat: true") {
		t.Errorf("got %v", err)
	}
	if _, err := scripted.New().Chat(t.Context(), reach("- tool_calls: [{name: a, args: '{\"b\": \"c'}]\n"), said(0), nil); !errors.Is(err, fault.ModelCall) {
		t.Errorf("a tool call that breaks off: got %v", err)
	}
	if r, err := scripted.New().Chat(t.Context(), reach("- text: a\n"), model.Request{Messages: said(0).Messages, Aside: true}, nil); err != nil || r.Message.Text == "" {
		t.Errorf("aside, where the script has nothing: got %+v, %v", r, err)
	}
}

// TestProblemsHaveTheirPlace compares what is refused with where and why.
func TestProblemsHaveTheirPlace(t *testing.T) {
	tests := map[string]struct{ src, want string }{
		"a text":             {"root:x:0:0\n", "1:1: a file of answers must be a list"},
		"nothing":            {"", "the file of answers is empty"},
		"a mapping":          {"turns: []\n", "1:1: a file of answers must be a list"},
		"no list entries":    {"[]\n", "1:1: a file of answers must be a list"},
		"no turn":            {"- hello\n", "1:3: turns[0]: must be a mapping"},
		"an empty turn":      {"- {}\n", "1:3: turns[0]: a turn must have text or tool_calls"},
		"an unknown key":     {"- text: a\n- {txt: b, text: c}\n", `2:4: turns[1].txt: unknown key "txt"`},
		"a key with content": {"- {\"my password is hunter2\": b, text: c}\n", `1:4: turns[0][…]: unknown key "…"`},
		"a number for text":  {"- text: 5\n", "1:9: turns[0].text: must be a string, not a number"},
		"a key twice":        {"- {text: a, text: b}\n", `the key "…" is given twice`},
		"no name":            {"- tool_calls: [{args: {}}]\n", "turns[0].tool_calls[0]: a tool call must have a name"},
		"args that are none": {"- tool_calls: [{name: a, args: [1]}]\n", "turns[0].tool_calls[0].args: must be a mapping"},
		"an alias":           {"- tool_calls: [{name: a, args: {x: &a [1], y: *a}}]\n", "anchors and aliases are not allowed"},
		"no YAML":            {"- text: \"a\n", "not valid YAML: …"},
		"an odd stop":        {"- {text: a, stop: soon}\n", "turns[0].stop: must be end or length or refused"},
		"after a repeated":   {"- {text: a, repeat: true}\n- text: b\n", "2:3: turns[1]: a turn with repeat must be the last one"},
		"repeat is no truth": {"- {text: a, repeat: often}\n", "turns[0].repeat: must be true or false"},
		"not a number":       {"- tool_calls: [{name: a, args: {x: .nan}}]\n", "not a number that JSON can hold"},
		"not UTF-8":          {"- text: \xff\n", "UTF-8"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := scripted.Parse("demo.yaml", []byte(tt.src))
			if err == nil || !strings.Contains(err.Error(), tt.want) || !errors.Is(err, fault.ModelFailed) {
				t.Errorf("got %v, want %q", err, tt.want)
			}
			for _, secret := range []string{"hunter2", "root:x"} {
				if err != nil && strings.Contains(err.Error(), secret) {
					t.Errorf("%v tells what is in the file", err)
				}
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := scripted.New().Chat(ctx, reach(script), said(0), nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if _, err := scripted.New().Chat(t.Context(), model.Reach{}, said(0), nil); !errors.Is(err, fault.HandleRefused) {
		t.Errorf("without a way: got %v", err)
	}
}

// TestAnyArguments: what a script gives a tool is what its YAML says, whichever it is.
func TestAnyArguments(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringMatching("[ -~äß東👋]*") // YAML reads other line breaks in its own way
		args := rapid.MapOf(text, rapid.OneOf(
			text.AsAny(), rapid.Int32().AsAny(), rapid.Bool().AsAny(), rapid.Just[any](nil),
			rapid.SliceOf(text).AsAny())).Draw(t, "args")
		b, err := json.Marshal([]any{map[string]any{"tool_calls": []any{map[string]any{"name": "a", "args": args}}}})
		if err != nil {
			t.Skip("no JSON")
		}
		s, err := scripted.Parse("x", b) // JSON is YAML
		if err != nil {
			t.Skip("not taken")
		}
		var want, got any
		w, _ := json.Marshal(args)
		if json.Unmarshal(w, &want) != nil || json.Unmarshal([]byte(s.Turns[0].Calls[0].Args), &got) != nil || !cmp.Equal(want, got) {
			t.Fatalf("%s became %s", w, s.Turns[0].Calls[0].Args)
		}
	})
}

// FuzzParse: a script that is taken answers each of its turns, and one that is not
// says where.
func FuzzParse(f *testing.F) {
	f.Add([]byte(script))
	f.Add([]byte("- text: a\n"))
	if dir := os.Getenv("REMIT_TESTDATA"); dir != "" {
		if b, err := os.ReadFile(filepath.Join(dir, "schema", "yaml_test_suite.jsonl")); err == nil {
			for line := range strings.SplitSeq(string(b), "\n") {
				f.Add([]byte(line))
			}
		}
	}
	f.Fuzz(func(t *testing.T, src []byte) {
		s, err := scripted.Parse("x", src)
		if err != nil {
			var list fault.List
			if !errors.As(err, &list) || list[0].Pos.Line < 1 {
				t.Fatalf("%v has no place", err)
			}
			return
		}
		if len(s.Turns)+len(s.Asides) == 0 {
			t.Fatal("a script without turns was taken")
		}
		for n := range s.Turns {
			r, err := scripted.New().Chat(t.Context(), reach(string(src)), said(n), nil)
			if err != nil && !errors.Is(err, fault.ModelCall) && !errors.Is(err, fault.ModelFailed) {
				t.Fatal(err)
			}
			if err == nil && !json.Valid(must(json.Marshal(r))) {
				t.Fatal("the answer is no JSON")
			}
		}
	})
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// A file is parsed once: what an answer costs does not grow with the turns of its file. A
// changed file counts at once.
func TestAFileIsParsedOnce(t *testing.T) {
	p := scripted.New()
	content := strings.Repeat("- text: a\n", 5000)
	via := model.Reach{File: func(string, int64) ([]byte, error) { return []byte(content), nil }}
	ask := func() string {
		r, err := p.Chat(t.Context(), via, said(0), nil)
		if err != nil {
			t.Fatal(err)
		}
		return r.Message.Text
	}
	if n := testing.AllocsPerRun(10, func() { ask() }); n > 500 {
		t.Errorf("an answer of a file of 5000 turns takes %.0f allocations", n)
	}
	content = "- text: b\n"
	if got := ask(); got != "b" {
		t.Errorf("after the file has changed, the answer is %q", got)
	}
}
