package typed_test

import (
	"bytes"
	"context"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/tools/typed"
)

type countArgs struct {
	Path   string `json:"path"`
	Needle string `json:"needle"`
}

// Tools returns the tools of this package.
func Tools() []permit.Tool {
	return []permit.Tool{typed.New(tool.Spec{
		ID: "text.count", Title: "Count a text", Version: "1", Risk: tool.Low, Effects: tool.EffectSet(tool.FSRead),
		Description: "Counts how often a text occurs in a file.",
		Input: typed.Object(`
			"path": {"type": "string", "minLength": 1, "maxLength": 4096, "description": "the file"},
			"needle": {"type": "string", "minLength": 1, "maxLength": 1000, "description": "the text to count"}`, "path", "needle"),
		Output: typed.Object(`"count": {"type": "integer"}`, "count"),
	}, prepare)}
}

// prepare returns the file that a call reads, and the function that counts.
func prepare(env tool.Env, a countArgs) (permit.Prepared, error) {
	read := tool.Action{Kind: tool.FileRead}
	var err error
	if read.Path, err = files.Clean(env, a.Path); err != nil {
		read.Unknown = fault.Message(err) // every policy denies it
	}
	return permit.Prepared{
		Actions: []tool.Action{read},
		Run: func(_ context.Context, p permit.Permit) (tool.Result, error) {
			content, err := files.New(p).ReadAll(a.Path)
			if err != nil {
				return tool.Result{}, err
			}
			n := bytes.Count(content, []byte(a.Needle))
			return tool.Result{Output: map[string]any{"count": n}}, nil
		},
	}, nil
}
