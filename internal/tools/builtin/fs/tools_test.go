package fs_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

const someDenied = "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"], deny: [\"**/*.bak\", \"private\", \"private/**\"]}\n  write: {allow: [\"**\"]}\n"

type args = map[string]any

// call runs a tool; numbers may be written as int.
func call(t testing.TB, p permit.Permit, id tool.ID, in args) (map[string]any, error) {
	t.Helper()
	for k, v := range in {
		if n, ok := v.(int); ok {
			in[k] = json.Number(fmt.Sprint(n))
		}
	}
	res, err := permittest.Run(t.Context(), toolNamed(t, id), p, in)
	return res.Output, err
}

func world(t *testing.T, policy string, files map[string]string) permit.Permit {
	t.Helper()
	return permittest.World{Policy: policy, Files: files}.Permit(t)
}

func TestReadInParts(t *testing.T) {
	p := world(t, everything, nil)
	name := filepath.Join(p.Env().Workspace, "x")
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.StringOfN(rapid.RuneFrom([]rune("aé漢𝄞\n\x00")), 0, 200, -1).Draw(rt, "text")
		limit := rapid.IntRange(4, 50).Draw(rt, "limit")
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			rt.Fatal(err)
		}
		var got strings.Builder
		for offset, part := 0, 0; ; part++ {
			out, err := call(t, p, "fs.read", args{"path": "x", "offset": offset, "limit": limit})
			if err != nil || part > len(text) || out["bytes_total"] != int64(len(text)) {
				rt.Fatalf("part %d: %v, %v", part, out, err)
			}
			got.WriteString(out["content"].(string))
			if out["truncated"] != true {
				break
			}
			offset = int(out["next_offset"].(int64))
		}
		if got.String() != text {
			rt.Fatalf("the parts make %q, the file is %q", got.String(), text)
		}
	})
}

func TestRead(t *testing.T) {
	p := world(t, someDenied, map[string]string{"bin": "ok\xff", "notes.txt": "hi", "a.bak": "x", "private/p": "x", "d/": ""})
	tests := map[string]struct {
		in   args
		want string // part of the content, or of the error
		code fault.Code
	}{
		"text":                  {args{"path": "notes.txt"}, "hi", 0},
		"absolute":              {args{"path": p.Env().Workspace + "/notes.txt"}, "hi", 0},
		"beyond the end":        {args{"path": "notes.txt", "offset": 100}, "", 0},
		"not text":              {args{"path": "bin"}, "encoding base64", fault.ToolFailed},
		"as base64":             {args{"path": "bin", "encoding": "base64"}, base64.StdEncoding.EncodeToString([]byte("ok\xff")), 0},
		"a folder":              {args{"path": "d"}, "fs.list", fault.ToolFailed},
		"denied":                {args{"path": "a.bak"}, "", fault.HandleRefused},
		"missing and denied":    {args{"path": "b.bak"}, "", fault.HandleRefused},
		"misspelt":              {args{"path": "note.txt"}, `did you mean "notes.txt"`, fault.NotFound},
		"no hint of the hidden": {args{"path": "b.ba"}, "", fault.NotFound},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := call(t, p, "fs.read", tc.in)
			if tc.code == 0 && (err != nil || !strings.Contains(out["content"].(string), tc.want)) {
				t.Errorf("got %v, %v", out, err)
			}
			if tc.code != 0 && (!errors.Is(err, tc.code) || !strings.Contains(fault.Message(err), tc.want)) {
				t.Errorf("got %v, want %v %q", err, tc.code, tc.want)
			}
			if err != nil && strings.Contains(err.Error(), "a.bak") && tc.in["path"] != "a.bak" {
				t.Errorf("a hidden name leaks: %v", err)
			}
		})
	}
}

