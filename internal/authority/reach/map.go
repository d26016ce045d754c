package reach

import "slices"

// Map is all ways of a question as a graph: from the source, over holders and the things by which
// they hand data over, to the sink.
type Map struct {
	Nodes []MapNode `json:"nodes"`
	Edges []MapEdge `json:"edges"`
}

// Column is the kind of a node of a [Map]. Ways lead from the first column to the last.
type Column string

// The columns.
const (
	Source Column = "source" // where data comes from
	Actor  Column = "holder"
	Store  Column = "store" // a file or a tool by which one holder hands something to another
	Sink   Column = "sink"  // where it gets to
)

// MapNode is a place in a [Map].
type MapNode struct {
	Column Column `json:"column" enum:"source,holder,store,sink"`
	Name   string `json:"name"`
}

// MapEdge is one step of a way. Of several between the same places it is the one that needs
// the least.
type MapEdge struct {
	From int  `json:"from"` // the place of the node in the list
	To   int  `json:"to"`
	Open bool `json:"open"` // it needs no person and no assumption
	Step Step `json:"step"`
}

// Ways is an answer with all ways, and what closes them.
type Ways struct {
	Answer
	Cut []Entry `json:"cut" nullable:"false"`
	Map Map     `json:"map"`
}

// Ways is [World.Ask] with [World.Cut] and [World.Map].
func (w *World) Ways(from, to string) (Ways, error) {
	a, err := w.Ask(from, to)
	if err != nil {
		return Ways{}, err
	}
	out := Ways{Answer: a, Cut: []Entry{}}
	cut, err := w.Cut(a)
	if err != nil {
		return out, err
	}
	out.Cut = append(out.Cut, cut...)
	out.Map, err = w.Map(from, to)
	return out, err
}

// Map gives all ways of a question.
func (w *World) Map(from, to string) (Map, error) {
	w.begin()
	source, err := w.term(from, true)
	if err != nil {
		return Map{}, err
	}
	sink, err := w.term(to, false)
	if err != nil {
		return Map{}, err
	}
	m := mapper{w: w, source: source, sink: sink}
	for h := range w.Holders {
		if err := m.enter(h); err != nil {
			return Map{}, err
		}
	}
	for i := 0; i < len(m.seen); i++ {
		if err := m.follow(m.seen[i]); err != nil {
			return Map{}, err
		}
	}
	return m.arriving(), nil
}

// mapper collects the steps of all ways.
type mapper struct {
	w            *World
	source, sink *term
	seen         []node
	out          Map
}

// tryBoth tries steps that need no person, and then steps that do.
func tryBoth(try func(open bool) (found bool, err error)) error {
	for _, open := range []bool{true, false} {
		if found, err := try(open); err != nil || found {
			return err
		}
	}
	return nil
}

func (m *mapper) enter(h int) error {
	for _, one := range m.source.each() {
		err := tryBoth(func(open bool) (bool, error) {
			steps, ok, err := m.w.enters(one, h, open)
			if err != nil || !ok {
				return false, err
			}
			m.visit(node{h, one.label != ""})
			for _, s := range steps {
				m.edge(MapNode{Source, s.From}, m.actor(h), s)
			}
			return true, nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// follow adds the possible steps of a holder that has the data.
func (m *mapper) follow(n node) error {
	label := ""
	if n.labelled {
		label = m.source.label
	}
	for _, one := range m.sink.each() {
		err := tryBoth(func(open bool) (bool, error) {
			steps, ok, err := m.w.leaves(n.holder, label, one, open)
			for _, s := range steps {
				m.edge(m.actor(n.holder), MapNode{Sink, s.To}, s)
			}
			return ok, err
		})
		if err != nil {
			return err
		}
	}
	for k := range m.w.Holders {
		for _, labelled := range []bool{true, false} {
			if labelled && !n.labelled || k == n.holder && labelled == n.labelled {
				continue
			}
			err := tryBoth(func(open bool) (bool, error) {
				steps, err := m.w.hands(n.holder, k, label, labelled, open)
				if err != nil || steps == nil {
					return false, err
				}
				m.visit(node{k, labelled})
				store := MapNode{Store, steps[0].Example}
				if len(steps) > 1 {
					store.Name = steps[0].To
				}
				m.edge(m.actor(n.holder), store, steps[0])
				m.edge(store, m.actor(k), steps[len(steps)-1])
				return true, nil
			})
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// each is a term for each part; a holder's has none.
func (t *term) each() []*term {
	if t.principal != "" {
		return []*term{t}
	}
	var out []*term
	for _, p := range t.parts {
		out = append(out, &term{label: t.label, parts: []part{p}})
	}
	return out
}

func (m *mapper) actor(h int) MapNode { return MapNode{Actor, m.w.Holders[h].Name} }

func (m *mapper) visit(n node) {
	if !slices.Contains(m.seen, n) {
		m.seen = append(m.seen, n)
	}
}

func (m *mapper) node(n MapNode) int {
	i := slices.Index(m.out.Nodes, n)
	if i < 0 {
		i = len(m.out.Nodes)
		m.out.Nodes = append(m.out.Nodes, n)
	}
	return i
}

func (m *mapper) edge(from, to MapNode, s Step) {
	e := MapEdge{m.node(from), m.node(to), s.open(), s}
	i := slices.IndexFunc(m.out.Edges, func(o MapEdge) bool { return o.From == e.From && o.To == e.To })
	if i < 0 {
		m.out.Edges = append(m.out.Edges, e)
	} else if e.Open && !m.out.Edges[i].Open {
		m.out.Edges[i] = e
	}
}

// arriving is the graph without the steps that no way without a circle has: those that lead
// nowhere but back, and those to a place that everything came through before.
func (m *mapper) arriving() Map {
	starts := func(n MapNode) bool {
		return n.Column == Source || n.Column == Actor && n.Name == m.source.principal
	}
	ends := func(n MapNode) bool { return n.Column == Sink || n.Column == Actor && n.Name == m.sink.principal }
	ahead := func(e MapEdge) (int, int) { return e.From, e.To }
	back := func(e MapEdge) (int, int) { return e.To, e.From }
	out := mapper{out: Map{Nodes: []MapNode{}, Edges: []MapEdge{}}}
	for _, e := range m.out.Edges {
		if m.out.walk(starts, e.To, ahead)[e.From] && m.out.walk(ends, e.From, back)[e.To] {
			out.edge(m.out.Nodes[e.From], m.out.Nodes[e.To], e.Step)
		}
	}
	return out.out
}

// walk tells which nodes edges lead to from those of a kind, around one node.
func (m *Map) walk(begins func(MapNode) bool, around int, ends func(MapEdge) (from, to int)) []bool {
	got := make([]bool, len(m.Nodes))
	for i, n := range m.Nodes {
		got[i] = i != around && begins(n)
	}
	for again := true; again; {
		again = false
		for _, e := range m.Edges {
			if from, to := ends(e); got[from] && !got[to] && to != around {
				got[to], again = true, true
			}
		}
	}
	return got
}
