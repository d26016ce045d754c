package app_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Whoever has no grant of this ledger writes nothing to it, at any door, however often
// they try.
func TestStrangersWriteNothing(t *testing.T) {
	s := newService(t)
	forged := s.token[:len(s.token)-8] + "AAAAAAAA"
	const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`
	newest := func() string {
		return fmt.Sprint(s.must(http.StatusOK, "GET", "/v1/audit?limit=1", "")["items"])
	}
	before := newest()
	for range 20 {
		for _, token := range []string{"", "remit1_nope", forged} {
			for _, path := range []string{"/mcp", "/v1/agents"} {
				if status, _, b := s.raw("POST", path, token, hello, "Accept", "application/json, text/event-stream"); status != http.StatusUnauthorized {
					t.Fatalf("%s with %.20q: %d %s", path, token, status, b)
				}
			}
		}
	}
	if after := newest(); after != before {
		t.Errorf("strangers wrote %s", after)
	}
	s.stop()
	b, err := os.ReadFile(filepath.Join(s.homeDir, "logs", "security.log"))
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(b), "\n"); n == 0 || n > 120 {
		t.Errorf("120 refusals are %d lines of security.log", n)
	}
}
