package learn

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
)

// annotate prints a policy in canonical form with a comment above each entry.
func (b *builder) annotate(p *policy.Policy) []byte {
	var out bytes.Buffer
	out.WriteString("# Learned from what was done. It allows no more than the policies that allowed it.\n")
	var keys []string          // the keys that a line is in, by its indentation
	places := map[string]int{} // how many entries of a list there were
	for line := range strings.Lines(string(p.Print())) {
		text := strings.TrimLeft(line, " ")
		indent := len(line) - len(text)
		if key, ok := strings.CutSuffix(strings.TrimSpace(text), ":"); ok && !strings.HasPrefix(text, "- ") {
			keys = append(keys[:min(indent/2, len(keys))], key)
		}
		if strings.HasPrefix(text, "- ") {
			list := strings.Join(keys[:min(indent/2, len(keys))], ".")
			e, ok := b.notes[list+"["+strconv.Itoa(places[list])+"]"]
			if !ok {
				e.note = "kept as it was"
			}
			places[list]++
			fmt.Fprintf(&out, "%s# %s\n", line[:indent], oneLine(e.note))
			for _, text := range e.newly {
				fmt.Fprintf(&out, "%s# newly allows %s\n", line[:indent], oneLine(text))
			}
		}
		out.WriteString(line)
	}
	comments(&out, "Refused when it was tried, so not allowed here:", b.refused)
	comments(&out, "Done, but not allowed here:", b.left)
	return out.Bytes()
}

// comments lists suggestions at the end of the document.
func comments(out *bytes.Buffer, title string, list []suggestion) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(out, "\n# %s\n", title)
	for _, s := range list {
		why := ""
		if s.why != "" {
			why = ": " + s.why
		}
		fmt.Fprintf(out, "#   %s %s (%d×)%s\n", s.section, oneLine(s.text), s.count, oneLine(why))
	}
}

// oneLine writes text so that it stays in its comment and shows every character.
func oneLine(s string) string {
	quoted := strconv.Quote(s)
	return strings.ReplaceAll(strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`), `\\`, `\`)
}
