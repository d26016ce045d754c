package gateway_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/doors/gateway"
)

// TestKeysAreMaskedForClients: a client gets a file without its key, and a note, unless the policy spells the file.
func TestKeysAreMaskedForClients(t *testing.T) {
	forRevisions(t, func(t *testing.T, revision string) {
		w := newWorld(t)
		key := "gh" + "p_16C7e42F292c6912E7710c838347Ae178B4a" // put together, so that no scanner takes it for real
		for _, name := range []string{"config.js", "shown.js"} {
			if err := os.WriteFile(filepath.Join(w.workspace, name), []byte("token = '"+key+"'\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		cs := w.client(revision, app.MCPRequest{Policy: w.policy(strings.Replace(policy, `"**"`, `"**", "shown.js"`, 1))}, nil)
		all, err := json.Marshal(call(t, cs, "fs_read", map[string]any{"path": "config.js"}))
		if s := string(all); err != nil || strings.Contains(s, key) || strings.Count(s, "token = '[redacted:github-pat]'") != 2 || !strings.Contains(s, "masked keys in the output (rules: github-pat)") {
			t.Errorf("%s (%v)", s, err)
		}
		if all, err = json.Marshal(call(t, cs, "fs_read", map[string]any{"path": key})); err != nil || strings.Contains(string(all), key) || !strings.Contains(string(all), "[redacted:github-pat]") {
			t.Errorf("in a refusal: %s (%v)", all, err)
		}
		if all, err = json.Marshal(call(t, cs, "fs_read", map[string]any{"path": "shown.js"})); err != nil || strings.Count(string(all), key) != 2 {
			t.Errorf("of a file that the policy spells: %s (%v)", all, err)
		}
	})
}

// TestMaskedKeysKeepItems: a private key without an end, before an item that could be a line of it, leaves the items apart.
func TestMaskedKeysKeepItems(t *testing.T) {
	word := strings.Repeat("MIIEvQ", 10)
	in := map[string]any{"list": []any{map[string]any{"text": "-----BEGIN " + "PRIVATE KEY-----\n" + word}, word}, "n": json.Number("1.50"), "next": []any{"-----BEGIN " + "PRIVATE KEY-----\n" + word, "abcdefghijklmnopqrstuvwxyz"}}
	text, err := json.Marshal(in)
	if err != nil {
		t.Fatal(err)
	}
	masked, rules := gateway.MaskKeys(text, runner.Outcome{})
	var out struct {
		List []any
		N    json.Number
		Next []any
	}
	if err := json.Unmarshal(masked, &out); err != nil || len(out.List) != 2 || len(out.Next) != 2 || out.N != "1.50" || out.List[1] != word || len(rules) != 1 {
		t.Errorf("%s becomes %s (%v, rules %q)", text, masked, err, rules)
	}
}
