package edit

import (
	"fmt"
	"slices"
	"strings"
)

// context is how many unchanged lines a diff shows around a change.
const context = 3

// ahead is how many added lines in a row a diff recognizes.
const ahead = 100

// Diff is the unified diff between two texts of a file, of which the second has lines added or
// replaced.
func Diff(file, was, is string) string {
	lines := walk(split(was), split(is))
	var out strings.Builder
	fmt.Fprintf(&out, "--- %s\n+++ %s\n", file, file)
	for from := 0; from < len(lines); {
		first := slices.IndexFunc(lines[from:], changed)
		if first < 0 {
			break
		}
		first += from
		last := first
		for i := first; i < len(lines) && i <= last+2*context; i++ {
			if changed(lines[i]) {
				last = i
			}
		}
		begin, end := max(from, first-context), min(len(lines), last+context+1)
		writeHunk(&out, lines, begin, end)
		from = end
	}
	return out.String()
}

func changed(line string) bool { return line[0] != ' ' }

func split(text string) []string {
	if text == "" {
		return nil
	}
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}

// walk lists the lines of both texts, each with its mark.
func walk(was, is []string) (out []string) {
	i, j := 0, 0
	for i < len(was) && j < len(is) {
		if was[i] == is[j] {
			out = append(out, " "+was[i])
			i, j = i+1, j+1
			continue
		}
		added := slices.Index(is[j:min(len(is), j+ahead)], was[i])
		if added < 0 {
			out = append(out, "-"+was[i], "+"+is[j])
			i, j = i+1, j+1
			continue
		}
		for range added {
			out = append(out, "+"+is[j])
			j++
		}
	}
	for ; i < len(was); i++ {
		out = append(out, "-"+was[i])
	}
	for ; j < len(is); j++ {
		out = append(out, "+"+is[j])
	}
	return out
}

// writeHunk writes a part of the lines with its places in both texts.
func writeHunk(out *strings.Builder, lines []string, begin, end int) {
	old, new := count(lines[:begin], '+'), count(lines[:begin], '-')
	fmt.Fprintf(out, "@@ -%d,%d +%d,%d @@\n", old+1, count(lines[begin:end], '+'), new+1, count(lines[begin:end], '-'))
	for _, line := range lines[begin:end] {
		out.WriteString(line + "\n")
	}
}

// count counts the lines without a mark.
func count(lines []string, mark byte) (n int) {
	for _, line := range lines {
		if line[0] != mark {
			n++
		}
	}
	return n
}
