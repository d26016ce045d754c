package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// TestRefusalsOverHTTPSayWhy has a server elsewhere refuse calls in many ways. Its words, the status and
// the delay are in the error, bounded, and the server is called again afterwards.
func TestRefusalsOverHTTPSayWhy(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, tc := range map[string]struct {
		status      int
		after, body string
		want        string
		data        string // of the error, in the output
	}{
		"an error in the body":   {500, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-32603,"message":"column z missing"}}`, "(-32603): column z missing (HTTP 500 Internal Server Error)", ""},
		"an error for no ID":     {500, "", `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"down"}}`, "(-32000): down (HTTP 500", ""},
		"an error with data":     {503, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-1,"message":"m","data":{"facts":[1]}}}`, "(-1): m (HTTP 503", `{"facts":[1]}`},
		"text":                   {500, "", "no memory left", "HTTP 500 Internal Server Error: no memory left", ""},
		"nothing":                {502, "", "", "HTTP 502 Bad Gateway", ""},
		"a page":                 {504, "", "<html>later</html>", "HTTP 504 Gateway Timeout: <html>later", ""},
		"a delay":                {429, "7", "", "HTTP 429 Too Many Requests, try again after 7 s", ""},
		"a delay and an error":   {503, "30", `{"jsonrpc":"2.0","id":ID,"error":{"code":-5,"message":"busy"}}`, "(-5): busy (HTTP 503 Service Unavailable, try again after 30 s)", ""},
		"a date":                 {429, "Wed, 21 Oct 2026 07:28:00 GMT", "x", "try again after Wed, 21 Oct 2026 07:28:00 GMT: x", ""},
		"much text":              {500, "", long, "HTTP 500 Internal Server Error: xxx", ""},
		"a long message":         {500, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-5,"message":"` + long[:60<<10] + `"}}`, "(-5): xxx", ""},
		"other JSON":             {500, "", `{"error":"text"}`, `HTTP 500 Internal Server Error: {\"error\":\"text\"}`, ""},
		"an answer with data":    {200, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-7,"message":"Internal error","data":"why"}}`, "(-7): Internal error", `"why"`},
		"bad request with data":  {400, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-8,"message":"m","data":[2]}}`, "(-8): m", `[2]`},
		"control characters":     {500, "", "a\x1b[31mb", `a\x1b[31mb`, ""},
		"much data is cut short": {500, "", `{"jsonrpc":"2.0","id":ID,"error":{"code":-9,"message":"m","data":["` + long[:40<<10] + `"]}}`, "(-9): m", `"[\"xxx`},
	} {
		t.Run(name, func(t *testing.T) {
			e := &elsewhere{write: writesJSON, lost: says(404, ""), sessions: map[string]bool{}}
			refuses := true
			web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				raw, _ := io.ReadAll(r.Body)
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
				}
				if r.Body = io.NopCloser(bytes.NewReader(raw)); json.Unmarshal(raw, &m) != nil || m.Method != "tools/call" || !refuses {
					e.ServeHTTP(w, r)
					return
				}
				if tc.after != "" {
					w.Header().Set("Retry-After", tc.after)
				}
				says(tc.status, tc.body)(w, string(m.ID))
			}))
			s := mcp.New(mcp.Config{Name: "t", Source: "mcp-remote", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
				return &mcp.Link{Remote: true, Transport: mcp.HTTP(web.URL, web.Client().Transport, nil), Ended: make(chan struct{}), Stop: func() {}}, nil
			}})
			defer web.Close()
			defer func() { _ = s.Close() }()
			hello := discover(t, s)["hello"]
			out, err := run(t.Context(), hello, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(err.Error()) > 1000 || strings.Contains(err.Error(), "transport") {
				t.Errorf("got %v, want %s", err, tc.want)
			}
			if fault.CodeOf(err) != fault.ToolFailed {
				t.Errorf("the code is %v", fault.CodeOf(err))
			}
			if (tc.data == "") != (out == "") || !strings.Contains(out, tc.data) || len(out) > 20<<10 {
				t.Errorf("the output is %.200s, want data %s", out, tc.data)
			}
			refuses = false
			if _, err := run(t.Context(), hello, nil); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}
