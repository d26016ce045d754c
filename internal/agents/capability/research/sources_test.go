package research_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/research"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestSourcesAreCheckedAgain: a cited page is archived once, and later compared with the copy.
func TestSourcesAreCheckedAgain(t *testing.T) {
	page, status := "<p>Water boils at <b>100 °C</b>.", http.StatusOK
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, page)
	}))
	defer s.Close()
	pad := newPad(t)
	p := permittest.PermitFor(t, t.TempDir(), fmt.Sprintf("version: 1\nnetwork: {allow: [%q]}\n", s.URL))
	run := func(name string) (map[string]any, error) {
		res, err := permittest.Run(t.Context(), pad.tools[name], p, tool.Args{"url": s.URL + "/water"})
		return res.Output, err
	}
	if _, err := run("recheck_source"); fault.CodeOf(err) != fault.NotFound {
		t.Errorf("nothing is archived: %v", err)
	}
	out, err := run("archive_source")
	if err != nil || !strings.Contains(out["text"].(string), "Water boils at 100 °C.") {
		t.Fatalf("got %v, %v", out, err)
	}
	at := out["path"].(string)
	if _, err := run("archive_source"); fault.CodeOf(err) != fault.Conflict {
		t.Errorf("a copy was replaced: %v", err)
	}
	pad.add("It boils.", s.URL+"/water", "quote", "boils\n at 100 °C")
	pad.add("It is wet.", s.URL+"/water", "quote", "It is wet")
	check := func(step, state string, boils bool) {
		t.Helper()
		out, err := run("recheck_source")
		want := fmt.Sprint([]any{map[string]any{"finding": 1, "in_copy": true, "in_page": boils}, map[string]any{"finding": 2, "in_copy": false, "in_page": false}})
		if err != nil || out["state"] != state || fmt.Sprint(out["quotes"]) != want {
			t.Errorf("%s: got %v, %v", step, out, err)
		}
	}
	check("as it was", "same", true)
	page = "<div>Water\n  boils at 100 °C.</div>"
	check("other marks", "same", true)
	page = "<p>Water boils at 100 °C. And more."
	check("more text", "changed", true)
	page = "<p>Water boils at 90 °C."
	check("another text", "changed", false)
	status = http.StatusNotFound
	check("no page", "gone", false)
	status = http.StatusInternalServerError
	if out, err := run("recheck_source"); fault.CodeOf(err) != fault.ToolFailed {
		t.Errorf("a server that fails: %v, %v", out, err)
	}
	status = http.StatusOK
	raw, _, err := pad.files.Read(t.Context(), p, at)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := pad.files.Write(t.Context(), p, at, []byte(strings.Replace(string(raw), "100", "90", 1)), 0); err != nil {
		t.Fatal(err)
	}
	if out, err := run("recheck_source"); fault.CodeOf(err) != fault.ToolFailed || !strings.Contains(err.Error(), "was changed since") {
		t.Errorf("a copy that was changed: %v, %v", out, err)
	}
}

func TestWhatCannotBeArchived(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/picture":
			w.Header().Set("Content-Type", "image/png")
			_, _ = io.WriteString(w, "\x89PNG")
		case "/large":
			_, _ = io.WriteString(w, strings.Repeat("large ", 1<<20))
		case "/missing":
			http.NotFound(w, r)
		}
	}))
	defer s.Close()
	pad := newPad(t)
	p := permittest.PermitFor(t, t.TempDir(), fmt.Sprintf("version: 1\nnetwork: {allow: [%q]}\n", s.URL))
	for _, at := range []string{s.URL + "/picture", s.URL + "/large", s.URL + "/missing", s.URL + "/empty", "https://not-allowed.example/", "file:///etc/passwd", "A book"} {
		if out, err := permittest.Run(t.Context(), pad.tools["archive_source"], p, tool.Args{"url": at}); err == nil {
			t.Errorf("%s: got %v", at, out)
		}
	}
	if list, err := pad.files.All(t.Context(), p, research.Folder); err == nil && len(list) > 0 {
		t.Errorf("kept %v", list)
	}
}

// TestTheSearchOfTheSettingsIsOffered: the tool is the catalog's, so each search is a call
// that the policies decide.
func TestTheSearchOfTheSettingsIsOffered(t *testing.T) {
	for name, tt := range map[string]struct {
		tool     tool.ID
		catalog  []tool.ID
		offered  bool
		warnings int
	}{
		"none": {"", []tool.ID{"web.search"}, false, 0}, "a service": {"web.search", []tool.ID{"web.search"}, true, 0},
		"a tool": {"mcp:kagi:search", []tool.ID{"mcp:kagi:search"}, true, 0}, "a tool that is not there": {"mcp:kagi:search", nil, false, 1},
	} {
		c := research.New(research.Options{Search: func() tool.ID { return tt.tool }})
		part, err := c.Part(capability.Session{Files: &capabilitytest.SessionFiles{}, Match: func(pattern string) (out []tool.ID) {
			for _, id := range tt.catalog {
				if string(id) == pattern {
					out = append(out, id)
				}
			}
			return out
		}}, nil)
		offered := false
		for _, o := range part.Tools {
			offered = offered || o.Name == "web_search" && o.ID == tt.tool && o.Tool == nil
		}
		if err != nil || offered != tt.offered || len(part.Warnings) != tt.warnings {
			t.Errorf("%s: offered %v, warned %v, %v", name, offered, part.Warnings, err)
		}
	}
}
