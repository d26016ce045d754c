package mcp_test

import (
	"bytes"
	"encoding/json"
	"io"
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// Each block is kept as it is, or named, and no block takes others with it.
func TestContentOfAnyKind(t *testing.T) {
	blocks := map[string]string{ // and the words that the text in their place has; "": the block is kept
		`{"type":"text","text":"a"}`:                                     "",
		`{"type":"image","data":"aGk=","mimeType":"image/png"}`:          "",
		`{"type":"resource_link","uri":"file:///x","name":"x"}`:          "",
		`{"type":"future_kind","z":1}`:                                   `"future_kind", which cannot be read here: {"type":"future_kind","z":1}`,
		`{"type":"video","data":"` + strings.Repeat("aGk=", 2000) + `"}`: `left out: content of the kind "video", 8026 bytes`,
		`{"type":"image","data":"no base64!"}`:                           `kind "image"`,
		`{"type":"text","text":5}`:                                       `kind "text"`,
		`{"type":7}`:                                                     `kind "7"`,
		`{"text":"a"}`:                                                   "without a kind",
		`null`:                                                           "without a kind",
		`17`:                                                             "without a kind",
		`"a plain string"`:                                               "a plain string",
		`[{"type":"text","text":"a"}]`:                                   "without a kind",
	}
	var all []string
	for b := range blocks {
		all = append(all, b)
	}
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfN(rapid.SampledFrom(all), 1, 6).Draw(t, "blocks")
		raw, err := mcp.Mend("tools/call", `{"content":[`+strings.Join(some, ",")+`],"structuredContent":{"kept":[1]},"isError":false}`)
		if err != nil {
			t.Fatal(err)
		}
		var res sdk.CallToolResult
		var got struct {
			Content    []json.RawMessage `json:"content"`
			Structured json.RawMessage   `json:"structuredContent"`
		}
		if err := json.Unmarshal(raw, &res); err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		if err := json.Unmarshal(raw, &got); err != nil || len(got.Content) != len(some) || string(got.Structured) != `{"kept":[1]}` {
			t.Fatalf("%s: %v", raw, err)
		}
		for i, b := range some {
			if blocks[b] == "" && string(got.Content[i]) != b {
				t.Fatalf("%s became %s", b, got.Content[i])
			}
			if text, ok := res.Content[i].(*sdk.TextContent); blocks[b] != "" && (!ok || !strings.Contains(text.Text, blocks[b])) {
				t.Fatalf("%.200s became %.300s; want %s", b, got.Content[i], blocks[b])
			}
		}
	})
}

func TestResultsOfAnyKind(t *testing.T) {
	for result, want := range map[string]string{ // words of the error, or of the result
		`{"resultType":"task","taskId":"t1","status":"working"}`:                               `error: type "task"`,
		`{"resultType":"later","content":[{"type":"text","text":"x"}]}`:                        `error: type "later"`,
		`{"resultType":3,"content":[]}`:                                                        `error: type "3"`,
		`{"task":{"taskId":"t1","status":"working"}}`:                                          "error: a task",
		`{"task":{"taskId":"t1","status":"completed"}}`:                                        "error: a task",
		`{"task":{"taskId":"t1","status":"working"},"content":[]}`:                             "error: a task",
		`{"task":{"taskId":"t1"},"content":[{"type":"text","text":"begun"}]}`:                  "error: a task",
		`{"task":{"taskId":"t1","status":"completed"},"content":[{"type":"text","text":"x"}]}`: `"text":"x"`,
		`{"resultType":"complete","content":[{"type":"text","text":"x"}]}`:                     `"text":"x"`,
		`{"resultType":null,"content":[{"type":"text","text":"x"}]}`:                           `"text":"x"`,
		`{"resultType":"input_required","inputRequests":{"a":{}}}`:                             "input_required",
		`{"toolResult":{"answer":42}}`:                                                         `{\"toolResult\":{\"answer\":42}}`,
		`{"content":"only text"}`:                                                              `[{"text":"only text","type":"text"}]`,
		`{"content":{"type":"text","text":"x"}}`:                                               `[{"type":"text","text":"x"}]`,
		`{"content":null,"structuredContent":[1]}`:                                             `"structuredContent":[1]`,
		`{"structuredContent":"text"}`:                                                         `{"structuredContent":"text"}`,
		`{}`:                                                                                   `{}`,
		`{"_meta":{},"isError":true}`:                                                          `{"_meta":{},"isError":true}`,
	} {
		raw, err := mcp.Mend("tools/call", result)
		got := string(raw)
		if err != nil {
			got = "error: " + err.Error()
			if !strings.Contains(got, "not supported") {
				t.Errorf("%s: got %s", result, got)
			}
		}
		prefix, words, isError := strings.Cut(want, "error: ")
		if !isError {
			words = prefix
		}
		if isError != (err != nil) || !strings.Contains(got, words) {
			t.Errorf("%s: got %s, want %s", result, got, want)
		}
	}
	raw, err := mcp.Mend("prompts/get", `{"messages":[{"role":"user","content":{"type":"hologram"}},{"role":"assistant","content":{"type":"text","text":"x"}}]}`)
	var p sdk.GetPromptResult
	if err != nil || json.Unmarshal(raw, &p) != nil || len(p.Messages) != 2 || !strings.Contains(string(raw), "hologram") {
		t.Errorf("got %s, %v", raw, err)
	}
}

