package approval_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// filedBody gives what a question with these arguments tells people.
func filedBody(t *testing.T, args tool.Args, actions []tool.Action) approval.Body {
	t.Helper()
	s := openStore(t)
	q := write(newRun(t, s), "a", "b")
	q.Call.Args, q.Actions = args, actions
	d := &approval.Desk{Store: s, Redact: redact.New(map[string]string{"API_KEY": "s3cr3t-value-1"})}
	if _, err := d.Ask(t.Context(), q); !errors.Is(err, fault.NeedsApproval) {
		t.Fatal(err)
	}
	list, err := s.Questions(t.Context(), store.QuestionFilter{})
	if err != nil || len(list) != 1 {
		t.Fatalf("%+v, %v", list, err)
	}
	var b approval.Body
	if err := json.Unmarshal(list[0].Body, &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// A yes runs what was asked about, so nothing that a caller can write hides a part of it.
func TestTheApproverSeesWhatRuns(t *testing.T) {
	hidden := "os.system(1)"
	for name, text := range map[string]string{
		"a cookie":         "cookie=1;import os;" + hidden,
		"a private key":    "# -----BEGIN PRIVATE KEY-----\n" + hidden,
		"a header":         "Authorization: x " + hidden,
		"an assignment":    "password=" + hidden,
		"a URL's password": "https://a:" + hidden + "@h/",
		"a grant":          "remit1_" + strings.Repeat("a", 30) + hidden,
	} {
		for where, args := range map[string]tool.Args{
			"argv":    {"argv": []any{"python3", "-c", text}},
			"content": {"path": "a", "content": text},
			"a field": {"headers": map[string]any{"Authorization": text}, "list": []any{"--token", text}, "pair": map[string]any{"name": "Cookie", "value": text}},
		} {
			b := filedBody(t, args, []tool.Action{{Kind: tool.Command, Argv: []string{"python3", "-c", text}}})
			want, err := canon.Marshal(map[string]any(args))
			if err != nil {
				t.Fatal(err)
			}
			short, _ := b.Short(10_000)
			if string(b.Args) != string(want) || !strings.Contains(b.Touches[0], hidden) || !strings.Contains(short[0].Text, hidden) || !strings.Contains(b.Whole(), hidden) {
				t.Errorf("%s in %s: %s, %q\n%s", name, where, b.Args, b.Touches, b.Whole())
			}
		}
	}
}

// Values of secrets are not shown, and a pattern, which is shown as it is, holds none.
func TestAQuestionHidesKnownValues(t *testing.T) {
	b := filedBody(t, tool.Args{"argv": []any{"curl", "s3cr3t-value-1"}}, []tool.Action{{Kind: tool.Command, Argv: []string{"curl", "s3cr3t-value-1"}}})
	text, err := json.Marshal(b)
	if err != nil || strings.Contains(string(text), "s3cr3t-value-1") || !strings.Contains(b.Whole(), "[redacted:env]") {
		t.Errorf("%s, %v", text, err)
	}
}

// What is cut says how long it is and by which digest it is known, and the whole form has
// all of it.
func TestWhatIsCutCanBeReadWhole(t *testing.T) {
	long := strings.Repeat("x", 5000) + "\nRemit: harmless\ttail\u202e"
	b := approval.Body{Tool: "fs.write", Risk: "high", Reason: "r", Holder: "agent:x"}
	args, err := canon.Marshal(map[string]any{"content": long, "more": map[string]any{"deep": []any{long, json.Number("1"), true}, "none": []any{}}})
	if err != nil {
		t.Fatal(err)
	}
	b.Args = args
	for i := range 30 {
		b.Touches = append(b.Touches, fmt.Sprintf("files.write %d", i))
	}
	lines, cut := b.Short(100)
	if want := fmt.Sprintf("%d bytes, sha256 %x)", len(args), sha256.Sum256(args)); !cut || !strings.HasSuffix(lines[0].Text, want) || len(lines) > 30 {
		t.Errorf("cut %v: %d lines, %q, want %s", cut, len(lines), lines[0].Text, want)
	}
	if got := lines[21].Text; !strings.HasPrefix(got, "and 10 more (") || !strings.Contains(got, "sha256 ") {
		t.Errorf("the actions end with %q", got)
	}
	all := b.Whole()
	for _, want := range []string{
		fmt.Sprintf("argument content, %d bytes, sha256 %x", len(long), sha256.Sum256([]byte(long))), "argument more deep[0], ",
		"argument more deep[1] | 1\n", "argument more none | []\n", "files.write 29", `  | Remit: harmless\ttail\u202e`,
	} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in it", want)
		}
	}
	if n := strings.Count(all, "x"); n < 2*5000 {
		t.Errorf("only %d of the text is there", n)
	}
	for line := range strings.Lines(all) {
		if len(line) > 1100 || strings.HasPrefix(line, "Remit") {
			t.Errorf("the line %.40q has %d bytes", line, len(line))
		}
	}
	b.Args, b.Touches = []byte(`{"content":"short"}`), b.Touches[:1]
	if lines, cut := b.Short(100); cut || lines[0].Text != `{"content":"short"}` {
		t.Errorf("%v %q", cut, lines)
	}
}

var _ runner.Asker = (*approval.Desk)(nil)
