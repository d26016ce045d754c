package sessionfiles_test

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/sessionfiles"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const policy = "version: 1\n"

// world is a session with some files, and its tools.
type world struct {
	t     *testing.T
	files *capabilitytest.SessionFiles
	tools map[string]permit.Tool
	p     permit.Permit
}

func newWorld(t *testing.T, content map[string]string) *world {
	t.Helper()
	w := &world{t: t, files: &capabilitytest.SessionFiles{}, tools: map[string]permit.Tool{}, p: permittest.PermitFor(t, t.TempDir(), policy)}
	for name, text := range content {
		if _, _, err := w.files.Write(t.Context(), w.p, name, []byte(text), 0); err != nil {
			t.Fatal(err)
		}
	}
	part, err := sessionfiles.New().Part(capability.Session{Files: w.files}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range part.Tools {
		w.tools[o.Name] = o.Tool
	}
	return w
}

func (w *world) run(name string, args tool.Args) (map[string]any, error) {
	w.t.Helper()
	res, err := permittest.Run(w.t.Context(), w.tools[name], w.p, args)
	return res.Output, err
}

func seeded() capability.Session {
	f := &capabilitytest.SessionFiles{}
	p := permit.Mint(permit.Terms{})
	for name, text := range map[string]string{"/docs/readme.txt": "one\ntwo\nthree\n", "/a.go": "package a\n"} {
		if _, _, err := f.Write(contextOf(), p, name, []byte(text), 0); err != nil {
			panic(err)
		}
	}
	return capability.Session{Files: f}
}

func TestConformance(t *testing.T) {
	readme := tool.Args{"path": "/docs/readme.txt"}
	capabilitytest.Capability(t, sessionfiles.New(), capabilitytest.Case{World: permittest.World{Policy: policy}, Session: seeded, Calls: map[string][]tool.Args{
		"read_file":      {readme, {"path": "docs/../a.go", "offset": json.Number("3"), "limit": json.Number("2")}},
		"write_file":     {{"path": "/x/y/z.txt", "content": "hello"}, {"path": "/b", "content": "aGk=", "encoding": "base64"}},
		"list_directory": {{}, {"path": "/docs"}},
		"grep_files":     {{"pattern": "t.o"}, {"pattern": "package", "path_pattern": "*.go"}},
		"delete_file":    {{"path": "/b"}, {"path": "/docs", "recursive": true}},
		"stat_file":      {readme, {"path": "/none"}},
		"edit_file":      {{"path": "/a.go", "old_string": "package a", "new_string": "package b"}},
	}})
}

func TestTools(t *testing.T) {
	start := map[string]string{"/docs/readme.txt": "one\ntwo\n", "/src/a.go": "package a\n// two\n", "/bin": "\x00\x01", "/euro": "€€", "/twice": "x x"}
	n := func(s string) json.Number { return json.Number(s) }
	tests := map[string]struct {
		tool string
		args tool.Args
		want map[string]any
		code fault.Code
		says string // part of the error
	}{
		"read text": {tool: "read_file", args: tool.Args{"path": "/docs/readme.txt"},
			want: map[string]any{"path": "/docs/readme.txt", "content": "one\ntwo\n", "encoding": "text", "size_bytes": int64(8), "version": 1, "truncated": false}},
		"read binary": {tool: "read_file", args: tool.Args{"path": "/bin"},
			want: map[string]any{"path": "/bin", "content": "AAE=", "encoding": "base64", "size_bytes": int64(2), "version": 1, "truncated": false}},
		"read a part": {tool: "read_file", args: tool.Args{"path": "/docs/readme.txt", "offset": n("4"), "limit": n("2")},
			want: map[string]any{"path": "/docs/readme.txt", "content": "tw", "encoding": "text", "size_bytes": int64(8), "version": 1, "truncated": true, "next_offset": int64(6)}},
		"a part ends at a character": {tool: "read_file", args: tool.Args{"path": "/euro", "limit": n("4")},
			want: map[string]any{"path": "/euro", "content": "€", "encoding": "text", "size_bytes": int64(6), "version": 1, "truncated": true, "next_offset": int64(3)}},
		"read beyond the end":    {tool: "read_file", args: tool.Args{"path": "/euro", "offset": n("7")}, code: fault.ArgsInvalid, says: "has 6 bytes"},
		"read what is not there": {tool: "read_file", args: tool.Args{"path": "/none"}, code: fault.NotFound, says: `"/none" does not exist`},
		"read a folder":          {tool: "read_file", args: tool.Args{"path": "/docs"}, code: fault.ArgsInvalid, says: "is a folder"},
		"dots lead nowhere": {tool: "read_file", args: tool.Args{"path": "../../docs/./readme.txt"},
			want: map[string]any{"path": "/docs/readme.txt", "content": "one\ntwo\n", "encoding": "text", "size_bytes": int64(8), "version": 1, "truncated": false}},
		"a path that hides something": {tool: "read_file", args: tool.Args{"path": "/a\u202eb"}, code: fault.ArgsInvalid, says: "invisible character"},

		"write a new file": {tool: "write_file", args: tool.Args{"path": "/a/b/c.txt", "content": "hi"},
			want: map[string]any{"path": "/a/b/c.txt", "size_bytes": int64(2), "created": true, "version": 1}},
		"write an old one": {tool: "write_file", args: tool.Args{"path": "/euro", "content": "hi"},
			want: map[string]any{"path": "/euro", "size_bytes": int64(2), "created": false, "version": 2}},
		"write base64": {tool: "write_file", args: tool.Args{"path": "/b", "content": "AAEC", "encoding": "base64"},
			want: map[string]any{"path": "/b", "size_bytes": int64(3), "created": true, "version": 1}},
		"write what is no base64":       {tool: "write_file", args: tool.Args{"path": "/b", "content": "?", "encoding": "base64"}, code: fault.ArgsInvalid, says: "not valid base64"},
		"write an older version":        {tool: "write_file", args: tool.Args{"path": "/euro", "content": "hi", "if_version": n("7")}, code: fault.Conflict, says: "version"},
		"write only if it is not there": {tool: "write_file", args: tool.Args{"path": "/euro", "content": "hi", "if_version": n("0")}, code: fault.Conflict, says: "version"},
		"write over a folder":           {tool: "write_file", args: tool.Args{"path": "/docs", "content": "hi"}, code: fault.ArgsInvalid, says: "folder"},
		"write below a file":            {tool: "write_file", args: tool.Args{"path": "/euro/x", "content": "hi"}, code: fault.ArgsInvalid, says: "is a file"},

		"grep": {tool: "grep_files", args: tool.Args{"pattern": "^t|two$"},
			want: map[string]any{"pattern": "^t|two$", "match_count": 2, "files_searched": 4, "files_skipped": 1, "truncated": false, "matches": []any{
				map[string]any{"path": "/docs/readme.txt", "line_number": 2, "line": "two"}, map[string]any{"path": "/src/a.go", "line_number": 2, "line": "// two"}}}},
		"grep by name": {tool: "grep_files", args: tool.Args{"pattern": "two", "path_pattern": "*.txt"},
			want: map[string]any{"pattern": "two", "match_count": 1, "files_searched": 1, "files_skipped": 0, "truncated": false, "matches": []any{
				map[string]any{"path": "/docs/readme.txt", "line_number": 2, "line": "two"}}}},
		"grep by path": {tool: "grep_files", args: tool.Args{"pattern": "two", "path_pattern": "/src/**/*.go"},
			want: map[string]any{"pattern": "two", "match_count": 1, "files_searched": 1, "files_skipped": 0, "truncated": false, "matches": []any{
				map[string]any{"path": "/src/a.go", "line_number": 2, "line": "// two"}}}},
		"grep with what RE2 is not":          {tool: "grep_files", args: tool.Args{"pattern": `(a)\1`}, code: fault.ArgsInvalid, says: "RE2"},
		"grep with not a valid path pattern": {tool: "grep_files", args: tool.Args{"pattern": "a", "path_pattern": "[a"}, code: fault.ArgsInvalid, says: "not a valid path pattern"},

		"delete a file":            {tool: "delete_file", args: tool.Args{"path": "/euro"}, want: map[string]any{"path": "/euro", "deleted": true, "count": 1}},
		"delete what is not there": {tool: "delete_file", args: tool.Args{"path": "/none"}, want: map[string]any{"path": "/none", "deleted": false, "count": 0}},
		"delete a full folder":     {tool: "delete_file", args: tool.Args{"path": "/docs"}, code: fault.Conflict, says: "recursive"},
		"delete all of it":         {tool: "delete_file", args: tool.Args{"path": "/docs", "recursive": true}, want: map[string]any{"path": "/docs", "deleted": true, "count": 2}},
		"delete everything":        {tool: "delete_file", args: tool.Args{"path": "/x/..", "recursive": true}, code: fault.ArgsInvalid, says: "root folder"},

		"stat what is not there": {tool: "stat_file", args: tool.Args{"path": "/none"}, want: map[string]any{"path": "/none", "name": "none", "exists": false}},
		"stat a folder": {tool: "stat_file", args: tool.Args{"path": "/docs/"}, want: map[string]any{"path": "/docs", "name": "docs", "exists": true, "is_directory": true,
			"is_readonly": false, "size_bytes": int64(0), "created_at": "2026-03-01T09:30:00Z", "updated_at": "2026-03-01T09:30:00Z"}},
		"stat a file": {tool: "stat_file", args: tool.Args{"path": "/euro"}, want: map[string]any{"path": "/euro", "name": "euro", "exists": true, "is_directory": false,
			"is_readonly": false, "size_bytes": int64(6), "version": 1, "created_at": "2026-03-01T09:30:00Z", "updated_at": "2026-03-01T09:30:00Z",
			"sha256": "3ea76e3e5e6d9d7b8ac47ec93c86ee3c7c2ac1fc7b1c4ee6a0b62b3b1ee0ff9b"}},

		"edit once": {tool: "edit_file", args: tool.Args{"path": "/src/a.go", "old_string": "two", "new_string": "three"},
			want: map[string]any{"path": "/src/a.go", "replacements": 1, "lines": []any{2}, "size_bytes": int64(19), "version": 2}},
		"edit everywhere": {tool: "edit_file", args: tool.Args{"path": "/twice", "old_string": "x", "new_string": "yy", "replace_all": true},
			want: map[string]any{"path": "/twice", "replacements": 2, "lines": []any{1, 1}, "size_bytes": int64(5), "version": 2}},
		"edit what occurs twice": {tool: "edit_file", args: tool.Args{"path": "/twice", "old_string": "x", "new_string": "y"}, code: fault.ToolFailed, says: "occurs 2 times in"},
		"edit what is not in it": {tool: "edit_file", args: tool.Args{"path": "/twice", "old_string": "z", "new_string": "y"}, code: fault.ToolFailed, says: "was not found"},
		"edit nothing":           {tool: "edit_file", args: tool.Args{"path": "/twice", "old_string": "x x", "new_string": "x x"}, code: fault.ArgsInvalid, says: "the same"},
		"edit binary":            {tool: "edit_file", args: tool.Args{"path": "/bin", "old_string": "x", "new_string": "y"}, code: fault.ArgsInvalid, says: "not a text file"},
		"edit another version":   {tool: "edit_file", args: tool.Args{"path": "/twice", "old_string": "x x", "new_string": "y", "if_version": n("3")}, code: fault.Conflict, says: "is at version 1, not 3"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := newWorld(t, start).run(tt.tool, tt.args)
			if tt.code != 0 {
				if fault.CodeOf(err) != tt.code || !strings.Contains(err.Error(), tt.says) {
					t.Fatalf("got %v, %v; want %v with %q", got, err, tt.code, tt.says)
				}
				return
			}
			if sum, ok := got["sha256"].(string); ok && len(sum) == 64 {
				tt.want["sha256"] = sum
			}
			if err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Fatalf("got %v, %v\nwant %v", got, err, tt.want)
			}
		})
	}
}