// Messages come through whatever is written between them, and however the output is cut.
func TestNoiseBetweenMessages(t *testing.T) {
	messages := []string{`{"jsonrpc":"2.0","id":1,"result":{}}`, `[{"jsonrpc":"2.0","method":"x"}]`, ` {"id":2,"jsonrpc":"2.0","result":{"a":"\n"}}`}
	noise := []string{"npm warn exec", "✓ server ready", "[INFO] up", "{ name: 'x' }", `{"level":"info","msg":"up"}`, "[1]", "{", "}", `"jsonrpc"`, "42", "null", "{\n  x: 1\n}"}
	rapid.Check(t, func(t *rapid.T) {
		var in, want strings.Builder
		skipped := 0
		for range rapid.IntRange(0, 8).Draw(t, "lines") {
			end := rapid.SampledFrom([]string{"\n", "\r\n"}).Draw(t, "end")
			if rapid.Bool().Draw(t, "message") {
				m := rapid.SampledFrom(messages).Draw(t, "which")
				in.WriteString(m + end)
				want.WriteString(strings.TrimSpace(m))
				continue
			}
			n := rapid.SampledFrom(noise).Draw(t, "noise")
			in.WriteString(n + end)
			skipped += strings.Count(n, "\n") + 1
		}
		s := in.String()
		var parts []io.Reader
		for len(s) > 0 {
			n := rapid.IntRange(1, len(s)).Draw(t, "piece")
			parts, s = append(parts, strings.NewReader(s[:n])), s[n:]
		}
		var told bytes.Buffer
		got, err := io.ReadAll(mcp.Messages(io.MultiReader(parts...), &told))
		var flat strings.Builder
		for line := range strings.Lines(string(got)) {
			flat.WriteString(strings.TrimSpace(line))
		}
		if err != nil || flat.String() != want.String() || strings.Count(told.String(), "\n") != skipped {
			t.Fatalf("%q: got %q, %v, and the noise %q (%d lines); want %q and %d lines", in.String(), got, err, told.String(), strings.Count(told.String(), "\n"), want.String(), skipped)
		}
	})
}

func TestMessagesInOtherForms(t *testing.T) {
	for in, want := range map[string]string{
		"{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 1,\n  \"result\": {\n  }\n}\n": `{"jsonrpc":"2.0","id":1,"result":{}}`,
		"\xef\xbb\xbf{\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n":                `{"jsonrpc":"2.0","method":"x"}`,
		"loading... {\"jsonrpc\":\"2.0\",\"method\":\"x\"}\n":                 `{"jsonrpc":"2.0","method":"x"}`,
		"{\"jsonrpc\":\"2.0\",\"method\":\"x\"}":                              `{"jsonrpc":"2.0","method":"x"}`,
	} {
		raw, err := io.ReadAll(mcp.Messages(strings.NewReader(in), io.Discard))
		var got bytes.Buffer
		if err != nil || json.Compact(&got, bytes.TrimPrefix(raw, []byte("\xef\xbb\xbf"))) != nil || got.String() != want {
			t.Errorf("%q: got %q, %v", in, raw, err)
		}
	}
	if _, err := io.ReadAll(mcp.Messages(strings.NewReader("{\"jsonrpc\":\"2.0\",\"id\":\n"), io.Discard)); err == nil {
		t.Error("a broken message is passed over")
	}
}
