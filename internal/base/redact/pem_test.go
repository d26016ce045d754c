package redact_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/redact"
)

// linePrefixes are what tools write before each line of a file, by the line's number.
var linePrefixes = map[string]func(n int) string{
	"nothing":  func(int) string { return "" },
	"cat -n":   func(n int) string { return fmt.Sprintf("%6d\t", n) },
	"an arrow": func(n int) string { return fmt.Sprintf("%5d→", n) },
	"bat": func(n int) string {
		return fmt.Sprintf("\x1b[38;5;246m%4d\x1b[0m \x1b[38;5;238m│\x1b[0m \x1b[38;5;231m", n)
	},
	"Gemini CLI":  func(n int) string { return fmt.Sprintf("L%d: ", n) },
	"grep -n":     func(n int) string { return fmt.Sprintf("%d:", n) },
	"grep -rn -A": func(n int) string { return fmt.Sprintf("deploy/certs-a/server.key-%d-", n) },
	"grep -r":     func(int) string { return "values.yaml:" },
	"grep --color": func(n int) string {
		return fmt.Sprintf("\x1b[35m\x1b[Ka.pem\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K\x1b[32m\x1b[K%d\x1b[m\x1b[K\x1b[36m\x1b[K:\x1b[m\x1b[K", n)
	},
	"a name with blanks": func(n int) string { return fmt.Sprintf("my own file.pem:%d:", n) },
	"a Windows path":     func(n int) string { return fmt.Sprintf(`C:\Users\Ann\new file.pem:%d:`, n) },
	"a long path": func(n int) string {
		return fmt.Sprintf("src/ConfigurationManagerFactory2/components/navigation/index/server:%d:", n)
	},
	"git blame": func(n int) string { return fmt.Sprintf("^1a2b3c4d (Ann Example 2026-01-02 03:04:05 +0100 %3d) ", n) },
	"git blame -l": func(n int) string {
		return fmt.Sprintf("0123456789abcdef0123456789abcdef01234567 a/b.pem (Ann 2026-01-02 %3d) ", n)
	},
	"a difference":       func(int) string { return "+" },
	"a comment":          func(int) string { return "// " },
	"a comment close by": func(int) string { return "#" },
	"number and comment": func(n int) string { return fmt.Sprintf("%d\t# ", n) },
	"a quote":            func(int) string { return "> > " },
	"a log":              func(int) string { return "web-1  | 2026-01-02T03:04:05Z INFO " },
}

