package cli

import (
	"math"
	"slices"
	"strings"

	"github.com/mattn/go-runewidth"
)

// cell is one cell of a table: its text, made safe when printed, and its colour.
type cell struct {
	text   string
	colour colour
}

// gap is the space between two columns.
const gap = 2

// The minimum widths of shortened columns, in characters.
const (
	leastText  = 10
	shortText  = 13 // a column of single words, such as interrupted, is not shortened
	wholeName  = 15 // while spare columns are shown
	leastName  = 10
	leastCalls = 14 // shows "3/8, 4 denied"
	leastLast  = 24 // of a last column that is never cut; narrower, it is printed below its row
)

// How columns are made to fit a narrow terminal, by their headings. The first column
// and IDs are never cut, because people copy them. Names keep at least 10 characters.
// Wrap columns are continued on the next line. Spare columns are omitted, in this order.
// All other columns are text: they are cut, and then omitted, the rightmost first. IDs
// that still do not fit are printed on the next line.
var (
	idColumns    = []string{"RUN", "RUN/CALL", "EVENT", "TOOL", "PARENT", "ID"}
	nameColumns  = []string{"NAME", "STEP", "HOLDER", "FOR", "TITLE", "CASE", "MODEL"}
	wrapColumns  = append([]string{"CALLS", "AGENT", "ADDRESS", "URL"}, nameColumns...)
	spareColumns = []string{"TOOK", "MESSAGES", "SENT", "RECEIVED", "CHANGED", "CREATED", "ISSUED", "MADE", "SET", "MEMORY", "TIMEOUT", "ASKED", "STARTED", "AT", "EXPIRES"}
)

// table prints rows under headings with aligned columns. On a terminal it makes the
// columns fit, so that no line wraps.
func (s *session) table(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows, false)
	for _, r := range rows {
		s.tableRow(head, r, widths, room)
	}
}

// tableWhole is table for rows whose last column is never cut: it is wrapped, or printed
// below its row.
func (s *session) tableWhole(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows, true)
	last := len(head) - 1
	for i, r := range rows {
		if widths[last] > 0 {
			r[last].text = strings.Join(chop(wrap(r[last].text, widths[last]), widths[last]), "\n")
		}
		s.tableRow(head, r, widths, room)
		if widths[last] == 0 && i > 0 && r[last].text != "" {
			s.block(r[last].colour, r[last].text)
		}
	}
}

// layout makes the cells safe, adds the headings, and returns the widths of the columns
// (0 if omitted) and of the line. If whole is true, the last column is not cut, and is
// omitted only to be printed below its row.
func (s *session) layout(head []string, body [][]cell, whole bool) (rows [][]cell, widths []int, room int) {
	line := make([]cell, len(head))
	for i, h := range head {
		line[i] = cell{h, dim}
	}
	rows = append([][]cell{line}, body...)
	widths = make([]int, len(head))
	longest := math.MaxInt // of the IDs that widen their column
	room = math.MaxInt
	if isTerminal(s.Out) {
		room = s.width()
		longest = room * 9 / 20
	}
	for _, r := range rows {
		for i := range r {
			r[i].text = show(r[i].text)
			if w := runewidth.StringWidth(r[i].text); !isID(head, i) || w <= longest {
				widths[i] = max(widths[i], w)
			}
		}
	}
	if !isTerminal(s.Out) {
		return rows, widths, room
	}
	return rows, fit(head, widths, room, whole), room
}

// isID reports whether a column holds IDs, which are never cut.
func isID(head []string, i int) bool { return i == 0 || slices.Contains(idColumns, head[i]) }

// fit returns the widths of a table's columns within room, 0 for omitted columns.
func fit(head []string, natural []int, room int, whole bool) []int {
	f := fitting{head: head, natural: natural, room: room}
	if whole {
		f.last = len(head) - 1
	}
	f.moveBelow()
	for !f.squeeze(wholeName) && f.leaveOut(f.spare) {
	}
	for !f.squeeze(leastName) && f.leaveOut(f.text) {
	}
	return f.widths
}

// fitting is the state of fit.
type fitting struct {
	head    []string
	natural []int
	room    int
	last    int // the column that is never cut, if above 0
	out     []int
	widths  []int
}

// total returns the width of a line.
func (f *fitting) total() int {
	total := -gap
	for _, w := range f.widths {
		if w > 0 {
			total += w + gap
		}
	}
	return total
}

