package websearch_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/builtin/websearch"
)

const key = "key-of-the-tests-4711"

func secret(name string) (string, bool) { return key + "\n", name == "store:search" }

// Answers in the form that each service gives.
const (
	searx = `{"query": "tea", "number_of_results": 0, "results": [
		{"url": "https://tea.example/a", "title": "Tea", "content": "Tea is <b>hot</b>.", "publishedDate": "2026-01-02T00:00:00", "engine": "x", "score": 1.5, "category": "general"},
		{"url": "https://tea.example/a", "title": "Tea again", "content": ""},
		{"url": "javascript:alert(1)", "title": "bad", "content": ""}, {"url": 5}, "text"],
		"answers": [], "corrections": [], "infoboxes": [], "suggestions": [], "unresponsive_engines": []}`
	brave = `{"type": "search", "query": {"original": "tea"}, "mixed": {}, "web": {"type": "search", "results": [
		{"title": "Tea", "url": "https://tea.example/a", "description": "Tea is <strong>hot</strong>.", "page_age": "2026-01-02T00:00:00", "profile": {}}]}}`
	tavily = `{"query": "tea", "answer": null, "images": [], "response_time": 1.2, "results": [
		{"title": "Tea", "url": "https://tea.example/a", "content": "Tea is hot.", "score": 0.9, "raw_content": null, "published_date": "2026-01-02T00:00:00"}]}`
)

// service is a search service on this machine.
func service(t *testing.T, kind string, h http.HandlerFunc) (permit.Tool, permit.Permit) {
	t.Helper()
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	o := websearch.Options{Kind: kind, URL: s.URL + "/search", Secret: secret}
	if kind != websearch.SearXNG {
		o.Key = "store:search"
	}
	return websearch.New(o), permittest.PermitFor(t, t.TempDir(), fmt.Sprintf("version: 1\nnetwork: {allow: [%q]}\n", s.URL))
}

func TestServices(t *testing.T) {
	for kind, of := range map[string]struct{ answer, request, key string }{
		websearch.SearXNG: {searx, "GET /search?format=json&q=tea+%26+co", ""},
		websearch.Brave:   {brave, "GET /search?count=10&q=tea+%26+co", "X-Subscription-Token: " + key},
		websearch.Tavily:  {tavily, `POST /search {"max_results":10,"query":"tea \u0026 co"}`, "Authorization: Bearer " + key},
	} {
		t.Run(kind, func(t *testing.T) {
			got := ""
			x, p := service(t, kind, func(w http.ResponseWriter, r *http.Request) {
				body, _ := io.ReadAll(r.Body)
				got = strings.TrimSpace(r.Method + " " + r.URL.String() + " " + string(body))
				if name, value, _ := strings.Cut(of.key, ": "); r.Header.Get(name) != value {
					w.WriteHeader(http.StatusUnauthorized)
				}
				_, _ = io.WriteString(w, of.answer)
			})
			res, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea & co"})
			want := map[string]any{"service": "127.0.0.1", "results": []any{map[string]any{"title": "Tea", "url": "https://tea.example/a", "text": "Tea is hot.", "published": "2026-01-02T00:00:00"}}}
			if diff := cmp.Diff(want, res.Output); err != nil || diff != "" || got != of.request {
				t.Errorf("asked %q: %v %s", got, err, diff)
			}
		})
	}
}

func TestContract(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, searx) }))
	defer s.Close()
	x := websearch.New(websearch.Options{Kind: websearch.SearXNG, URL: s.URL})
	permittest.Tool(t, x, permittest.World{Policy: fmt.Sprintf("version: 1\nnetwork: {allow: [%q]}\n", s.URL)}, tool.Args{"query": "tea", "count": json.Number("3")})
}

