package fs

import (
	"cmp"
	"context"
	"encoding/base64"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
)

func write() permit.Tool {
	return newTool(tool.Spec{ID: "fs.write", Title: "Write a file", Risk: tool.Medium,
		Effects: tool.EffectSet(tool.FSWrite), Input: schemaOf("write.in"), Output: schemaOf("write.out"),
		Description: "Creates a file, replaces it as a whole, or appends to it."}, func(a writeArgs) []access { return one(a.Path, tool.FileWrite) }, runWrite)
}

type writeArgs struct {
	Path        string `json:"path"`
	Content     string `json:"content"`
	Encoding    string `json:"encoding"`
	Mode        string `json:"mode"`
	IfSHA256    string `json:"if_sha256"`
	MakeParents *bool  `json:"make_parents"` // default true
}

var modes = map[string]files.Mode{"create": files.Create, "replace": files.Replace, "append": files.Append}

func runWrite(_ context.Context, f *files.Files, a writeArgs) (map[string]any, error) {
	data := []byte(a.Content)
	if a.Encoding == "base64" {
		var err error
		if data, err = base64.StdEncoding.DecodeString(a.Content); err != nil {
			return nil, fault.Wrap(fault.ArgsInvalid, err, "content is not base64").In("content").WithHint("standard alphabet, with padding")
		}
	}
	guard, err := parseDigest(a.IfSHA256)
	if err != nil {
		return nil, err
	}
	mode, ok := modes[cmp.Or(a.Mode, "replace")]
	if !ok {
		return nil, fault.New(fault.ArgsInvalid, "mode must be create, replace or append").In("mode")
	}
	w, err := f.Write(a.Path, data, files.WriteOptions{Mode: mode, Parents: isTrue(a.MakeParents), If: guard})
	if err != nil {
		return nil, err
	}
	out := map[string]any{"path": f.Show(a.Path), "bytes_written": int64(len(data)), "bytes_total": w.Size, "created": w.Created}
	if w.Size == int64(len(data)) { // else the hash would tell of bytes that the caller may not read
		out["sha256"] = hash(data)
	}
	return out, nil
}
