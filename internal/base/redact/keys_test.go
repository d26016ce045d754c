package redact_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/redact"
)

// pem is a private key in PEM that opens nothing.
func pem(kind, newline string) string {
	rnd := rand.New(rand.NewPCG(1, 2))
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	var b strings.Builder
	b.WriteString("-----BEGIN " + kind + " KEY-----" + newline)
	for line := range 6 {
		for range 64 - 20*(line/5) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		b.WriteString(newline)
	}
	return b.String() + "-----END " + kind + " KEY-----" + newline
}

// prefixed writes the number of each line before it, in a format.
func prefixed(text, format string) string {
	var b strings.Builder
	n := 0
	for line := range strings.Lines(text) {
		n++
		fmt.Fprintf(&b, format, n*min(1, strings.Count(format, "d")-strings.Count(format, "%.0d")))
		b.WriteString(line)
	}
	return b.String()
}

func numbered(text string) string { return prefixed(text, "%6d\t") }

// encrypted is a private key with headers.
func encrypted() string {
	return strings.Replace(pem("RSA PRIVATE", "\n"), "KEY-----\n", "KEY-----\nProc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,0011\n\n", 1)
}

// Keys are put together here, so that no scanner of this repository takes them for real.
func githubKey() string { return "gh" + "p_" + "16C7e42F292c6912E7710c838347Ae178B4a" }

func awsKey() string { return "AKI" + "A" + "4HQX7ZD2MN5RWT3K" }

// utf16 is an ASCII text in UTF-16, which is not searched.
func utf16(s string) string { return strings.Join(strings.Split(s, ""), "\x00") }

// random is data without text.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{}).Read(b)
	return string(b)
}

// Ordinary text before and behind keys. An escape of JSON and a colour end with letters.
var (
	beforeKey = []string{
		"", "x ", `"`, "'", "`", "=", ":", ">", "<b>", "(", "[", "|", "/", ",", "{", "-", "\x00", "\u00fc", `\n`, `\t`, `\r`, `a\n`, `\"`, `\\n`, `\u003c`, `\u001b[31m`, `\033[1;31m`,
		"?a=b&token=", "%20", "%3D", "&lt;", "\x1b[31m", "\x1b[01;31m\x1b[K", "\x1b[m\x1b[K",
	}
	behindKey = []string{
		"", " x", "\n", "\r\n", "\t", `"`, "'", "`", ",", ",x", ")", "]", "}", ".", ". X", "<", "</b>", "|", ":", ": x", ";", "&", "&user=1", `\"`, `\n`, `\nnext`, `\u003e`, `\u001b[0m`,
		"%20", "-->", "->", "!", "?", "*", "#", "$", "\x00", "\u00fc", "\x1b[m", "\x1b[m\x1b[K",
	}
)

// exampleKeys are generated keys of a rule, of sufficient entropy.
func exampleKeys(t *testing.T, r redact.KeyRule) (keys []string) {
	t.Helper()
	gen := rapid.StringMatching(r.Pattern)
	for seed := 0; seed < 100 && len(keys) < 3; seed++ {
		key := strings.NewReplacer("\u017f", "s", "\u212a", "k").Replace(gen.Example(seed)) // the other cases of two letters
		if got, _ := redact.Keys(key); strings.HasPrefix(got, "[redacted:") && strings.HasSuffix(got, "]") {
			keys = append(keys, key)
		}
	}
	if len(keys) < 3 {
		t.Errorf("%s: of 100 generated keys, %d are masked", r.ID, len(keys))
	}
	return keys
}

// TestEachRuleMasksItsKeys: keys of each rule are masked in all surroundings, whole and in a stream.
func TestEachRuleMasksItsKeys(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	for _, r := range redact.KeyRules() {
		var all strings.Builder
		for _, key := range exampleKeys(t, r) {
			for _, before := range beforeKey {
				for _, behind := range behindKey {
					text := before + key + behind
					got, rules := redact.Keys(text)
					rest, masked := strings.CutPrefix(got, before+"[redacted:")
					// A key without a fixed length takes characters of keys behind it.
					if !masked || strings.Contains(rest, key) || !strings.HasSuffix(rest, strings.TrimLeft(behind, "abcdefghijklmnopqrstuvwxyz-=.")) {
						t.Errorf("%s: %q becomes %q", r.ID, text, got)
					}
					if again, more := redact.Keys(got); again != got || more != nil || rules == nil {
						t.Errorf("%s: a second pass over %q finds %q", r.ID, got, more)
					}
					all.WriteString(text + "\n")
				}
			}
		}
		want, _ := redact.Keys(all.String())
		if got := streamed(t, all.String(), func(most int) int { return 1 + rnd.IntN(min(most, 5000)) }); got != want {
			t.Errorf("%s: in a stream other text is masked", r.ID)
		}
	}
}

