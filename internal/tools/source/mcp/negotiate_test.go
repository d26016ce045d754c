package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// scripted is a server over stdio in this process. It answers each request with what a function
// gives: members of the answer beside jsonrpc and id.
func scripted(t *testing.T, answer func(method string, params map[string]any) string, change ...func(*mcp.Config)) *mcp.Server {
	t.Helper()
	c := mcp.Config{Name: "t", Source: "mcp", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
		inR, inW := io.Pipe()
		outR, outW, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			defer func() { _ = outW.Close() }()
			for in := bufio.NewScanner(inR); in.Scan(); {
				var m struct {
					ID     json.RawMessage `json:"id"`
					Method string          `json:"method"`
					Params map[string]any  `json:"params"`
				}
				if json.Unmarshal(in.Bytes(), &m) == nil && m.ID != nil {
					_, _ = fmt.Fprintf(outW, `{"jsonrpc":"2.0","id":%s,%s}`+"\n", m.ID, answer(m.Method, m.Params))
				}
			}
		}()
		stop := sync.OnceFunc(func() { _ = inR.Close(); _ = inW.Close(); <-ended })
		return &mcp.Link{Transport: mcp.Stdio(outR, inW, nil), Ended: ended, Why: func() error { return nil }, Stop: stop}, nil
	}}
	for _, f := range change {
		f(&c)
	}
	s := mcp.New(c)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// TestRevisionsAreAgreedOn tries servers that know only some revisions, in the ways in which they say it.
func TestRevisionsAreAgreedOn(t *testing.T) {
	refuse := func(code int, data string) string {
		return fmt.Sprintf(`"error":{"code":%d,"message":"Unsupported protocol version"%s}`, code, data)
	}
	for name, tc := range map[string]struct {
		knows   []string
		refusal string // of the others
		want    string // the revision that both speak, or a part of the error
	}{
		"the specification's example": {[]string{"2024-11-05"}, refuse(-32602, `,"data":{"supported":["2024-11-05"],"requested":"1"}`), "2024-11-05"},
		"the newest of several":       {[]string{"2024-11-05", "2025-06-18"}, refuse(-32602, `,"data":{"supported":["2024-11-05","2025-06-18"]}`), "2025-06-18"},
		"another code":                {[]string{"2025-03-26"}, refuse(-32022, `,"data":{"supported":["2025-03-26","2031-01-01"]}`), "2025-03-26"},
		"nothing in common":           {nil, refuse(-32602, `,"data":{"supported":["2031-01-01"]}`), `it refused to begin (-32602): Unsupported protocol version; it knows 2031-01-01, Remit knows 2026-07-28`},
		"it lies":                     {nil, refuse(-32602, `,"data":{"supported":["2025-06-18"]}`), "it refused to begin (-32602): Unsupported protocol version"},
		"a list of something else":    {nil, refuse(-32602, `,"data":{"supported":[5]}`), "it refused to begin (-32602): Unsupported protocol version"},
		"no list":                     {nil, refuse(-32602, ""), "it refused to begin (-32602): Unsupported protocol version"},
		"another error":               {nil, refuse(-32603, `,"data":"x"`), "it refused to begin (-32603)"},
		"an unknown one in its place": {nil, `"result":{"protocolVersion":"2031-01-01","capabilities":{},"serverInfo":{"name":"t","version":"1"}}`, `the revision 2031-01-01 of the protocol; Remit knows 2026-07-28`},
		"none in its place":           {nil, `"result":{"protocolVersion":null,"capabilities":{},"serverInfo":{"name":"t","version":"1"}}`, `the revision (none) of the protocol`},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			s := scripted(t, func(method string, params map[string]any) string {
				mu.Lock()
				defer mu.Unlock()
				switch method {
				case "initialize":
					v, _ := params["protocolVersion"].(string)
					asked = append(asked, v)
					if !slices.Contains(tc.knows, v) {
						return tc.refusal
					}
					return `"result":{"protocolVersion":"` + v + `","capabilities":{"tools":{}},"serverInfo":{"name":"t","version":"1"}}`
				case "tools/list":
					return `"result":{"tools":[]}`
				}
				return `"error":{"code":-32601,"message":"no method"}`
			})
			_, err := s.Discover(t.Context())
			mu.Lock()
			defer mu.Unlock()
			if tc.knows == nil {
				if err == nil || !strings.Contains(err.Error(), tc.want) || strings.Contains(err.Error(), "it exited") || len(asked) > 3 {
					t.Errorf("got %v after %v, want %q", err, asked, tc.want)
				}
			} else if err != nil || asked[len(asked)-1] != tc.want || len(asked) != 2 {
				t.Errorf("asked for %v, and got %v; want %s at last", asked, err, tc.want)
			}
		})
	}
}

// A revision that the operator chose is the only one.
func TestAChosenRevisionIsTheOnlyOne(t *testing.T) {
	var mu sync.Mutex
	n := 0
	s := scripted(t, func(string, map[string]any) string {
		mu.Lock()
		defer mu.Unlock()
		n++
		return `"error":{"code":-32602,"message":"no","data":{"supported":["2024-11-05"]}}`
	}, func(c *mcp.Config) { c.Protocol = "2025-06-18" })
	_, err := s.Discover(t.Context())
	mu.Lock()
	defer mu.Unlock()
	if err == nil || n != 1 || !strings.Contains(err.Error(), "it refused to begin (-32602): no; it knows 2024-11-05") {
		t.Errorf("got %v after %d requests", err, n)
	}
}
