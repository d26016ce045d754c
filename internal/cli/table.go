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
// and IDs are never shortened, because people copy them. Names are shortened a little.
// Spare columns are omitted, in this order. All other columns are text: they are
// shortened, and then omitted, the rightmost first.
var (
	idColumns    = []string{"RUN", "RUN/CALL", "TOOL", "PARENT", "ID"}
	nameColumns  = []string{"NAME", "STEP", "HOLDER", "FOR", "TITLE", "CASE"}
	spareColumns = []string{"TOOK", "MESSAGES", "SENT", "RECEIVED", "CHANGED", "CREATED", "ISSUED", "MADE", "MEMORY", "TIMEOUT", "ASKED", "STARTED", "AT", "EXPIRES"}
)

// table prints rows under headings with aligned columns. On a terminal it makes the
// columns fit, so that no line wraps.
func (s *session) table(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows, false)
	for _, r := range rows {
		s.tableLine(r, widths, room)
	}
}

// tableWhole is table for rows whose last column is never cut: it continues on the
// lines below.
func (s *session) tableWhole(head []string, rows [][]cell) {
	rows, widths, room := s.layout(head, rows, true)
	last := len(head) - 1
	below := widths[last] == 0
	for i, r := range rows {
		switch {
		case !below:
			for j, part := range chop(wrap(r[last].text, widths[last]), widths[last]) {
				if j > 0 {
					clear(r[:last])
				}
				r[last].text = part
				s.tableLine(r, widths, room)
			}
		default:
			s.tableLine(r, widths, room)
			if i > 0 && r[last].text != "" {
				s.block(r[last].colour, r[last].text)
			}
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
	for _, r := range rows {
		for i := range r {
			r[i].text = show(r[i].text)
			widths[i] = max(widths[i], runewidth.StringWidth(r[i].text))
		}
	}
	if !isTerminal(s.Out) {
		return rows, widths, math.MaxInt
	}
	room = s.width()
	return rows, fit(head, widths, room, whole), room
}

// fit returns the widths of a table's columns within room, 0 for omitted columns.
func fit(head []string, natural []int, room int, whole bool) []int {
	f := fitting{head: head, natural: natural, room: room}
	if whole {
		f.last = len(head) - 1
	}
	f.below()
	for !f.squeeze(wholeName) && f.leaveOut(f.spare) {
	}
	for !f.squeeze(leastName) && f.leaveOut(f.text) {
	}
	if f.total() > room {
		f.squeeze(leastName / 2) // better than a shortened ID
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
	case i == 0, slices.Contains(idColumns, head), slices.Contains(spareColumns, head):
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

// below omits the column that is never cut if the others do not fit beside it. It is
// then printed below its row.
func (f *fitting) below() {
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

func (s *session) tableLine(r []cell, widths []int, room int) {
	var b strings.Builder
	for i, c := range r {
		if room <= 0 {
			break
		}
		if widths[i] == 0 {
			continue
		}
		width := min(widths[i], room)
		text := runewidth.Truncate(c.text, width, "…")
		pad := width - runewidth.StringWidth(text)
		if c.colour != "" && text != "" {
			text = s.paint(c.colour, text)
		}
		b.WriteString(text)
		if room -= widths[i] + gap; i < len(r)-1 && room > 0 {
			b.WriteString(strings.Repeat(" ", pad+gap))
		}
	}
	s.printf("%s\n", strings.TrimRight(b.String(), " "))
}
