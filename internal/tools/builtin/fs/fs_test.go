package fs_test

import (
	"encoding/json"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/fs"
)

const everything = "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"]}\n  write: {allow: [\"**\"]}\n"

func toolNamed(t testing.TB, id tool.ID) permit.Tool {
	t.Helper()
	for _, tl := range fs.Tools() {
		if tl.Spec().ID == id {
			return tl
		}
	}
	t.Fatalf("no tool %s", id)
	return nil
}

func TestConformance(t *testing.T) {
	world := permittest.World{Policy: everything, Files: map[string]string{
		"a.txt": "alpha\nbeta\n", "dir/b.txt": "beta\n", "dir/bin": "\x00\x01", "empty/": "",
	}}
	one := json.Number("1")
	valid := map[tool.ID][]tool.Args{
		"fs.read": {{"path": "a.txt"}, {"path": "dir/bin", "encoding": "base64"}, {"path": "a.txt", "offset": one, "limit": json.Number("4")}},
		"fs.write": {{"path": "n/e/w.txt", "content": "x"}, {"path": "a.txt", "content": "more", "mode": "append"},
			{"path": "b64", "content": "AAE=", "encoding": "base64", "mode": "create"}},
		"fs.edit":   {{"path": "a.txt", "edits": []any{map[string]any{"old": "beta", "new": "gamma"}}}},
		"fs.list":   {{}, {"path": "dir"}, {"recursive": true, "glob": "*.txt", "limit": one}},
		"fs.stat":   {{"path": "a.txt"}, {"path": "dir"}},
		"fs.grep":   {{"pattern": "^b"}, {"pattern": "BETA", "ignore_case": true, "context": one, "path": "a.txt"}},
		"fs.delete": {{"path": "a.txt"}, {"path": "dir", "recursive": true}, {"path": "gone", "missing_ok": true}},
		"fs.move":   {{"from": "a.txt", "to": "x/y.txt"}, {"from": "dir", "to": "other"}},
	}
	for _, tl := range fs.Tools() {
		t.Run(string(tl.Spec().ID), func(t *testing.T) { permittest.Tool(t, tl, world, valid[tl.Spec().ID]...) })
	}
}
