package agent

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

func TestModelsGetNoBytesOfPictures(t *testing.T) {
	const content = "aGVsbG8="
	image := map[string]any{"media_type": "image/png", "path": "/plot.png", "content_base64": content}
	for name, tt := range map[string]struct {
		out  map[string]any
		left bool
	}{
		"a screenshot": {map[string]any{"media_type": "image/png", "title": "T", "content_base64": content}, true},
		"a document":   {map[string]any{"media_type": "application/pdf", "content_base64": content}, true},
		"plots":        {map[string]any{"stdout": "T", "images": []any{image, image}}, true},
		"other bytes":  {map[string]any{"media_type": "application/zip", "content_base64": content}, false},
		"other images": {map[string]any{"images": []any{"a", map[string]any{"url": content}}}, false},
	} {
		text := resultOf(runner.Outcome{Status: tool.Completed, Output: tt.out}, nil, 1<<10).text
		if strings.Contains(text, content) == tt.left {
			t.Errorf("%s: the model gets %s", name, text)
		}
	}
	if image["content_base64"] != content {
		t.Error("the output itself was changed")
	}
	long := map[string]any{"media_type": "image/png", "content_base64": content, "title": strings.Repeat("x", 2000)}
	if text := resultOf(runner.Outcome{Status: tool.Completed, Output: long}, nil, 1<<10).text; !strings.Contains(text, `"output_id"`) {
		t.Errorf("a long output is given as %s", text)
	}
}

// The _meta of a server's result is for clients: a model does not get it.
func TestModelsDoNotGetMeta(t *testing.T) {
	out := map[string]any{"content": []any{}, "_meta": map[string]any{"a": "b"}}
	for id, want := range map[tool.ID]string{"mcp:s:t": `{"content":[]}`, "api:s:t": `{"_meta":{"a":"b"},"content":[]}`} {
		if got := plainResult(runner.Outcome{Tool: id, Status: tool.Completed, Output: out}, nil, 1000).text; got != want {
			t.Errorf("%s: got %s, want %s", id, got, want)
		}
	}
	if out["_meta"] == nil {
		t.Error("the output was changed")
	}
}
