package webui

import (
	"fmt"
	"slices"
	"strconv"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/redact"
)

// stack is a run as a bar of its calls. Lengths are out of the picture's size.
type stack struct {
	X, W  string
	Parts []part
	Label string
}

// part is a piece of a stack.
type part struct{ Y, H, Class string }

// minStacks is how many runs the picture has room for at least.
const minStacks = 25

// stackHeight is the height of the picture of calls.
const stackHeight = 60

// stacks draws the calls of runs, the oldest one left.
func stacks(runs []runLine) []stack {
	most := 0
	for _, r := range runs {
		most = max(most, r.Completed+r.Denied+r.Failed)
	}
	if most == 0 || len(runs) < 2 {
		return nil
	}
	width := 1000 / float64(max(len(runs), minStacks))
	var out []stack
	for i, r := range slices.Backward(runs) {
		s := stack{
			X: fmt.Sprintf("%.1f", float64(len(runs)-1-i)*width), W: fmt.Sprintf("%.1f", width*0.8),
			Label: fmt.Sprintf("%s: %d completed, %d denied, %d failed", redact.Show(clip.Text(r.Title(), 60)), r.Completed, r.Denied, r.Failed),
		}
		y := float64(stackHeight)
		for _, p := range []struct {
			n     int
			class string
		}{{r.Completed, "bar-completed"}, {r.Denied, "bar-denied"}, {r.Failed, "bar-failed"}} {
			if p.n > 0 {
				h := max(float64(p.n)*stackHeight/float64(most), 1)
				y -= h
				s.Parts = append(s.Parts, part{fmt.Sprintf("%.1f", max(y, 0)), fmt.Sprintf("%.1f", h), p.class})
			}
		}
		out = append(out, s)
	}
	return out
}

// treePicture is a tree of grants as a picture.
type treePicture struct {
	Width, Height int
	Nodes         []treeNode
}

// treeNode is a grant in the picture, with the line to the one that it derives from.
type treeNode struct {
	X, Y       int
	Line       string // a path; "": it is a top
	TextX      int
	TextY      int
	Class      string
	Label      string
	Path, Name string
}

const (
	treeRow  = 26 // pixels from one grant to the next one
	treeStep = 22 // pixels for each level
	maxNodes = 60 // grants in the picture
	textWide = 250
)

// pictureOf draws the first grants of a tree.
func pictureOf(lines []grantLine) *treePicture {
	if len(lines) < 2 {
		return nil
	}
	lines = lines[:min(len(lines), maxNodes)]
	p := &treePicture{Height: len(lines) * treeRow}
	var last [maxIn + 1]int // y of the last grant at each level
	for i, g := range lines {
		x, y := 10+g.In*treeStep, i*treeRow+treeRow/2
		n := treeNode{X: x, Y: y, TextX: x + 14, TextY: y + 5, Class: "node-" + g.State(), Path: "/ui/grants/" + g.ID.String(), Name: clip.Text(redact.Show(g.Holder), 32)}
		n.Label = n.Name + ", " + g.State()
		if g.In > 0 {
			up := last[g.In-1]
			if g.In == maxIn && i > 0 && lines[i-1].In == maxIn {
				up = last[maxIn-1]
			}
			n.Line = "M" + strconv.Itoa(x-treeStep) + " " + strconv.Itoa(up) + "V" + strconv.Itoa(y) + "H" + strconv.Itoa(x)
		}
		last[g.In] = y
		p.Width = max(p.Width, x+textWide)
		p.Nodes = append(p.Nodes, n)
	}
	return p
}
