package hook_test

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/doors/hook"
)

// honestPatches are patches as models write them.
var honestPatches = [][]string{
	{"*** Begin Patch", "*** Add File: a.txt", "+one", "+", "+\ttwo", "*** End Patch"},
	{"*** Begin Patch", "*** Update File: b.txt", "@@", "-old", "+new", " same", "", "@@ func f() {", " \tx := 1", "+\ty := 2", "*** End of File", "*** End Patch"},
	{"*** Begin Patch", "*** Update File: b.txt", "*** Move to: c.txt", "@@ class A", "-old", "+new", "*** Delete File: d.txt", "*** Add File: src/e.md", "+***", "+*** Settings ***", "*** End Patch"},
	{"*** Begin Patch", "*** Update File: f.rb", " def a", "-  @@count = 1", "+  @@count = 2", "   @@count", " *** bold ***", " *** Additional notes ***", " ***Update**: x", " end", "*** Update File: g.txt", "@@", "+appended", "*** End Patch"},
}

// blanks are characters that some agent removes from the begin or the end of a line.
var blanks = []string{
	" ", "  ", "\t", "\v", "\f", "\r", "\x00", "\x1c", "\x1f", "\u0085", "\u00a0", "\u00ad", "\u1680", "\u180e", "\u2000", "\u2003", "\u2007", "\u200a", "\u200b", "\u200e",
	"\u2028", "\u2029", "\u202f", "\u205f", "\u2060", "\u3000", "\ufeff",
}

// planted are lines that name a file or move an end, put between the others.
var planted = []string{
	"*** Add File: .env", "*** Update File: .env", "*** Delete File: .env", "*** Move to: .env", "*** Add File:.env", "*** add file: .env", "***  Add File: .env", "*** Add  File: .env",
	"*** Add File:\t.env", "*** Rename File: .env", "*** Environment ID: other", "*** End of File", "*** Begin Patch", "*** End Patch", "<<'EOF'", "EOF", "@@", "x", "", "+", " ",
}

// leniently gives the files that some agent could see in a patch: of any line that is not added
// or removed text and that, without the white space around it, begins like a header. Agents
// read between the first begin and the last end, where there are any.
func leniently(text string) (files []string) {
	strip := func(s string) string {
		return strings.TrimFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) || unicode.Is(unicode.Cf, r) })
	}
	lines := strings.FieldsFunc(text, func(r rune) bool {
		return r == '\n' || r == '\r' || r == '\u2028' || r == '\u2029' || r == '\v' || r == '\f' || r == '\u0085'
	})
	if !slices.ContainsFunc(lines, func(s string) bool { return strip(s) == "*** Begin Patch" }) || !slices.ContainsFunc(lines, func(s string) bool { return strip(s) == "*** End Patch" }) {
		return nil
	}
	for _, line := range lines {
		line = strip(line)
		for _, head := range []string{"*** add file:", "*** update file:", "*** delete file:", "*** move to:"} {
			if len(line) >= len(head) && strings.EqualFold(line[:len(head)], head) {
				files = append(files, path.Join("/w", strip(line[len(head):])))
			}
		}
	}
	return files
}

// checkPatch fails if an agent could see a file that the hook does not. It reports whether the
// hook read the patch.
func checkPatch(t interface {
	Helper()
	Fatalf(format string, args ...any)
}, text string) bool {
	t.Helper()
	input, err := json.Marshal(map[string]string{"command": text})
	if err != nil {
		t.Fatalf("%v", err)
	}
	e, err := hook.Parse("codex", []byte(before("apply_patch", string(input))))
	if err != nil || e.Refusal != "" {
		return false
	}
	var seen []string
	for _, c := range e.Calls {
		for _, name := range []string{"path", "from", "to"} {
			if p, ok := c.Args[name].(string); ok {
				seen = append(seen, path.Clean(p))
			}
		}
	}
	for _, file := range leniently(text) {
		if !slices.Contains(seen, file) {
			t.Fatalf("an agent could see %q, the hook sees %q in\n%q", file, seen, text)
		}
	}
	return true
}

// No spelling of a patch hides a file from the hook: what an agent may read is read, or the
// patch is refused.
func TestPatchesHideNoFile(t *testing.T) {
	for n, honest := range honestPatches {
		if !checkPatch(t, strings.Join(honest, "\n")) || !checkPatch(t, strings.Join(honest, "\n")+"\n") {
			t.Errorf("honest work is refused: %q", honest)
		}
		for at := range len(honest) + 1 {
			if n > 1 {
				break // two patches have all kinds of lines
			}
			for _, line := range planted {
				for _, blank := range append(blanks, "", "+", "-", "@@ ") {
					for _, text := range []string{blank + line, line + blank, "+x" + blank + line, " x" + blank + line, "-" + blank + line} {
						checkPatch(t, strings.Join(slices.Insert(slices.Clone(honest), at, text), "\n"))
					}
				}
			}
		}
		for at, line := range honest {
			for _, blank := range blanks {
				for _, plant := range planted {
					changed := slices.Clone(honest)
					changed[at] = line + blank + plant
					checkPatch(t, strings.Join(changed, "\n"))
				}
				for _, text := range []string{blank + line, line + blank, strings.Replace(line, " ", blank, 1), strings.Replace(line, ": ", ":"+blank, 1), strings.ToUpper(line), line + "\n" + line} {
					changed := slices.Clone(honest)
					changed[at] = text
					checkPatch(t, strings.Join(changed, "\n"))
				}
			}
		}
		for _, w := range [][2]string{{"<<'EOF'\n", "\nEOF"}, {"<<EOF\n", "\nEOF\n"}, {"cat <<'X'\n", "\nX"}, {"\n\n", "\n\n"}, {"\ufeff", ""}, {"text\n", ""}, {"", "\ntext"}} {
			checkPatch(t, w[0]+strings.Join(honest, "\n")+w[1])
		}
		checkPatch(t, strings.Join(honest, "\r\n"))
		checkPatch(t, strings.Join(honest, "\r"))
	}
}

// Nor do several changes at once.
func TestPatchesHideNoFileAtRandom(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := slices.Clone(rapid.SampledFrom(honestPatches).Draw(t, "patch"))
		for range rapid.IntRange(1, 5).Draw(t, "changes") {
			at := rapid.IntRange(0, len(lines)-1).Draw(t, "at")
			blank := rapid.SampledFrom(blanks).Draw(t, "blank")
			switch rapid.IntRange(0, 5).Draw(t, "change") {
			case 0:
				lines[at] = blank + lines[at]
			case 1:
				lines[at] += blank
			case 2:
				lines = slices.Insert(lines, at, rapid.SampledFrom(planted).Draw(t, "line"))
			case 3:
				lines = slices.Insert(lines, at, fmt.Sprint(blank, rapid.SampledFrom(planted).Draw(t, "line")))
			case 4:
				lines[at] += blank + rapid.SampledFrom(planted).Draw(t, "line")
			default:
				lines = slices.Delete(lines, at, at+1)
			}
			if len(lines) == 0 {
				return
			}
		}
		checkPatch(t, strings.Join(lines, "\n"))
	})
}
