package fs

import (
	"context"
	"errors"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func remove() permit.Tool {
	return newTool(tool.Spec{ID: "fs.delete", Title: "Delete a file or folder", Risk: tool.High,
		Effects: tool.EffectSet(tool.FSDelete), Input: schemaOf("delete.in"), Output: schemaOf("delete.out"),
		Description: "Deletes a file, a link (not its target) or an empty folder; with recursive, a folder with its content. Cannot be undone. If the policy denies any part, nothing is deleted."}, func(a deleteArgs) []access { return one(a.Path, tool.FileDelete) }, runDelete)
}

type deleteArgs struct {
	Path      string `json:"path"`
	Recursive bool   `json:"recursive"`
	MissingOK bool   `json:"missing_ok"`
}

func move() permit.Tool {
	return newTool(tool.Spec{ID: "fs.move", Title: "Move or rename", Risk: tool.Medium,
		Effects: tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete), Input: schemaOf("move.in"), Output: schemaOf("move.out"),
		Description: "Moves or renames a file or folder. to is the new path itself, not the folder to put it in. overwrite replaces a file, never a folder."}, func(a moveArgs) []access {
		return append(one(a.From, tool.FileRead, tool.FileDelete), one(a.To, tool.FileWrite)...)
	}, runMove)
}

type moveArgs struct {
	From        string `json:"from"`
	To          string `json:"to"`
	Overwrite   bool   `json:"overwrite"`
	MakeParents *bool  `json:"make_parents"` // default true
}

func runDelete(ctx context.Context, f *files.Files, a deleteArgs) (map[string]any, error) {
	removed, err := 0, error(nil)
	if a.Recursive {
		removed, err = f.RemoveAll(ctx, a.Path)
	} else if err = f.Remove(a.Path); err == nil {
		removed = 1
	}
	if errors.Is(err, fault.NotFound) && a.MissingOK {
		err = nil
	}
	if err != nil && removed == 0 {
		return nil, err
	}
	return map[string]any{"path": f.Show(a.Path), "deleted": int64(removed)}, err
}

func runMove(ctx context.Context, f *files.Files, a moveArgs) (map[string]any, error) {
	if err := f.Rename(ctx, a.From, a.To, a.Overwrite, isTrue(a.MakeParents)); err != nil {
		return nil, err
	}
	return map[string]any{"from": f.Show(a.From), "to": f.Show(a.To)}, nil
}
