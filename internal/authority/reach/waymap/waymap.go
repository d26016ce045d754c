// Package waymap draws the ways that a question about authority found: the sources of data, its
// holders, the steps that hand it on, and its targets. Start at [New] for the picture, at [HTML]
// for a page of its own.
package waymap

import (
	"bytes"
	"crypto/sha256"
	_ "embed" // the page, its picture and its style
	"encoding/base64"
	"fmt"
	"html/template"
	"io"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/redact"
)

// Template defines the template "waymap", which draws a [Picture] as SVG.
//
//go:embed picture.html
var Template string

//go:embed page.html
var pageSource string

//go:embed style.css
var style string

// Sizes in the units of the picture.
const (
	boxWidth  = 216
	boxHeight = 30
	rowHeight = 46
	gap       = 84 // between columns
	top       = 34 // below the columns' titles
	maxRows   = 40 // boxes of a column
	nameChars = 25 // of a box
)

// Picture is the ways of a question as boxes in columns and lines between them.
type Picture struct {
	Width, Height int
	Titles        []Title
	Boxes         []Box
	Lines         []Line
	Left          int // boxes that are left out
}

// Title stands over a column.
type Title struct {
	X    int
	Text string
}

// Box is a place.
type Box struct {
	X, Y, TextX, TextY, Width, Height int
	Class                             string // the column
	Name, Whole                       string
}

// Line is a step from one place to another.
type Line struct {
	Path  string // of SVG
	Open  bool   // without a person or an assumption
	Label string
}

// columns are the columns from left to right.
var columns = []struct {
	column reach.Column
	title  string
}{{reach.Source, "from"}, {reach.Actor, "who"}, {reach.Store, "handed over by"}, {reach.Sink, "to"}}

// New lays a map out.
func New(m reach.Map) Picture {
	var p Picture
	at := make([]*Box, len(m.Nodes))
	for _, c := range columns {
		rows := 0
		for i, n := range m.Nodes {
			if n.Column != c.column {
				continue
			}
			if rows == maxRows {
				p.Left++
				continue
			}
			x, y := p.Width, top+rows*rowHeight
			name := redact.Show(n.Name)
			at[i] = &Box{x, y, x + 10, y + boxHeight/2 + 5, boxWidth, boxHeight, string(n.Column), clip.Text(name, nameChars), name}
			rows++
			p.Height = max(p.Height, y+rowHeight)
		}
		if rows > 0 {
			p.Titles = append(p.Titles, Title{p.Width, c.title})
			p.Width += boxWidth + gap
		}
	}
	p.Width = max(p.Width-gap, boxWidth)
	for _, b := range at {
		if b != nil {
			p.Boxes = append(p.Boxes, *b)
		}
	}
	for _, e := range m.Edges {
		if from, to := at[e.From], at[e.To]; from != nil && to != nil {
			p.Lines = append(p.Lines, Line{curve(from, to), e.Open, redact.Show(e.Step.From + " " + e.Step.Does + " " + e.Step.To + ": " + e.Step.Effect + " " + e.Step.Rule)})
		}
	}
	return p
}

// curve is a line with an arrow head. What leads back to the left stands a little lower.
func curve(from, to *Box) string {
	fromX, fromY, toX, toY, out := from.X+boxWidth, from.Y+boxHeight/2-4, to.X, to.Y+boxHeight/2-4, gap/2
	if to.X < from.X {
		fromX, fromY, toX, toY, out = from.X, from.Y+boxHeight/2+6, to.X+boxWidth, to.Y+boxHeight/2+6, -gap/2
	}
	back := 7
	if out < 0 {
		back = -7
	}
	return fmt.Sprintf("M%d %dC%d %d %d %d %d %dM%d %dL%d %dL%d %d", fromX, fromY, fromX+out, fromY, toX-out, toY, toX, toY,
		toX-back, toY-4, toX, toY, toX-back, toY+4)
}

// view is the data of the page.
type view struct {
	reach.Ways
	CSP     string
	Picture Picture
}

var page = sync.OnceValue(func() *template.Template {
	t := template.New("page").Funcs(template.FuncMap{"show": redact.Show})
	return template.Must(template.Must(t.Parse(strings.Replace(pageSource, "@style", style, 1))).Parse(Template))
})

// HTML writes one page that loads nothing: no script, no font, no image. A strict content
// security policy makes the browser hold to it.
func HTML(w io.Writer, found reach.Ways) error {
	sum := sha256.Sum256([]byte(style))
	v := view{
		Ways: found, Picture: New(found.Map),
		CSP: "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'",
	}
	var b bytes.Buffer // a page cut short by an error would look like a whole one
	if err := page().Execute(&b, v); err != nil {
		return fmt.Errorf("drawing the ways: %w", err)
	}
	_, err := w.Write(b.Bytes())
	return err
}
