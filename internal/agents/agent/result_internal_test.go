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
