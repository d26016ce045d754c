package browser

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
)

// node is a node of the accessibility tree.
type node struct {
	ID       string   `json:"nodeId"`
	Ignored  bool     `json:"ignored"`
	Role     value    `json:"role"`
	Name     value    `json:"name"`
	Value    value    `json:"value"`
	Children []string `json:"childIds"`
	Parent   string   `json:"parentId"`
	Element  int      `json:"backendDOMNodeId"`
	More     []struct {
		Name  string `json:"name"`
		Value value  `json:"value"`
	} `json:"properties"`

	written bool // a tree that names a node twice ends here
}

// nodes are the first of a tree's nodes: a browser that was taken over sends millions.
type nodes []node

func (n *nodes) UnmarshalJSON(b []byte) error {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('[') {
		return errors.Join(err, errors.New("the nodes are not a list"))
	}
	for d.More() && len(*n) < maxNodes {
		var one node
		if err := d.Decode(&one); err != nil {
			return err
		}
		*n = append(*n, one)
	}
	return nil
}

type value struct {
	Value literal `json:"value"`
}

// literal is the beginning of a JSON value: a text of a page may be of any size.
type literal struct {
	JSON string
	cut  bool
}

func (l *literal) UnmarshalJSON(b []byte) error {
	l.cut = len(b) > maxLiteral
	l.JSON = string(b[:min(len(b), maxLiteral)])
	return nil
}

func (v value) String() string {
	var s string
	text := v.Value.JSON
	if !v.Value.cut || !strings.HasPrefix(text, `"`) {
		if json.Unmarshal([]byte(text), &s) == nil {
			return s
		}
		return text
	}
	for range 2 * len(`\u1234`) { // an escape that was cut is left out
		if json.Unmarshal([]byte(text+`"`), &s) == nil {
			return s
		}
		text = text[:len(text)-1]
	}
	return ""
}

// acting are the roles of elements that get a reference: they can be clicked or filled in.
var acting = []string{"button", "link", "textbox", "searchbox", "combobox", "checkbox", "radio", "switch", "slider", "spinbutton", "listbox", "option",
	"menuitem", "menuitemcheckbox", "menuitemradio", "tab", "treeitem", "DisclosureTriangle", "Date", "DateTime", "InputTime", "ColorWell", "PopUpButton", "ListBoxOption"}

// passed are the roles without a meaning of their own: only their children are shown.
var passed = []string{"none", "generic", "RootWebArea", "InlineTextBox", "LineBreak", "Section", "LayoutTable", "LayoutTableRow", "LayoutTableCell", "ListMarker", "strong", "emphasis", "Abbr"}

// states are the properties that are shown.
var states = []string{"level", "checked", "disabled", "expanded", "selected", "pressed", "required", "invalid", "multiselectable", "readonly"}

// Bounds of a snapshot.
const (
	maxSnapshot = 50_000
	maxName     = 300
	maxDepth    = 60      // of indentation
	maxNested   = 1000    // nodes in one another, shown or not
	maxNodes    = 200_000 // of a tree
	maxLiteral  = 8192    // bytes of a name or a value, as JSON; at least six times maxName
	checked     = 4096    // nodes between two looks at whether the call is over
)

// Snapshot describes the page as its accessibility tree: one line for each element, indented.
// The page's text is in quotes, so that it cannot look like a line of the snapshot.
// Elements that can be used have a reference, such as e7, which is valid until the page loads
// another document.
func (p *Page) Snapshot(ctx context.Context) (text string, cut bool, err error) {
	for range maxMoves {
		h, err := p.isolated(ctx)
		if err != nil {
			return "", false, err
		}
		var tree struct {
			Nodes nodes `json:"nodes"`
		}
		err = p.call(ctx, "Accessibility.getFullAXTree", m{}, &tree)
		large := errors.Is(err, errLarge)
		if err == nil || large {
			_, err = p.run(ctx, h.doc, `function() {}`) // the tree is of this document only if it is still there
		}
		switch {
		case err != nil && !p.left(h, err):
			return "", false, err
		case err != nil:
			continue
		case large:
			return "", true, nil
		}
		if text, cut, ok := p.write(ctx, h, tree.Nodes); ok {
			return text, cut, context.Cause(ctx)
		}
	}
	return "", false, errRestless
}

