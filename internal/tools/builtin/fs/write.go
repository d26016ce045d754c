package fs

import (
	"context"
	"encoding/base64"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func write() *Tool {
	return &Tool{
		spec: tool.Spec{ID: "fs.write", Title: "Write a file", Version: "1", Source: "builtin", Risk: tool.Medium,
			Effects: tool.EffectSet(tool.FSWrite), Input: schemaOf("write.in"), Output: schemaOf("write.out"),
			Description: "Makes a file, replaces it as a whole (atomically), or appends to it. Missing folders are made. With if_sha256 the file must still have that content."},
		order: []string{"path"}, paths: map[string][]tool.ActionKind{"path": {tool.FileWrite}},
		run: runWrite,
	}
}

var modes = map[string]files.Mode{"create": files.Create, "replace": files.Replace, "append": files.Append}

func runWrite(_ context.Context, f *files.Files, a args) (map[string]any, error) {
	asked, data := a.str("path", ""), []byte(a.str("content", ""))
	if a.str("encoding", "text") == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(a.str("content", "")); err != nil {
			return nil, fault.Wrap(fault.ArgsInvalid, err, "content is not base64").In("content").WithHint("standard alphabet, with padding")
		}
	}
	guard, err := a.guard()
	if err != nil {
		return nil, err
	}
	mode, ok := modes[a.str("mode", "replace")]
	if !ok {
		return nil, fault.New(fault.ArgsInvalid, "mode is none of create, replace, append").In("mode")
	}
	w, err := f.Write(asked, data, files.WriteOptions{Mode: mode, Parents: a.flag("make_parents", true), If: guard})
	if err != nil {
		return nil, err
	}
	out := map[string]any{"path": f.Show(asked), "bytes_written": int64(len(data)), "bytes_total": w.Size, "created": w.Created}
	if w.Size == int64(len(data)) { // else the hash would tell of bytes that the caller may not read
		out["sha256"] = hash(data)
	}
	return out, nil
}