// streamed writes a text in parts, whose lengths cut gives.
func streamed(t interface{ Fatal(args ...any) }, text string, cut func(most int) int) string {
	var out bytes.Buffer
	w := &redact.KeyWriter{To: &out}
	for rest := text; rest != ""; {
		n := cut(len(rest))
		if got, err := w.Write([]byte(rest[:n])); got != n || err != nil {
			t.Fatal(got, err)
		}
		rest = rest[n:]
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

// TestALongerWordIsNotAKey: characters of keys before or behind a key's text make it another word.
func TestALongerWordIsNotAKey(t *testing.T) {
	for _, key := range []string{awsKey(), "sk-ant-" + "api03-" + strings.Repeat("aB3_", 23) + "aAA", "np" + "m_" + strings.Repeat("aB3", 12)} {
		for _, text := range []string{"x" + key, "_" + key, key + "x", key + "_x", key + "0"} {
			if got, rules := redact.Keys(text); rules != nil {
				t.Errorf("%q becomes %q", text, got)
			}
		}
	}
}

func TestKeysInOtherText(t *testing.T) {
	quoted, _ := json.Marshal("a\n" + pem("RSA PRIVATE", "\n") + "b")
	for name, tc := range map[string]struct{ text, want string }{
		"in a line":        {"x = '" + githubKey() + "'; y", "x = '[redacted:github-pat]'; y"},
		"CRLF":             {"key=" + awsKey() + "\r\nnext", "key=[redacted:aws-access-token]\r\nnext"},
		"JSON":             {`{"id":"` + awsKey() + `\n"}`, `{"id":"[redacted:aws-access-token]\n"}`},
		"PEM":              {"a\n" + pem("RSA PRIVATE", "\n") + "b", "a\n[redacted:private-key]\nb"},
		"PEM, CRLF":        {pem("PRIVATE", "\r\n") + "b", "[redacted:private-key]\r\nb"},
		"PEM in JSON":      {string(quoted), `"a\n[redacted:private-key]\nb"`},
		"PEM in YAML":      {"k: |\n  " + pem("EC PRIVATE", "\n  ") + "b: 1", "k: |\n  [redacted:private-key]\n  b: 1"},
		"PEM in Go":        {"const k = `" + pem("OPENSSH PRIVATE", "\n") + "`", "const k = `[redacted:private-key]\n`"},
		"PEM, cat -n":      {numbered(pem("RSA PRIVATE", "\n")), "     1\t[redacted:private-key]\n"},
		"PEM, arrows":      {prefixed(pem("RSA PRIVATE", "\n"), "%5d→"), "    1→[redacted:private-key]\n"},
		"PEM, grep -n":     {prefixed(pem("RSA PRIVATE", "\n"), "src/a-b.pem:%d:"), "src/a-b.pem:1:[redacted:private-key]\n"},
		"PEM, grep -A":     {prefixed(pem("RSA PRIVATE", "\n"), "a.pem-%d-"), "a.pem-1-[redacted:private-key]\n"},
		"PEM, grep":        {prefixed(pem("RSA PRIVATE", "\n"), "src/a.pem:%.0d"), "src/a.pem:[redacted:private-key]\n"},
		"PEM, Gemini CLI":  {prefixed(pem("RSA PRIVATE", "\n"), "L%d: "), "L1: [redacted:private-key]\n"},
		"PEM, a diff":      {prefixed(pem("RSA PRIVATE", "\n"), "-%.0d"), "-[redacted:private-key]\n"},
		"PEM, a comment":   {prefixed(pem("RSA PRIVATE", "\n"), "// %.0d"), "// [redacted:private-key]\n"},
		"PEM, cat -n JSON": {`{"a":"` + strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(numbered(pem("RSA PRIVATE", "\n"))) + `"}`, `{"a":"     1\t[redacted:private-key]\n"}`},
		"PEM, encrypted":   {prefixed(encrypted(), "%d:"), "1:[redacted:private-key]\n"},
		"an example key":   {"AKI" + "AIOSFODNN7EXAMPLE", "AKI" + "AIOSFODNN7EXAMPLE"},
		"low entropy":      {"gh" + "p_" + strings.Repeat("a", 36), "gh" + "p_" + strings.Repeat("a", 36)},
		"binary":           {"\x00\xff" + githubKey() + "\x00\n\xfe", "\x00\xff[redacted:github-pat]\x00\n\xfe"},
		"UTF-16":           {utf16(githubKey()), utf16(githubKey())},
		"random bytes":     {random(1 << 20), random(1 << 20)},
		"public key":       {pem("PUBLIC", "\n"), pem("PUBLIC", "\n")},
		"names of PEM": {"if begin == \"-----BEGIN PRIVATE KEY-----\" {\n\treturn parse(begin)\n}\nend := \"-----END PRIVATE KEY-----\"",
			"if begin == \"-----BEGIN PRIVATE KEY-----\" {\n\treturn parse(begin)\n}\nend := \"-----END PRIVATE KEY-----\""},
	} {
		if got, rules := redact.Keys(tc.text); got != tc.want || (got == tc.text) != (rules == nil) {
			t.Errorf("%s: %q becomes %q (%q), want %q", name, tc.text, got, rules, tc.want)
		}
	}
}

// TestKeyWriterIsAsKeys: however a text is cut into writes, it is masked as a whole text is.
func TestKeyWriterIsAsKeys(t *testing.T) {
	parts := []string{githubKey(), awsKey(), pem("RSA PRIVATE", "\n"), numbered(pem("RSA PRIVATE", "\n")), prefixed(pem("RSA PRIVATE", "\n"), "src/a.pem:%d:"), "\n", " ", "word", "-----BEGIN", "-----", "a\x00b", "\u00fc", strings.Repeat("long ", 100), `"`, "ghp_"}
	rapid.Check(t, func(t *rapid.T) {
		text := strings.Join(rapid.SliceOfN(rapid.SampledFrom(parts), 0, 12).Draw(t, "parts"), rapid.SampledFrom([]string{"", " ", "\n"}).Draw(t, "between"))
		want, _ := redact.Keys(text)
		got := streamed(t, text, func(most int) int { return rapid.IntRange(1, most).Draw(t, "write") })
		if got != want {
			t.Fatalf("%q becomes %q, want %q", text, got, want)
		}
	})
}

// TestKeyWriterHoldsLittle: text without an end of a word, and a private key without an end, pass in the end.
func TestKeyWriterHoldsLittle(t *testing.T) {
	for name, part := range map[string]string{"no white space": strings.Repeat("x", 1000), "a key without an end": strings.Repeat("A", 63) + "\n", "hints": strings.Repeat("ghp_", 250)} {
		var out bytes.Buffer
		w := &redact.KeyWriter{To: &out}
		total, most := 0, 0
		write := func(s string) {
			_, _ = w.Write([]byte(s))
			total += len(s)
			most = max(most, total-out.Len())
		}
		if name == "a key without an end" {
			write("-----BEGIN PRIVATE KEY-----\n")
		}
		for range 1000 {
			write(part)
		}
		if most > 80<<10 && name != "a key without an end" || total-out.Len() > 80<<10+total/2 {
			t.Errorf("%s: %d bytes were held back at most, %d at the end", name, most, total-out.Len())
		}
	}
	var out bytes.Buffer
	w := &redact.KeyWriter{To: &out}
	_, _ = w.Write([]byte(strings.Repeat("x", 100<<10) + "." + githubKey()[:10]))
	_, _ = w.Write([]byte(githubKey()[10:]))
	_ = w.Flush()
	if strings.Contains(out.String(), githubKey()) || !slices.Equal(w.Rules, []string{"github-pat"}) {
		t.Errorf("a key in a long word is not masked: %q", w.Rules)
	}
}

// TestPublicFilesHaveNoKeys: of Go's own files, at most one in 1,000 has text that is taken for a key.
func TestPublicFilesHaveNoKeys(t *testing.T) {
	if testing.Short() {
		t.Skip("it reads thousands of files")
	}
	out, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		t.Skip("SKIPPED: needs the go command: ", err)
	}
	total := 0
	var found []string
	_ = filepath.WalkDir(filepath.Join(strings.TrimSpace(string(out)), "src"), func(p string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && d.Name() == "testdata" {
			return fs.SkipDir
		}
		if !d.Type().IsRegular() {
			return nil
		}
		if total++; total > maxPublicFiles {
			return fs.SkipAll
		}
		if b, err := os.ReadFile(p); err == nil && len(b) <= 1<<20 {
			if text, rules := redact.Keys(string(b)); rules != nil {
				at := strings.Index(text, "[redacted:")
				found = append(found, fmt.Sprintf("%s: %s: %q", p, rules, text[max(0, at-30):min(len(text), at+50)]))
			}
		}
		return nil
	})
	if total == 0 || len(found)*1000 > total {
		t.Errorf("%d of %d files have text that is taken for a key: %q", len(found), total, found)
	}
}

// maxPublicFiles bounds the files that a test reads.
const maxPublicFiles = 4000

func BenchmarkKeys(b *testing.B) {
	text := strings.Repeat("func (w *Writer) Write(b []byte) (int, error) { return w.to.Write(b) } // the key of a task\n", 10_000)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if _, rules := redact.Keys(text); rules != nil {
			b.Fatal(rules)
		}
	}
}

func BenchmarkKeyWriter(b *testing.B) {
	line := []byte(strings.Repeat("abcdefghijklmnopqrstuvwxyz\n", 300))
	w := &redact.KeyWriter{To: io.Discard}
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		_, _ = w.Write(line)
	}
}

// BenchmarkKeysHints is a text of beginnings of keys, which takes the most time.
func BenchmarkKeysHints(b *testing.B) {
	for _, hint := range []string{"fio-u-", "glpat-", "SG.", "-----BEGIN PRIVATE KEY-----\n"} {
		b.Run(hint, func(b *testing.B) {
			text := strings.Repeat(hint, 1<<20/len(hint))
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				redact.Keys(text)
			}
		})
	}
}
