package fs

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func remove() *Tool {
	return &Tool{
		spec: tool.Spec{ID: "fs.delete", Title: "Delete a file or folder", Version: "1", Source: "builtin", Risk: tool.High,
			Effects: tool.EffectSet(tool.FSDelete), Input: schemaOf("delete.in"), Output: schemaOf("delete.out"),
			Description: "Deletes a file, a link (not its target) or an empty folder; with recursive a folder and all it holds. If policy denies any part of it, nothing is deleted. There is no way back."},
		order: []string{"path"}, paths: map[string][]tool.ActionKind{"path": {tool.FileWrite}},
		run: runDelete,
	}
}

func move() *Tool {
	return &Tool{
		spec: tool.Spec{ID: "fs.move", Title: "Move or rename", Version: "1", Source: "builtin", Risk: tool.Medium,
			Effects: tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete), Input: schemaOf("move.in"), Output: schemaOf("move.out"),
			Description: "Moves or renames a file or folder. to is the new path itself, not the folder to put it in. With overwrite a file may replace a file; nothing ever replaces a folder."},
		order: []string{"from", "to"},
		paths: map[string][]tool.ActionKind{"from": {tool.FileRead, tool.FileWrite}, "to": {tool.FileWrite}},
		run:   runMove,
	}
}

func runDelete(ctx context.Context, f *files.Files, a args) (map[string]any, error) {
	asked := a.str("path", "")
	removed, err := 0, error(nil)
	if a.flag("recursive", false) {
		removed, err = f.RemoveAll(ctx, asked)
	} else if err = f.Remove(asked); err == nil {
		removed = 1
	}
	if errors.Is(err, fault.NotFound) && a.flag("missing_ok", false) {
		err = nil
	}
	if err != nil && removed == 0 {
		return nil, err
	}
	return map[string]any{"path": f.Show(asked), "deleted": int64(removed)}, err
}

func runMove(ctx context.Context, f *files.Files, a args) (map[string]any, error) {
	from, to := a.str("from", ""), a.str("to", "")
	if err := f.Rename(ctx, from, to, a.flag("overwrite", false), a.flag("make_parents", true)); err != nil {
		return nil, err
	}
	return map[string]any{"from": f.Show(from), "to": f.Show(to)}, nil
}
