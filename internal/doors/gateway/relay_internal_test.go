package gateway

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// relayed gives a server's answer to a client of a revision, and returns the JSON.
func relayedJSON(t *testing.T, output, revision string, o runner.Outcome) (string, *mcp.CallToolResult) {
	t.Helper()
	o.Tool = "mcp:s:t"
	if err := json.Unmarshal([]byte(output), &o.Output); err != nil {
		t.Fatal(err)
	}
	res := &mcp.CallToolResult{Meta: mcp.Meta{"run.remit/call": map[string]any{"index": 1}}}
	if !(&conn{}).relay(res, []byte(output), o, revision) {
		t.Fatalf("%s was not passed on", output)
	}
	b, err := json.Marshal(contentFirst(res))
	if err != nil {
		t.Fatal(err)
	}
	return string(b), res
}

// TestStructuredContentIsWhatTheClientKnows gives each form of structured content to clients of each revision.
func TestStructuredContentIsWhatTheClientKnows(t *testing.T) {
	for _, value := range []string{`{"x":1}`, `{}`, `[1,2]`, `"text"`, `5`, `true`} {
		for revision, knows := range map[string]bool{
			"": false, "2024-11-05": false, "2025-03-26": false, "2025-06-18": value[0] == '{', "2025-11-25": value[0] == '{', "2026-07-28": true,
		} {
			for content, want := range map[string]string{
				`[]`:                             `"content":[{"type":"text","text":` + quote(t, value) + `}]`,
				`[{"type":"text","text":"own"}]`: `"content":[{"type":"text","text":"own"}]`,
			} {
				got, _ := relayedJSON(t, `{"content":`+content+`,"structured":`+value+`}`, revision, runner.Outcome{})
				if !strings.HasPrefix(got, "{"+want) || strings.Contains(got, `"structuredContent":`+value) != knows || strings.Contains(got, "structuredContent") != knows {
					t.Errorf("%s with %s for %q: %s", value, content, revision, got)
				}
			}
		}
	}
	if got, _ := relayedJSON(t, `{"content":[]}`, "2025-11-25", runner.Outcome{}); !strings.HasPrefix(got, `{"content":[],`) {
		t.Errorf("an empty answer became %s", got)
	}
}

func quote(t *testing.T, s string) string {
	t.Helper()
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestContentKeepsItsKind passes each kind of content on, of answers that say that they failed as well.
func TestContentKeepsItsKind(t *testing.T) {
	for _, block := range []string{
		`{"type":"text","text":"t"}`, `{"type":"image","mimeType":"image/png","data":"iVBO"}`, `{"type":"audio","mimeType":"audio/wav","data":"UklG"}`,
		`{"type":"resource","resource":{"uri":"file:///x","text":"t"}}`, `{"type":"text","text":"t","annotations":{"audience":["user"]}}`,
	} {
		var wanted, got any
		text, _ := relayedJSON(t, `{"content":[`+block+`,`+block+`]}`, "2025-11-25", runner.Outcome{Status: tool.Failed, Err: errors.New("no")})
		var res struct {
			Content []any `json:"content"`
		}
		if err := errors.Join(json.Unmarshal([]byte(text), &res), json.Unmarshal([]byte(block), &wanted)); err != nil || len(res.Content) != 2 {
			t.Fatalf("%s: %v", text, err)
		}
		got = res.Content[1]
		a, errA := json.Marshal(got)
		b, errB := json.Marshal(wanted)
		if string(a) != string(b) || errA != nil || errB != nil {
			t.Errorf("%s became %s", b, a)
		}
	}
}

// TestMetaIsPassedOn gives the client a server's _meta, at the end, and nothing of it in the gateway's name.
func TestMetaIsPassedOn(t *testing.T) {
	got, _ := relayedJSON(t, `{"content":[],"_meta":{"a.example/b":{"c":[1]},"d":"}","run.remit/call":{"index":9},"run.remit/other":1}}`, "2025-11-25", runner.Outcome{})
	if want := `{"content":[],"_meta":{"a.example/b":{"c":[1]},"d":"}","run.remit/call":{"index":1}}}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