// write writes the snapshot of a document; ok is false if the page has left it.
func (p *Page) write(ctx context.Context, h handle, tree nodes) (text string, cut, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.documents != h.count {
		return "", false, false
	}
	w := writer{ctx: ctx, page: p, nodes: make(map[string]*node, len(tree)), known: make(map[int]int, len(p.refs))}
	for ref, element := range p.refs {
		w.known[element] = ref
	}
	for i := range tree {
		w.nodes[tree[i].ID] = &tree[i]
	}
	for i := range tree {
		if n := &tree[i]; n.Parent == "" && !n.written {
			w.write(n, 0, "")
		}
	}
	return w.out.String(), w.cut || len(tree) == maxNodes, true
}

// writer writes a snapshot.
type writer struct {
	ctx    context.Context // of the call
	page   *Page
	nodes  map[string]*node
	known  map[int]int // references by element
	out    strings.Builder
	cut    bool
	nested int // nodes around the present one
	seen   int
}

// write writes a node and its children. over is the name of the element around it, whose
// text is not repeated.
func (w *writer) write(n *node, depth int, over string) {
	w.seen++
	if w.cut || depth > maxDepth || w.nested > maxNested || w.seen%checked == 0 && w.ctx.Err() != nil {
		w.cut = true
		return
	}
	n.written = true
	role, name := n.Role.String(), strings.TrimSpace(n.Name.String())
	inside := depth
	if !n.Ignored && !slices.Contains(passed, role) && (role != "StaticText" || name != "" && !strings.Contains(over, clip.Prefix(name, maxName))) && (name != "" || n.useful(role)) {
		w.line(n, depth, role, name)
		inside, over = depth+1, clip.Prefix(name, maxName)+" "+clip.Prefix(n.Value.String(), maxName)
	}
	if role == "StaticText" {
		return
	}
	w.nested++
	for _, id := range n.Children {
		if child := w.nodes[id]; child != nil && !child.written {
			w.write(child, inside, over)
		}
	}
	w.nested--
}

// useful reports whether an element without a name is shown.
func (n *node) useful(role string) bool {
	return slices.Contains(acting, role) || slices.Contains([]string{"list", "listitem", "table", "row", "cell", "form", "navigation", "main", "dialog", "alertdialog", "article", "Iframe"}, role)
}

func (w *writer) line(n *node, depth int, role, name string) {
	if role == "StaticText" {
		role = "text"
	}
	line := strings.Repeat("  ", depth) + strings.ToLower(clip.Text(word(role), 30))
	if n.Element != 0 && slices.Contains(acting, n.Role.String()) {
		if ref := w.ref(n.Element); ref > 0 {
			line += " e" + strconv.Itoa(ref)
		}
	}
	if name != "" {
		line += " " + strconv.Quote(clip.Text(name, maxName))
	}
	for _, more := range n.More {
		if v := more.Value.String(); slices.Contains(states, more.Name) && v != "false" && v != "" {
			if v == "true" {
				line += " " + more.Name
			} else {
				line += " " + more.Name + "=" + word(clip.Text(v, 20))
			}
		}
	}
	if v := n.Value.String(); v != "" && v != name {
		line += " = " + strconv.Quote(clip.Text(v, maxName))
	}
	if w.out.Len()+len(line) >= maxSnapshot {
		w.cut = true
		return
	}
	w.out.WriteString(line + "\n")
}

// word makes one word of what should be one.
func word(s string) string {
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' {
			return r
		}
		return -1
	}, s)
}

// ref returns the reference of an element, which stays the same while the document does.
func (w *writer) ref(element int) int {
	if ref := w.known[element]; ref > 0 {
		return ref
	}
	if len(w.page.refs) >= maxRefs {
		return 0
	}
	w.page.last++
	w.page.refs[w.page.last], w.known[element] = element, w.page.last
	return w.page.last
}

// ParseRef reads a reference.
func ParseRef(s string) (int, error) {
	n, err := strconv.Atoi(strings.TrimPrefix(s, "e"))
	if err != nil || n <= 0 || !strings.HasPrefix(s, "e") {
		return 0, fmt.Errorf("%q is not a reference of a snapshot; expected one such as e7", clip.Text(s, 40))
	}
	return n, nil
}
