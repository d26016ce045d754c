package waymap_test

import (
	"bytes"
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/reach"
	"github.com/remitrun/remit/internal/authority/reach/waymap"
)

func TestPage(t *testing.T) {
	const hostile = "out/</title><script>alert(1)</script>\u202e\x1b[31m"
	m := reach.Map{
		Nodes: []reach.MapNode{{Column: reach.Actor, Name: "agent:docs"}, {Column: reach.Store, Name: hostile}, {Column: reach.Actor, Name: "user:ann"}, {Column: reach.Sink, Name: "GET https://api.test/"}},
		Edges: []reach.MapEdge{{From: 0, To: 1, Open: true, Step: reach.Step{From: "agent:docs", Does: "writes", To: hostile, Effect: "allow"}}, {From: 1, To: 2}, {From: 2, To: 3}},
	}
	var b bytes.Buffer
	p := reach.Ways{Answer: reach.Answer{From: "agent:docs", To: "network *", Verdict: reach.Reachable}, Cut: []reach.Entry{{Rule: `files.write.allow[0] "</p><b>"`, File: "a.yaml", Line: 3}}, Map: m}
	if err := waymap.HTML(&b, p); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	for _, bad := range []string{"<script", "<b>", "\x1b", "\u202e", "@style", "ZgotmplZ"} {
		if strings.Contains(page, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	from := strings.Index(page, "<svg")
	picture := page[from : strings.Index(page, "</svg>")+6]
	for d := xml.NewDecoder(strings.NewReader(picture)); ; {
		if _, err := d.Token(); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err, picture)
		}
	}
	for what, n := range map[string]int{"<rect": 4, "<path": 3, `class="open"`: 1, `class="asked"`: 2, ">from<": 0, ">handed over by<": 1} {
		if got := strings.Count(picture, what); got != n {
			t.Errorf("%d of %s, want %d", got, what, n)
		}
	}
	if !strings.Contains(page, "a.yaml:3") {
		t.Error("the page does not say what closes the way")
	}
}

func TestManyPlaces(t *testing.T) {
	var m reach.Map
	for range 100 {
		m.Nodes = append(m.Nodes, reach.MapNode{Column: reach.Actor, Name: "agent:x"})
		m.Edges = append(m.Edges, reach.MapEdge{From: 0, To: len(m.Nodes) - 1})
	}
	p := waymap.New(m)
	if len(p.Boxes) != 40 || p.Left != 60 || len(p.Lines) != 40 {
		t.Errorf("%d boxes, %d left, %d lines", len(p.Boxes), p.Left, len(p.Lines))
	}
}