func TestEdit(t *testing.T) {
	e := func(old, repl string, all bool) any { return map[string]any{"old": old, "new": repl, "all": all} }
	tests := map[string]struct {
		text  string
		edits []any
		want  string // "": refused and unchanged
		err   string
	}{
		"once":                    {"a b\nc", []any{e("b", "x", false)}, "a x\nc", ""},
		"all":                     {"a a\na", []any{e("a", "bb", true)}, "bb bb\nbb", ""},
		"in order":                {"a", []any{e("a", "b", false), e("b", "c", false)}, "c", ""},
		"twice is ambiguous":      {"x\ny\nx", []any{e("x", "z", false)}, "", "edits[0].old: the text occurs 2 times in \"f\", on lines 1, 3"},
		"overlaps are ambiguous":  {"aaa", []any{e("aa", "b", false)}, "", "2 times"},
		"nowhere":                 {"a", []any{e("b", "", false)}, "", "edits[0].old: the text was not found"},
		"one fails, none is done": {"a", []any{e("a", "b", false), e("q", "", false)}, "", "edits[1].old: the text was not found"},
		"line ends count":         {"a\r\nb", []any{e("a\nb", "", false)}, "", "edits[0].old: the text was not found"},
		"patterns are literal":    {"a.c abc", []any{e("a.c", "$0", false)}, "$0 abc", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := world(t, everything, map[string]string{"f": tc.text})
			out, err := call(t, p, "fs.edit", args{"path": "f", "edits": tc.edits})
			want := tc.want
			if want == "" {
				want = tc.text
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %q", err, tc.err)
				}
			} else if err != nil {
				t.Fatal(err)
			}
			got, rerr := os.ReadFile(filepath.Join(p.Env().Workspace, "f"))
			if rerr != nil || string(got) != want {
				t.Errorf("the file is %q, want %q (%v)", got, want, out)
			}
		})
	}
	p := world(t, everything, map[string]string{"f": "a"})
	_, err := call(t, p, "fs.edit", args{"path": "f", "edits": []any{e("a", "b", false)}, "if_sha256": strings.Repeat("0", 64)})
	if !errors.Is(err, fault.Conflict) {
		t.Errorf("got %v, want a conflict", err)
	}
}

func TestList(t *testing.T) {
	p := world(t, someDenied, map[string]string{"b.go": "", "a.txt": "", "x.bak": "", "private/p": "", "d/c.go": "", "d/y.bak": ""})
	if err := os.Symlink("/etc", filepath.Join(p.Env().Workspace, "etc")); err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		in     args
		want   string
		denied int64
		cut    bool
	}{
		"a folder":        {args{}, "a.txt b.go d", 3, false},
		"all":             {args{"recursive": true}, "a.txt b.go d d/c.go", 4, false},
		"by last name":    {args{"recursive": true, "glob": "*.go"}, "b.go d/c.go", 4, false},
		"by path":         {args{"recursive": true, "glob": "d/**"}, "d d/c.go", 4, false},
		"beneath":         {args{"path": "d", "glob": "*.go"}, "d/c.go", 1, false},
		"cut":             {args{"recursive": true, "limit": 2}, "a.txt b.go", 4, true},
		"nothing matches": {args{"glob": "zzz"}, "", 3, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := call(t, p, "fs.list", tc.in)
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, e := range out["entries"].([]any) {
				got = append(got, e.(map[string]any)["path"].(string))
			}
			if strings.Join(got, " ") != tc.want || out["denied"] != tc.denied || out["truncated"] != tc.cut {
				t.Errorf("got %v, %v denied, truncated %v; want %q", got, out["denied"], out["truncated"], tc.want)
			}
		})
	}
	if _, err := call(t, p, "fs.list", args{"path": "a.txt"}); !errors.Is(err, fault.ToolFailed) {
		t.Errorf("a file was listed: %v", err)
	}
}

