package edit

import (
	"strings"

	"github.com/remitrun/remit/internal/base/diff"
)

// Diff compares two texts of a file. Its text form begins with the names.
func Diff(file, was, is string) diff.Diff {
	d := diff.New(file, []byte(was), file, []byte(is))
	_, d.Text, _ = strings.Cut(d.Text, "\n")
	return d
}
