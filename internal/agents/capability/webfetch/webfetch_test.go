package webfetch_test

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/agents/capability/capabilitytest"
	"github.com/remitrun/remit/internal/agents/capability/webfetch"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// site serves what the tests fetch.
func site(t *testing.T) *httptest.Server {
	t.Helper()
	release := make(chan struct{})
	mux := http.NewServeMux()
	page := func(path, contentType, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", contentType)
			_, _ = w.Write([]byte(body))
		})
	}
	page("/page", "text/html; charset=utf-8", "<html><head><title>T</title><style>p{}</style></head><body><h1>Hello</h1><p>A <b>bold</b> <a href='/x'>link</a>.</p><script>alert(1)</script><!-- secret --></body></html>")
	page("/data.json", "application/json", `{"a":1}`)
	page("/plain", "text/plain", "<b>not converted</b>")
	page("/image.png", "image/png", "\x89PNG\r\n\x1a\n0000")
	page("/report.pdf", "application/pdf; charset=utf-8", "%PDF-1.7\n1 0 obj\n")
	page("/odd", "application/x-odd; charset=utf-8", "text after all")
	page("/drawing.svg", "image/svg+xml", "<svg/>")
	page("/hidden", "text/html", "<p>a\u200bb \U000E0041\U000E0042 \u202ec")
	page("/liar", "text/plain", "MZ\x00\x00binary")
	page("/untyped", "", "<!doctype html><p>sniffed")
	page("/latin1", "text/html; charset=iso-8859-1", "<p>caf\xe9")
	page("/wrong", "text/html; charset=iso-8859-1", "<p>café €")
	page("/meta", "text/html", "<meta charset=windows-1252><p>\x80 5")
	page("/broken", "text/html; charset=utf-8", "<p>a\xffb")
	page("/utf16", "text/plain; charset=utf-16le", "h\x00i\x00")
	page("/deep", "text/html", strings.Repeat("<div>", 100_000)+"bottom")
	page("/quotes", "text/html", strings.Repeat("<blockquote>", 190)+strings.Repeat("<p>x</p>", 20_000))
	page("/huge", "text/html", "<p>"+strings.Repeat("many words ", 600_000))
	page("/parts", "text/html", strings.Repeat("<b>x</b>", 250_000))
	page("/lists", "text/html", strings.Repeat("<ul><li>", 90)+strings.Repeat("<p>x</p>", 20_000))
	page("/spans", "text/html", "<table>"+strings.Repeat("<tr><td colspan=1000000000 rowspan=1000000000>x</td></tr>", 10)+"</table>")
	page("/wide", "text/html", "<table>"+strings.Repeat("<tr>"+strings.Repeat("<td colspan=100 rowspan=100>x</td>", 100)+"</tr>", 100)+"</table>")
	page("/bold", "text/html", strings.Repeat("<b><i>", 90)+strings.Repeat("word ", 30_000)+"x")
	page("/links", "text/html", "<p>"+strings.Repeat("<a href='/y'>y</a> ", 5_000))
	page("/fences", "text/html", "<pre>"+strings.Repeat("``` ~~~ ", 10_000)+"</pre>")
	page("/entities", "text/html", "<p>"+strings.Repeat("&lt;", 100_000))
	mux.HandleFunc("/doc", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Disposition", `attachment; filename="../../etc/report.txt"`)
		w.Header().Set("Last-Modified", "Sun, 01 Mar 2026 09:30:00 GMT")
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte("report"))
	})
	mux.HandleFunc("/missing", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "not here", http.StatusNotFound) })
	mux.HandleFunc("/moved", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/page", http.StatusFound) })
	mux.HandleFunc("/outside", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
	})
	mux.HandleFunc("/bomb", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		w.Header().Set("Content-Encoding", "gzip")
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		_, _ = z.Write(make([]byte, 0))
		for range 16 {
			_, _ = z.Write(bytes.Repeat([]byte("a"), 1<<20))
		}
		_ = z.Close()
		_, _ = w.Write(b.Bytes())
	})
	mux.HandleFunc("/silent", func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	mux.HandleFunc("/trickle", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		_, _ = w.Write([]byte("<h1>Begun</h1><p>and"))
		_ = http.NewResponseController(w).Flush()
		select {
		case <-release:
		case <-r.Context().Done():
		}
	})
	s := httptest.NewServer(mux)
	t.Cleanup(func() { close(release); s.Close() })
	return s
}

func policy(s *httptest.Server) string {
	return fmt.Sprintf("version: 1\nnetwork:\n  allow: [\"GET,HEAD %s\"]\n  max_bytes: 50MiB\n", s.URL)
}

