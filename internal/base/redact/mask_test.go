package redact_test

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/redact"
)

func TestAMaskFindsEverySpelling(t *testing.T) {
	const value = `s3cr3t"<&>/+ value-ü`
	m := &redact.Mask{}
	m.Add("github", value)
	quoted, _ := json.Marshal(value)
	for name, text := range map[string]string{
		"as it is":         "Bearer " + value + "!",
		"twice":            value + value,
		"JSON":             string(quoted),
		"query":            "?q=" + url.QueryEscape(value),
		"path":             "/" + url.PathEscape(value),
		"hexadecimal":      hex.EncodeToString([]byte(value)),
		"upper":            strings.ToUpper(hex.EncodeToString([]byte(value))),
		"base64":           base64.StdEncoding.EncodeToString([]byte(value)),
		"base64 of a line": base64.StdEncoding.EncodeToString([]byte("token=" + value + "\n")),
		"base64 after one": base64.URLEncoding.EncodeToString([]byte("x" + value + "yz")),
		"base64 after two": base64.RawURLEncoding.EncodeToString([]byte("xx" + value)),
	} {
		got := m.Text(text)
		if !m.Holds(text) || got == text || !strings.Contains(got, "[secret:github]") || strings.Contains(got, value) || m.Holds(got) {
			t.Errorf("%s: %q became %q", name, text, got)
		}
	}
	for _, text := range []string{"", "s3cr3t", "another text", strings.ToUpper(value[:8])} {
		if got := m.Text(text); got != text || m.Holds(text) {
			t.Errorf("%q became %q", text, got)
		}
	}
}

func TestAMaskFindsLinesOfAKey(t *testing.T) {
	m := &redact.Mask{}
	m.Add("deploy", "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQ\nshort\n-----END KEY-----\n")
	if got := m.Text("1: MIIEvQIBADANBgkqhkiG9w0BAQ"); got != "1: [secret:deploy]" {
		t.Error(got)
	}
	if s := "-----BEGIN KEY-----"; m.Text(s) != s || m.Text("short") != "short" {
		t.Error("a line that every key has is masked")
	}
}

func TestAMaskThatKnowsNothing(t *testing.T) {
	var none *redact.Mask
	short := &redact.Mask{}
	short.Add("x", "1234567")
	for _, m := range []*redact.Mask{none, {}, short} {
		if m.Active() || m.Holds("1234567") || m.Text("text 1234567") != "text 1234567" {
			t.Errorf("%v masks", m)
		}
	}
}

func TestMarkersThatHoldAValue(t *testing.T) {
	m := &redact.Mask{}
	m.Add("password-one", "password-one")
	if got := m.Text("a password-one b"); got != "a *** b" {
		t.Error(got)
	}
}

func TestNothingMaskedStaysBehind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[ -~]{8,40}`).Draw(t, "value")
		if len(strings.TrimSpace(value)) < 8 {
			t.Skip("too short")
		}
		m := &redact.Mask{}
		m.Add("n", value)
		before, after := rapid.StringN(0, 10, -1).Draw(t, "before"), rapid.StringN(0, 10, -1).Draw(t, "after")
		whole := before + value + after
		for _, s := range []string{whole, base64.StdEncoding.EncodeToString([]byte(whole)), hex.EncodeToString([]byte(whole)), url.QueryEscape(whole)} {
			if got := m.Text(s); m.Holds(got) || !m.Holds(s) {
				t.Fatalf("%q became %q (held before: %v)", s, got, m.Holds(s))
			}
		}
	})
}

type closing struct {
	strings.Builder
	closed bool
}

func (c *closing) Close() error { c.closed = true; return nil }

func TestLinesAreMaskedWhole(t *testing.T) {
	m := &redact.Mask{}
	m.Add("github", "ghp_0123456789")
	out := &closing{}
	w := m.Lines(out)
	for _, part := range []string{"a ghp_01", "23456789 b\nghp_", "0123456789", " end"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatal(n, err)
		}
	}
	if out.String() != "a [secret:github] b\n" {
		t.Errorf("before the end: %q", out.String())
	}
	if err := w.Close(); err != nil || !out.closed || out.String() != "a [secret:github] b\n[secret:github] end" {
		t.Errorf("%q, %v, closed: %v", out.String(), err, out.closed)
	}
	long := &closing{}
	w = m.Lines(long)
	if _, err := w.Write([]byte(strings.Repeat("x", 100_000))); err != nil || long.Len() != 100_000 {
		t.Errorf("%d bytes passed, %v", long.Len(), err)
	}
}