// lineSuffixes are what stands behind the line's text, with what then stands before it.
var lineSuffixes = map[string][2]string{
	"nothing":        {"", ""},
	"blanks":         {"", "  "},
	"JavaScript":     {`"`, `\n" +`},
	"a list":         {`'`, `',`},
	"C":              {`"`, `\r\n"`},
	"PHP":            {`'`, `' . "\n" .`},
	"a continuation": {"", ` \`},
	"a colour":       {"\x1b[31m", "\x1b[0m"},
}

// pemLines are the lines of a random private key.
func pemLines(t *rapid.T) []string {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
	rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "key"), 1))
	kind := rapid.SampledFrom([]string{"RSA ", "", "EC ", "OPENSSH ", "ENCRYPTED "}).Draw(t, "kind")
	width := rapid.SampledFrom([]int{64, 70, 76}).Draw(t, "width")
	lines := []string{"-----BEGIN " + kind + "PRIVATE KEY-----"}
	if rapid.Bool().Draw(t, "headers") {
		lines = append(lines, "Proc-Type: 4,ENCRYPTED", "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF", "")
	}
	for size := rapid.IntRange(2, 60).Draw(t, "size")*width + rapid.IntRange(0, width-1).Draw(t, "last"); size > 0; size -= width {
		var b strings.Builder
		for range min(size, width) {
			b.WriteByte(letters[rnd.IntN(len(letters))])
		}
		lines = append(lines, b.String())
	}
	return append(lines, "-----END "+kind+"PRIVATE KEY-----")
}

// TestPrivateKeysInAnyForm: a private key is masked with the prefixes and suffixes of its lines, and the text before and behind
// it stays. Of a key that is cut off, the text behind it stays.
func TestPrivateKeysInAnyForm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := pemLines(t)
		prefix := linePrefixes[rapid.SampledFrom(slices.Sorted(maps.Keys(linePrefixes))).Draw(t, "prefix")]
		around := lineSuffixes[rapid.SampledFrom(slices.Sorted(maps.Keys(lineSuffixes))).Draw(t, "suffix")]
		indent := strings.Repeat(rapid.SampledFrom([]string{" ", "\t"}).Draw(t, "indent"), rapid.IntRange(0, 40).Draw(t, "indents"))
		end := rapid.SampledFrom([]string{"\n", "\r\n", `\n`, `\r\n`, `\\n`}).Draw(t, "line end")
		kept := len(lines)
		if rapid.IntRange(0, 3).Draw(t, "cut off") == 0 {
			kept = rapid.IntRange(len(lines)-2, len(lines)-1).Draw(t, "lines") // without its end, or also without its last line
		}
		text, indent := "before"+end, indent+around[0]
		want := text + prefix(1) + indent + "[redacted:private-key]"
		for i, line := range lines[:kept] {
			text += prefix(i+1) + indent + line + around[1] + end
		}
		behind := around[1] + end
		for _, word := range rapid.SliceOfN(rapid.SampledFrom([]string{"ConfigurationManagerFactory", "src/components/navigation/index", "const begin = 1;", ""}), 0, 4).Draw(t, "behind") {
			behind += prefix(9) + word + end
		}
		text = strings.TrimSuffix(text, around[1]+end) + behind
		got, _ := redact.Keys(text)
		if !strings.HasPrefix(got, want) || !strings.HasSuffix(got, behind) {
			t.Fatalf("%s\nbecomes\n%s\nand does not end with\n%s", text, got, behind)
		}
		for i, line := range lines[1:kept] {
			isWord := i+2 == kept && kept < len(lines) && (len(line) < 16 || !strings.ContainsAny(line, "0123456789")) // a short last line can be one
			if len(line) >= 8 && !isWord && strings.Contains(got, line) {
				t.Fatalf("%s\nbecomes\n%s\nwhich has the line %s", text, got, line)
			}
		}
		if s := streamed(t, text, func(most int) int { return rapid.IntRange(1, most).Draw(t, "write") }); s != got {
			t.Fatalf("%s\nbecomes in a stream\n%s\nwant\n%s", text, s, got)
		}
	})
}

// TestNarrowPrivateKeys: between its first and its last line, a private key is masked whose lines were folded.
func TestNarrowPrivateKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := pemLines(t)
		title, end := lines[0], lines[len(lines)-1]
		key := strings.Join(slices.DeleteFunc(lines[1:len(lines)-1], func(line string) bool { return strings.Contains(line, ":") }), "")
		width := rapid.IntRange(16, 39).Draw(t, "width")
		prefix := linePrefixes[rapid.SampledFrom([]string{"an arrow", "a difference", "a quote", "a comment", "number and comment"}).Draw(t, "prefix")]
		indent := strings.Repeat(" ", rapid.IntRange(0, 20).Draw(t, "indent"))
		text := "before\n" + prefix(1) + indent + title + "\n"
		want := "before\n" + prefix(1) + indent + "[redacted:private-key]\nbehind\n"
		for n := 2; key != ""; n++ {
			text += prefix(n) + indent + key[:min(width, len(key))] + "\n"
			key = key[min(width, len(key)):]
		}
		text += prefix(99) + indent + end + "\nbehind\n"
		if got, _ := redact.Keys(text); got != want {
			t.Fatalf("%s\nbecomes\n%s\nwant\n%s", text, got, want)
		}
		if s := streamed(t, text, func(most int) int { return rapid.IntRange(1, most).Draw(t, "write") }); s != want {
			t.Fatalf("%s\nbecomes in a stream\n%s", text, s)
		}
	})
	for _, text := range []string{
		"s.replace(\"-----BEGIN PRIVATE KEY-----\", \"\")\n\t.replace(\"-----END PRIVATE KEY-----\", \"\")\n",
		"-----BEGIN PRIVATE KEY-----\nyourKeyGoesHereInBase64\nandItHasSeveralLinesOfText\nuntilItsEndMarkerComesBelow\n-----END PRIVATE KEY-----\n",
	} {
		if got, _ := redact.Keys(text); got != text {
			t.Errorf("%s\nbecomes\n%s", text, got)
		}
	}
}