func fetch(t *testing.T, s *httptest.Server, o webfetch.Options, config string, args tool.Args) (map[string]any, error) {
	t.Helper()
	if o.FirstByte == 0 {
		o.FirstByte = time.Minute // on a busy machine a second is little
	}
	var raw json.RawMessage
	if config != "" {
		raw = json.RawMessage(config)
	}
	part, err := webfetch.New(o).Part(capability.Session{}, raw)
	if err != nil {
		t.Fatal(err)
	}
	args["url"] = s.URL + args["url"].(string)
	res, err := permittest.Run(t.Context(), part.Tools[0].Tool, permittest.PermitFor(t, t.TempDir(), policy(s)), args)
	return res.Output, err
}

func TestConformance(t *testing.T) {
	s := site(t)
	capabilitytest.Capability(t, webfetch.New(webfetch.Options{FirstByte: time.Minute}), capabilitytest.Case{
		World: permittest.World{Policy: policy(s)}, Config: json.RawMessage(`{"max_bytes": 1000000}`),
		Calls: map[string][]tool.Args{"web_fetch": {
			{"url": s.URL + "/page", "as_markdown": true}, {"url": s.URL + "/page", "method": "HEAD"}, {"url": s.URL + "/image.png"}, {"url": s.URL + "/doc"}, {"url": s.URL + "/moved", "as_text": true},
		}}})
}

