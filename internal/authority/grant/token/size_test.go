package token_test

import (
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/base/tool"
)

// Policies that are each valid cannot be combined into a token that costs more
// memory than one policy may. A token that others made in this way is refused.
func TestATokenTakesBoundedMemory(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	root := func(source string) (string, error) {
		return token.Issue(token.Root{Ledger: tool.Digest{1}, ID: uuid.Must(uuid.NewV7()), Block: token.Block{
			Policies: []token.Policy{{File: "p.yaml", Source: source}}, Issued: now, Holder: "agent:a", Expires: now.Add(time.Hour),
		}}, key, rand.Reader)
	}
	for name, source := range map[string]string{
		"expressions": "version: 1\ntools: {allow: [a" + strings.Repeat(", {tool: a, args: {x: {regex: '(ab){300}'}}}", 5) + "]}",
		"entries":     "version: 1\nfiles: {read: {deny: [a" + strings.Repeat(", a", 1500) + "]}}",
		"roles":       "version: 1\nroles: {" + strings.Repeat("a", 20) + ": {tools: {allow: [a" + strings.Repeat(", {tool: a, args: {x: {regex: '(ab){300}'}}}", 5) + "]}}}",
	} {
		t.Run(name, func(t *testing.T) {
			text, err := root(source)
			if err != nil {
				t.Fatal(err)
			}
			blocks := 1
			for err == nil {
				text, err = token.Append(text, token.Block{Policies: []token.Policy{{File: "p.yaml", Source: source}}, Issued: now}, rand.Reader)
				if blocks++; err == nil && blocks > 8 {
					t.Fatal("eight such blocks are accepted")
				}
			}
			if !errors.Is(err, fault.GrantTooLarge) || blocks < 3 {
				t.Errorf("block %d: %v", blocks, err)
			}
		})
	}
	t.Run("memory", func(t *testing.T) {
		text, err := root("version: 1\nfiles: {read: {deny: [a" + strings.Repeat(", a", 3900) + "]}}")
		if err != nil {
			t.Fatal(err)
		}
		for range 30 { // each block hands the token on, so that all earlier blocks are bound for another holder
			if text, err = token.Append(text, token.Block{Holder: "agent:b", Issued: now}, rand.Reader); err != nil {
				t.Fatal(err)
			}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		c, err := token.Decode(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Bind(policy.Env{Workspace: "/w", Home: "/h"}); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 16<<20 {
			t.Errorf("a token of %d bytes took %d bytes of memory", len(text), n)
		}
	})
}
