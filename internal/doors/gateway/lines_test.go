package gateway_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app"
)

// talk sends lines to the gateway, and then a request whose answer ends the talk. It returns the
// answers before that one.
func talk(t *testing.T, revision string, sent ...string) []string {
	t.Helper()
	return answers(t, revision, 0, sent...)
}

// answers is talk that waits for a number of answers: those to requests come in any order.
func answers(t *testing.T, revision string, n int, sent ...string) []string {
	t.Helper()
	w := newWorld(t)
	r, wr := w.serve(app.MCPRequest{Policy: w.policy(policy)})
	go func() {
		if revision != "" {
			_, _ = fmt.Fprintf(wr, `{"jsonrpc":"2.0","id":"begin","method":"initialize","params":{"protocolVersion":%q,"capabilities":{},"clientInfo":{"name":"c","version":"1"}}}`+"\n", revision)
			_, _ = io.WriteString(wr, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
		}
		for _, line := range sent {
			_, _ = io.WriteString(wr, line)
		}
		_, _ = io.WriteString(wr, "\n"+`{"jsonrpc":"2.0","id":"last","method":"ping"}`+"\n")
	}()
	var got []string
	in := bufio.NewScanner(r)
	in.Buffer(nil, 1<<20)
	ends := false
	defer time.AfterFunc(time.Minute, func() { _ = r.Close() }).Stop() // not all answers came
	for !(ends && len(got) >= n) && in.Scan() {
		if strings.Contains(in.Text(), `"id":"last"`) {
			ends = true
			continue
		}
		if !strings.Contains(in.Text(), `"id":"begin"`) && !strings.Contains(in.Text(), "notifications/") {
			got = append(got, in.Text())
		}
	}
	_ = wr.Close()
	go func() { _, _ = io.Copy(io.Discard, r) }()
	if err := <-w.served; err != nil || !ends {
		t.Errorf("the gateway ended with %v after %q", err, got)
	}
	return got
}

// codes are the error codes of the answers, with null IDs.
func codes(t *testing.T, got []string) string {
	t.Helper()
	var out []string
	for _, line := range got {
		var m struct {
			ID    any `json:"id"`
			Error struct {
				Code int `json:"code"`
			} `json:"error"`
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.ID != nil {
			t.Errorf("%s has an ID, or is not an answer", line)
		}
		out = append(out, fmt.Sprint(m.Error.Code))
	}
	return strings.Join(out, " ")
}

// TestLinesThatAreNotMessagesAreAnswered sends each kind of line that is not a message. The gateway
// answers it and goes on.
func TestLinesThatAreNotMessagesAreAnswered(t *testing.T) {
	const call = `{"jsonrpc":"2.0","id":%s,"method":"ping"}`
	for name, tc := range map[string]struct{ sent, want string }{
		"garbage":              {"hello", "-32700"},
		"cut off":              {`{"jsonrpc":"2.0","id":1,"meth`, "-32700"},
		"two on a line":        {`{"jsonrpc":"2.0","method":"x"} {"a":1}`, "-32700"},
		"only an opening":      {"{\n", "-32700"},
		"bytes":                {"\x00\xff\xfe", "-32700"},
		"three at once":        {"a\nb\r\n5\n", "-32700 -32700 -32600"},
		"a number":             {"5", "-32600"},
		"a text":               {`"x"`, "-32600"},
		"null":                 {"null", "-32600"},
		"an empty object":      {"{}", "-32600"},
		"an empty list":        {"[]", "-32600"},
		"a list":               {`[` + fmt.Sprintf(call, "1") + `]`, "-32600"},
		"without jsonrpc":      {`{"id":1,"method":"ping"}`, "-32600"},
		"another jsonrpc":      {`{"jsonrpc":"1.0","id":1,"method":"ping"}`, "-32600"},
		"jsonrpc as a number":  {`{"jsonrpc":2.0,"id":1,"method":"ping"}`, "-32600"},
		"a boolean ID":         {fmt.Sprintf(call, "true"), "-32600"},
		"a list as ID":         {fmt.Sprintf(call, "[1]"), "-32600"},
		"an object as ID":      {fmt.Sprintf(call, "{}"), "-32600"},
		"a number as method":   {`{"jsonrpc":"2.0","id":1,"method":5}`, "-32600"},
		"neither of both":      {`{"jsonrpc":"2.0"}`, "-32600"},
		"nothing but an ID":    {`{"jsonrpc":"2.0","id":1}`, "-32600"},
		"a text as error":      {`{"jsonrpc":"2.0","id":1,"error":"x"}`, "-32600"},
		"an empty line":        {"\n \r\n", ""},
		"a mark of byte order": {"\xef\xbb\xbf" + `{"jsonrpc":"2.0","method":"notifications/x"}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got := talk(t, "2025-11-25", tc.sent); codes(t, got) != tc.want {
				t.Errorf("got %q, want %s", got, tc.want)
			}
		})
	}
	if got := talk(t, "", "hello"); codes(t, got) != "-32700" {
		t.Errorf("before it began: %q", got)
	}
	if got := talk(t, "2025-11-25", strings.Repeat("x", 17<<20)); codes(t, got) != "-32600" {
		t.Errorf("a line of 17 MiB: %q", got)
	}
}

// TestIDsComeBackAsTheyWereSent sends IDs of all kinds, alone and in lists.
func TestIDsComeBackAsTheyWereSent(t *testing.T) {
	ids := []string{"0", "1", "-1", "1.5", "-0.25", "1.0", "1e3", "1E+3", "-0", "9007199254740991", "9007199254740992", "9007199254740993", "-9007199254740993",
		"18446744073709551615", "123456789012345678901234567890", `""`, `"x"`, `"1.5"`, `"a\"b"`}
	var calls []string
	for _, id := range ids {
		calls = append(calls, `{"jsonrpc":"2.0","id":`+id+`,"method":"ping"}`+"\n")
	}
	got := answers(t, "2025-11-25", len(calls), calls...)
	for _, id := range ids {
		if strings.Count(strings.Join(got, "\n"), `"id":`+id+`,`) != 1 {
			t.Errorf("%s is not the ID of one of %q", id, got)
		}
	}
	list := `[{"jsonrpc":"2.0","method":"notifications/x"},{"jsonrpc":"2.0","id":1.5,"method":"ping"},{"jsonrpc":"2.0","method":"notifications/y"},{"jsonrpc":"2.0","id":2,"method":"ping"}]`
	if got := answers(t, "2025-03-26", 1, list); len(got) != 1 || !strings.HasPrefix(got[0], "[") || !strings.Contains(got[0], `"id":1.5`) || !strings.Contains(got[0], `"id":2`) {
		t.Errorf("a list: got %q", got)
	}
	twice := `[{"jsonrpc":"2.0","id":"a","method":"ping"},{"jsonrpc":"2.0","id":"\u0061","method":"ping"}]`
	if got := strings.Join(answers(t, "2025-03-26", 2, twice), "\n"); strings.Count(got, `"id":"a"`) != 1 || strings.Count(got, `"id":null`) != 1 {
		t.Errorf("one ID in two spellings: got %q", got)
	}
	within := "{\n\"jsonrpc\":\"2.0\",\"id\":60,\"method\":\"ping\",\"params\":{\"_meta\":{\"x\":[\n{\"jsonrpc\":\"2.0\",\"id\":61,\"method\":\"ping\"}\n]}}\n}"
	if got := answers(t, "2025-11-25", 1, within); len(got) != 1 || !strings.Contains(got[0], `"id":60`) {
		t.Errorf("a message within another: got %q", got)
	}
	many := "[\n{\"jsonrpc\":\"2.0\",\"id\":51,\"method\":\"ping\"},\n{\"jsonrpc\":\"2.0\",\"id\":52,\"method\":\"ping\"}\n]"
	if got := answers(t, "2025-03-26", 1, many); len(got) != 1 || !strings.Contains(got[0], `"id":51`) || !strings.Contains(got[0], `"id":52`) {
		t.Errorf("a list over several lines: got %q", got)
	}
	pretty := "{\n  \"jsonrpc\": \"2.0\",\n  \"id\": 7.5,\n  \"method\": \"ping\",\n  \"params\": {}\n}"
	if got := answers(t, "2025-11-25", 1, pretty); len(got) != 1 || !strings.Contains(got[0], `"id":7.5`) {
		t.Errorf("over several lines: got %q", got)
	}
}