func TestListDirectory(t *testing.T) {
	w := newWorld(t, map[string]string{"/b.txt": "bb", "/a.txt": "a", "/z/deep/c": "c"})
	out, err := w.run("list_directory", tool.Args{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	entries, _ := out["entries"].([]any)
	for _, e := range entries {
		m, _ := e.(map[string]any)
		names = append(names, m["path"].(string))
	}
	if want := []string{"/z", "/a.txt", "/b.txt"}; !reflect.DeepEqual(names, want) || out["count"] != 3 || out["path"] != "/" {
		t.Errorf("got %v of %v, want %v", names, out, want)
	}
	if _, err := w.run("list_directory", tool.Args{"path": "/none"}); !errors.Is(err, fault.NotFound) {
		t.Errorf("a folder that is not there: %v", err)
	}
}

func TestGrepIsBounded(t *testing.T) {
	w := newWorld(t, map[string]string{"/many": strings.Repeat("x\n", 1000), "/long": strings.Repeat("y", 100_000) + "needle", "/big": strings.Repeat("z", 9<<20)})
	out, err := w.run("grep_files", tool.Args{"pattern": "x", "path_pattern": "many"})
	if err != nil || out["match_count"] != 200 || out["truncated"] != true || out["reason"] == nil {
		t.Errorf("many matches: %v of them, %v, %v", out["match_count"], out["reason"], err)
	}
	out, err = w.run("grep_files", tool.Args{"pattern": "y+", "path_pattern": "long"})
	matches, _ := out["matches"].([]any)
	if err != nil || len(matches) != 1 || len(matches[0].(map[string]any)["line"].(string)) > 510 {
		t.Errorf("a long line: %d matches, %v", len(matches), err)
	}
	out, err = w.run("grep_files", tool.Args{"pattern": "z", "path_pattern": "big"})
	if err != nil || out["files_skipped"] != 1 {
		t.Errorf("a large file: %v, %v", out, err)
	}
}

func TestWithoutFiles(t *testing.T) {
	part, err := sessionfiles.New().Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range part.Tools {
		args := tool.Args{"path": "/a", "pattern": "a", "content": "", "old_string": "a", "new_string": "b"}
		for name := range args {
			if !strings.Contains(string(o.Tool.Spec().Input), `"`+name+`"`) {
				delete(args, name)
			}
		}
		if _, err := permittest.Run(t.Context(), o.Tool, permittest.PermitFor(t, t.TempDir(), policy), args); fault.CodeOf(err) != fault.ToolFailed {
			t.Errorf("%s: %v", o.Name, err)
		}
	}
}