// squeeze shortens the remaining columns, text before names and the widest first, and
// reports whether the line fits.
func (f *fitting) squeeze(name int) bool {
	f.widths = slices.Clone(f.natural)
	for _, i := range f.out {
		f.widths[i] = 0
	}
	for total := f.total(); total > f.room; total-- {
		if f.last > 0 && f.widths[f.last] > leastLast { // it is wrapped, so nothing is lost
			f.widths[f.last]--
			continue
		}
		i := f.widest(name, false)
		if i < 0 {
			i = f.widest(name, true)
		}
		if i < 0 {
			return false
		}
		f.widths[i]--
	}
	return true
}

// widest returns the widest column that can still be shortened, among the names or the
// others; -1 if none.
func (f *fitting) widest(name int, names bool) int {
	found := -1
	for i, w := range f.widths {
		if w > f.least(i, name) && slices.Contains(nameColumns, f.head[i]) == names && (found < 0 || w > f.widths[found]) {
			found = i
		}
	}
	return found
}

// least returns the minimum width of a column.
func (f *fitting) least(i, name int) int {
	head := f.head[i]
	switch {
	case i == f.last && i > 0:
		return leastLast
	case isID(f.head, i), slices.Contains(spareColumns, head):
		return f.natural[i]
	case slices.Contains(nameColumns, head):
		return name
	case head == "CALLS":
		return min(f.natural[i], leastCalls)
	}
	if f.natural[i] <= shortText {
		return f.natural[i]
	}
	return leastText
}

// moveBelow omits the column that is never cut if the others do not fit beside it. It is
// then printed below its row.
func (f *fitting) moveBelow() {
	f.widths = slices.Clone(f.natural)
	if f.last == 0 {
		return
	}
	f.widths[f.last] = min(f.widths[f.last], leastLast)
	if f.total() > f.room {
		f.out = append(f.out, f.last)
	}
}

// leaveOut omits the column that next returns, and reports false if there is none.
func (f *fitting) leaveOut(next func() int) bool {
	i := next()
	if i > 0 {
		f.out = append(f.out, i)
	}
	return i > 0
}

// spare returns the next spare column that is shown, or -1.
func (f *fitting) spare() int {
	for _, h := range spareColumns {
		if i := slices.Index(f.head, h); i > 0 && f.widths[i] > 0 {
			return i
		}
	}
	return -1
}

// text returns the rightmost shown column that is neither an ID nor a name, or -1.
func (f *fitting) text() int {
	for i := len(f.head) - 1; i > 0; i-- {
		if h := f.head[i]; f.widths[i] > 0 && !slices.Contains(idColumns, h) && !slices.Contains(nameColumns, h) {
			return i
		}
	}
	return -1
}

// tableRow prints one row: several lines if a cell is wrapped or has lines of its own.
func (s *session) tableRow(head []string, r []cell, widths []int, room int) {
	lines := make([][]string, len(r))
	height := 1
	for i, c := range r {
		if slices.Contains(wrapColumns, head[i]) {
			c.text = strings.Join(chop(wrap(c.text, widths[i]), widths[i]), "\n")
		}
		lines[i] = strings.Split(c.text, "\n")
		if widths[i] > 0 {
			height = max(height, len(lines[i]))
		}
	}
	for n := range height {
		line := slices.Clone(r)
		for i := range line {
			line[i].text = ""
			if n < len(lines[i]) {
				line[i].text = lines[i][n]
			}
		}
		s.tableLine(head, line, widths, room)
	}
}

// tableLine prints one line of cells, and continues on the next one where they do not fit.
func (s *session) tableLine(head []string, r []cell, widths []int, room int) {
	const indent = 4
	var b strings.Builder
	flush := func(indent int) {
		if line := strings.TrimRight(b.String(), " "); line != "" {
			s.printf("%s\n", line)
		}
		b.Reset()
		b.WriteString(strings.Repeat(" ", indent))
	}
	used := 0
	for i, c := range r {
		if widths[i] == 0 {
			continue
		}
		if used > 0 && used+widths[i] > room {
			flush(indent)
			used = indent
		}
		text := c.text
		if !isID(head, i) {
			text = runewidth.Truncate(text, widths[i], "…")
		}
		pad := widths[i] + gap - runewidth.StringWidth(text)
		used += widths[i] + gap
		if c.colour != "" && text != "" {
			text = s.paint(c.colour, text)
		}
		b.WriteString(text)
		if pad < gap {
			flush(used)
			continue
		}
		b.WriteString(strings.Repeat(" ", pad))
	}
	flush(0)
}