func TestFetch(t *testing.T) {
	s := site(t)
	tests := map[string]struct {
		args tool.Args
		want map[string]any // what the output must hold; nil: must not
	}{
		"a page as it is": {tool.Args{"url": "/data.json"}, map[string]any{"status_code": 200, "content": `{"a":1}`, "format": "raw", "size": 7, "truncated": false,
			"content_type": "application/json", "filename": "data.json", "error": nil, "final_url": nil, "url": s.URL + "/data.json"}},
		"HTML as Markdown":      {tool.Args{"url": "/page", "as_markdown": true}, map[string]any{"format": "markdown", "content": "# Hello\n\nA **bold** [link](" + s.URL + "/x)."}},
		"HTML as text":          {tool.Args{"url": "/page", "as_text": true}, map[string]any{"format": "text", "content": "Hello\n\nA bold link."}},
		"Markdown comes first":  {tool.Args{"url": "/page", "as_text": true, "as_markdown": true}, map[string]any{"format": "markdown"}},
		"text is not converted": {tool.Args{"url": "/plain", "as_markdown": true}, map[string]any{"format": "raw", "content": "<b>not converted</b>"}},
		"only the header": {tool.Args{"url": "/doc", "method": "HEAD"}, map[string]any{"content": nil, "filename": "report.txt", "last_modified": "Sun, 01 Mar 2026 09:30:00 GMT",
			"size": int64(6), "format": "raw"}},
		"a name from the header":    {tool.Args{"url": "/doc"}, map[string]any{"content": "report", "filename": "report.txt"}},
		"an image":                  {tool.Args{"url": "/image.png"}, map[string]any{"content": nil, "status_code": 200, "content_type": "image/png", "filename": "image.png", "size": int64(12), "error": "Binary"}},
		"what does not show":        {tool.Args{"url": "/hidden", "as_markdown": true}, map[string]any{"content": "ab  c"}},
		"nor in text":               {tool.Args{"url": "/hidden", "as_text": true}, map[string]any{"content": "ab  c"}},
		"but raw is raw":            {tool.Args{"url": "/hidden"}, map[string]any{"content": "<p>a\u200bb \U000E0041\U000E0042 \u202ec"}},
		"a PDF":                     {tool.Args{"url": "/report.pdf"}, map[string]any{"content": nil, "filename": "report.pdf", "error": "Binary"}},
		"an odd type with a set":    {tool.Args{"url": "/odd"}, map[string]any{"content": "text after all", "error": nil}},
		"a drawing in text":         {tool.Args{"url": "/drawing.svg"}, map[string]any{"content": "<svg/>", "format": "raw"}},
		"binary under another type": {tool.Args{"url": "/liar"}, map[string]any{"content": nil, "error": "Binary"}},
		"a page without a type":     {tool.Args{"url": "/untyped", "as_text": true}, map[string]any{"content": "sniffed", "format": "text"}},
		"an error's page":           {tool.Args{"url": "/missing"}, map[string]any{"status_code": 404, "content": "not here\n"}},
		"after a redirect":          {tool.Args{"url": "/moved"}, map[string]any{"status_code": 200, "url": s.URL + "/moved", "final_url": s.URL + "/page"}},
		"Latin-1":                   {tool.Args{"url": "/latin1", "as_text": true}, map[string]any{"content": "café"}},
		"UTF-8 under a wrong name":  {tool.Args{"url": "/wrong", "as_text": true}, map[string]any{"content": "café €"}},
		"a set named by the page":   {tool.Args{"url": "/meta", "as_text": true}, map[string]any{"content": "€ 5"}},
		"bytes that do not fit":     {tool.Args{"url": "/broken", "as_text": true}, map[string]any{"content": "a\uFFFDb"}},
		"UTF-16":                    {tool.Args{"url": "/utf16"}, map[string]any{"content": "hi"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := fetch(t, s, webfetch.Options{}, "", tt.args)
			if err != nil {
				t.Fatal(err)
			}
			for k, want := range tt.want {
				if text, ok := got[k].(string); ok && k == "error" && want != nil && strings.HasPrefix(text, want.(string)) {
					continue
				}
				if got[k] != want {
					t.Errorf("%s is %#v, want %#v", k, got[k], want)
				}
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	s := site(t)
	part, err := webfetch.New(webfetch.Options{FirstByte: time.Minute}).Part(capability.Session{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	tl := part.Tools[0].Tool
	for url, code := range map[string]fault.Code{
		"ftp://example.com/x": fault.ArgsInvalid, "example.com": fault.ArgsInvalid, "http://": fault.ArgsInvalid, "https://a@b.example/": fault.ArgsInvalid,
		"file:///etc/passwd": fault.ArgsInvalid, "http://127.0.0.1:1/": fault.HandleRefused, "http://169.254.169.254/latest": fault.HandleRefused,
		s.URL + "/outside": fault.HandleRefused,
	} {
		p := permittest.PermitFor(t, t.TempDir(), policy(s))
		if _, err := permittest.Run(t.Context(), tl, p, tool.Args{"url": url}); fault.CodeOf(err) != code {
			t.Errorf("%s: %v, want %v", url, err, code)
		}
	}
	s.Close()
	_, err = permittest.Run(t.Context(), tl, permittest.PermitFor(t, t.TempDir(), policy(s)), tool.Args{"url": s.URL + "/page"})
	if fault.CodeOf(err) != fault.ToolFailed {
		t.Errorf("nobody listens: %v", err)
	}
}

func TestNoFirstByte(t *testing.T) {
	s := site(t)
	begin := time.Now()
	_, err := fetch(t, s, webfetch.Options{FirstByte: webfetch.DefaultFirstByte}, "", tool.Args{"url": "/silent"})
	if fault.CodeOf(err) != fault.ToolTimeout || fault.Message(err) != "server did not respond within 1 second" {
		t.Errorf("got %v", err)
	}
	if took := time.Since(begin); took < webfetch.DefaultFirstByte || took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func TestBodyThatDoesNotEnd(t *testing.T) {
	s := site(t)
	got, err := fetch(t, s, webfetch.Options{Body: 1500 * time.Millisecond}, "", tool.Args{"url": "/trickle", "as_markdown": true})
	if want := "# Begun\n\nand\n\n[..more content timed out...]"; err != nil || got["content"] != want || got["truncated"] != true {
		t.Errorf("got %v, %v; want %q", got, err, want)
	}
}

func TestBounds(t *testing.T) {
	racetest.Skip(t, "one goroutine parses pages")
	s := site(t)
	for name, tt := range map[string]struct {
		url, config, format, ends string
		truncated                 bool
	}{
		"deep nesting":              {"/deep", "", "text", "bottom", false},
		"quotes in quotes":          {"/quotes", "", "text", "x", false},
		"a huge page":               {"/huge", "", "text", "bytes...]", true},
		"too many parts":            {"/parts", "", "text", "x", false},
		"entities":                  {"/entities", "", "markdown", "&lt;", false},
		"lists in lists":            {"/lists", "", "text", "x", false},
		"cells that span a lot":     {"/spans", "", "text", "x", false},
		"many wide rows":            {"/wide", "", "text", "x", false},
		"emphasis in emphasis":      {"/bold", "", "text", "x", false},
		"links in a long line":      {"/links", "", "markdown", "/y)", false},
		"code fences":               {"/fences", "", "markdown", "```", false},
		"a compression bomb":        {"/bomb", "", "raw", "bytes...]", true},
		"what the agent configures": {"/data.json", `{"max_bytes": 3}`, "raw", "[..more content left out: it is larger than 3 bytes...]", true},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Now()
			got, err := fetch(t, s, webfetch.Options{}, tt.config, tool.Args{"url": tt.url, "as_markdown": true})
			if err != nil {
				t.Fatal(err)
			}
			content, _ := got["content"].(string)
			if got["format"] != tt.format || got["truncated"] != tt.truncated || !strings.HasSuffix(content, tt.ends) {
				t.Errorf("got %v, cut %v, note %v, the end is %q", got["format"], got["truncated"], got["note"], content[max(0, len(content)-80):])
			}
			t.Logf("%d bytes in %v; %v", len(content), time.Since(begin), got["note"])
		})
	}
}