func TestAnswersThatAreNone(t *testing.T) {
	for kind, answers := range map[string][]string{
		websearch.SearXNG: {"", "<html>", "[]", "{}", `{"results": 5}`},
		websearch.Brave:   {"{}", `{"results": []}`, `{"web": 5}`},
		websearch.Tavily:  {"{}", `{"detail": {"error": "x"}}`},
	} {
		for _, answer := range answers {
			x, p := service(t, kind, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, answer) })
			if out, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"}); fault.CodeOf(err) != fault.ToolFailed {
				t.Errorf("%s %q: got %v, %v", kind, answer, out.Output, err)
			}
		}
	}
	x, p := service(t, websearch.Brave, func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"type": "search", "query": {}}`)
	})
	if out, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"}); err != nil || len(out.Output["results"].([]any)) != 0 {
		t.Errorf("nothing was found: got %v, %v", out.Output, err)
	}
	for status, hint := range map[int]string{401: "search.key", 403: "search.key", 429: "how often", 500: "search.url"} {
		x, p := service(t, websearch.Tavily, func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, "the key "+key+" is wrong")
		})
		_, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"})
		if err == nil || !strings.Contains(err.Error(), hint) || strings.Contains(err.Error(), key) {
			t.Errorf("%d: got %v", status, err)
		}
	}
}

// TestWhatAServiceSaysIsText: a title or text has no marks, no invisible characters and no
// line of its own, and is bounded; the service never sees a key come back.
func TestWhatAServiceSaysIsText(t *testing.T) {
	answer, err := json.Marshal(map[string]any{"results": []any{map[string]any{
		"title": "A\u202Eb\x1b[31m\n<script>x</script>" + strings.Repeat("t", 5000), "url": "https://tea.example/", "content": "key " + key + " " + strings.Repeat("c", 9000)}}})
	if err != nil {
		t.Fatal(err)
	}
	x, p := service(t, websearch.Tavily, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(answer) })
	out, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"})
	if err != nil {
		t.Fatal(err)
	}
	one := out.Output["results"].([]any)[0].(map[string]any)
	title, text := one["title"].(string), one["text"].(string)
	if strings.ContainsAny(title, "\u202E\x1b\n<>") || len(title) > 310 || len(text) > 2010 || strings.Contains(text, key) {
		t.Errorf("got %q, %q", title, text)
	}
}

// TestTheKeyIsForTheService: a redirect to another place gets no key, and a policy that does
// not allow the service is asked first.
func TestTheKeyIsForTheService(t *testing.T) {
	seen := ""
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen += fmt.Sprint(r.Header)
		_, _ = io.WriteString(w, brave)
	}))
	defer other.Close()
	s := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusFound))
	defer s.Close()
	x := websearch.New(websearch.Options{Kind: websearch.Brave, URL: s.URL, Key: "store:search", Secret: secret})
	p := permittest.PermitFor(t, t.TempDir(), fmt.Sprintf("version: 1\nnetwork: {allow: [%q, %q]}\n", s.URL, other.URL))
	if _, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"}); err != nil || seen == "" || strings.Contains(seen, key) {
		t.Errorf("the other place saw %s, %v", seen, err)
	}
	p = permittest.PermitFor(t, t.TempDir(), "version: 1\n")
	if _, err := permittest.Run(t.Context(), x, p, tool.Args{"query": "tea"}); fault.CodeOf(err) != fault.HandleRefused {
		t.Errorf("got %v", err)
	}
	for _, o := range []websearch.Options{{}, {Kind: websearch.Brave, URL: s.URL, Key: "store:none", Secret: secret}} {
		if _, err := permittest.Run(t.Context(), websearch.New(o), p, tool.Args{"query": "tea"}); err == nil {
			t.Errorf("%v was asked", o)
		}
	}
	for _, args := range []tool.Args{{"query": " "}, {"query": "x", "count": json.Number("21")}} {
		if _, err := permittest.Run(t.Context(), x, p, args); fault.CodeOf(err) != fault.ArgsInvalid {
			t.Errorf("%v: got %v", args, err)
		}
	}
}