func TestGrep(t *testing.T) {
	p := world(t, someDenied, map[string]string{
		"a.go": "one\ntwo needle\nthree\nneedle\n", "b.txt": "NEEDLE\r\n", "bin": "needle\x00", "x.bak": "needle", "private/p": "needle",
		"long": strings.Repeat("é", 1<<20) + "needle\nlast needle\n",
	})
	tests := map[string]struct {
		in   args
		want string
	}{
		"everywhere":     {args{"pattern": "needle"}, "a.go:2 a.go:4 long:2"},
		"any case":       {args{"pattern": "^needle$", "ignore_case": true}, "a.go:4 b.txt:1"},
		"one file":       {args{"pattern": "e", "path": "a.go", "limit": 2}, "a.go:1 a.go:2 +"},
		"some files":     {args{"pattern": "(?i)needle", "glob": "*.txt"}, "b.txt:1"},
		"a denied file":  {args{"pattern": "n", "path": "x.bak"}, "E1006"},
		"no expression":  {args{"pattern": "("}, "E2002"},
		"a back pattern": {args{"pattern": `(a)\1`}, "E2002"},
		"a bad glob":     {args{"pattern": "a", "glob": "[a"}, "E2002"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			out, err := call(t, p, "fs.grep", tc.in)
			if err != nil {
				if got := fault.CodeOf(err).Error(); got != tc.want {
					t.Errorf("got %v, want %s", err, tc.want)
				}
				return
			}
			var got []string
			for _, m := range out["matches"].([]any) {
				m := m.(map[string]any)
				got = append(got, fmt.Sprintf("%v:%v", m["path"], m["line"]))
				if len(m["text"].(string)) > 510 {
					t.Errorf("a line of %d bytes is shown", len(m["text"].(string)))
				}
			}
			if out["truncated"] == true {
				got = append(got, "+")
			}
			if strings.Join(got, " ") != tc.want {
				t.Errorf("got %v, want %q", got, tc.want)
			}
		})
	}
	out, err := call(t, p, "fs.grep", args{"pattern": "two", "context": 1})
	if err != nil || fmt.Sprint(out["matches"]) != "[map[after:[three] before:[one] line:2 path:a.go text:two needle]]" {
		t.Errorf("context: %v, %v", out["matches"], err)
	}
	if out["files_binary"] != int64(1) || out["denied"] != int64(2) {
		t.Errorf("%v binary, %v denied", out["files_binary"], out["denied"])
	}
}

func TestDelete(t *testing.T) {
	tests := map[string]struct {
		in   args
		n    int64
		code fault.Code
	}{
		"a file":            {args{"path": "f"}, 1, 0},
		"a full folder":     {args{"path": "d"}, 0, fault.Conflict},
		"all of a folder":   {args{"path": "d", "recursive": true}, 3, 0},
		"an empty folder":   {args{"path": "e"}, 1, 0},
		"what is not there": {args{"path": "g"}, 0, fault.NotFound},
		"and that is fine":  {args{"path": "gone", "missing_ok": true}, 0, 0},
		"the workspace":     {args{"path": ".", "recursive": true}, 0, fault.HandleRefused},
		"outside":           {args{"path": "../x", "recursive": true}, 0, fault.HandleRefused},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			p := world(t, everything, map[string]string{"f": "", "d/a/b": "", "e/": ""})
			out, err := call(t, p, "fs.delete", tc.in)
			if tc.code != 0 && !errors.Is(err, tc.code) || tc.code == 0 && (err != nil || out["deleted"] != tc.n) {
				t.Errorf("got %v, %v", out, err)
			}
		})
	}
}

func TestWhatHappenedIsNoted(t *testing.T) {
	p := world(t, everything, map[string]string{"a": "abc"})
	for _, c := range []struct {
		id tool.ID
		in args
	}{{"fs.read", args{"path": "a"}}, {"fs.write", args{"path": "n/b", "content": "1234"}}, {"fs.delete", args{"path": "a"}}} {
		if _, err := call(t, p, c.id, c.in); err != nil {
			t.Fatal(err)
		}
	}
	notes, _ := p.Happened()
	got := ""
	for _, n := range notes {
		got += fmt.Sprintf("%s %s %d\n", n.Effect, n.On, n.Bytes)
	}
	if want := "fs.read a 3\nfs.write n 0\nfs.write n/b 4\nfs.delete a 3\n"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestLookAlikesAndCase(t *testing.T) {
	doc := "version: 1\nname: test\nfiles:\n  read: {allow: [\"**\"], deny: [\"**/secret\", \"**/.env\"]}\n"
	p := world(t, doc, map[string]string{"secret": "x", ".env": "x", "plain": "ok"})
	for _, name := range []string{"secret", "./secret", "a/../secret", "//" + p.Env().Workspace + "/secret", ".env", "secret/", "secret/."} {
		if out, err := call(t, p, "fs.read", args{"path": name}); err == nil {
			t.Errorf("%q was read: %v", name, out)
		}
	}
	// Other spellings are other names on this file system: never the secret's content.
	for _, name := range []string{"SECRET", "ｓecret", "secret.", "secret ", "ѕecret", "．env", ".ENV", "secret\u200b"} {
		if out, err := call(t, p, "fs.read", args{"path": name}); err == nil {
			t.Errorf("%q was read: %v", name, out)
		}
	}
}
