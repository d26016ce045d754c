package database

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/tool"
)

// mariaStatement is a statement by its tokens. Remit resolves no name as MariaDB does: each
// name counts as a use of whatever it could mean there. A table is in reach of the query
// that names it and of the queries inside that one.
type mariaStatement struct {
	tokens    []mariaToken
	verb      string
	inside    []int        // of a pair of parentheses: the one around it
	query     []bool       // of a pair of parentheses: it has a query
	scope     []bool       // of a pair of parentheses: the names around it cannot mean its tables
	target    int          // the token of the table that INSERT, UPDATE or DELETE changes; -1: none
	assigned  map[int]bool // tokens of columns that are assigned to
	duplicate int          // the token UPDATE of ON DUPLICATE KEY UPDATE; 0: none
	params    int
	refused   []string
}

// mariaShape reads a text as one statement that queries or changes rows.
func mariaShape(sql string) (*mariaStatement, error) {
	tokens, err := lexMaria(sql)
	if err != nil {
		return nil, err
	}
	m := &mariaStatement{tokens: tokens, inside: []int{0}, query: []bool{true}, scope: []bool{true}, target: -1, assigned: map[int]bool{}}
	for i, t := range tokens {
		switch {
		case t.is("("):
			m.inside, m.query = append(m.inside, t.group), append(m.query, false)
		case t.is("select"):
			m.query[t.group] = true
		case t.kind == unnamed:
			m.params++
		}
		if i > 0 && t.is("select") && m.at(i-1).is("insert", "replace", "update", "delete") {
			return nil, mariaVerbs()
		}
	}
	m.verb = "select"
	if first := m.at(0); first.is("insert", "replace", "update", "delete") {
		m.verb = first.name
	} else if !first.is("select", "values", "with", "(") {
		return nil, mariaVerbs()
	}
	if err := m.keywords(); err != nil {
		return nil, err
	}
	if err := m.change(); err != nil {
		return nil, err
	}
	m.scopes()
	for i := range tokens {
		m.call(i)
	}
	return m, nil
}

// scopes finds the queries that are a level of their own. The ORDER BY after
// (SELECT ...), and the ON DUPLICATE KEY UPDATE after it, can use its tables.
func (m *mariaStatement) scopes() {
	for i := range m.tokens {
		if !m.tokens[i].is("(") {
			continue
		}
		before, subquery := m.at(i-1), false
		switch before.kind {
		case symbol:
			subquery = !before.is("", "(", ")")
		case word:
			subquery = mariaSubquery()[before.name] && !(before.is("all") && m.at(i-2).is("union", "except", "intersect"))
		}
		m.scope = append(m.scope, subquery && m.query[len(m.scope)])
	}
}

func mariaVerbs() error {
	return badSQL("the statement must begin with SELECT, VALUES, WITH, INSERT, REPLACE, UPDATE or DELETE")
}

// at returns a token; where there is none, an empty symbol.
func (m *mariaStatement) at(i int) *mariaToken {
	if i < 0 || i >= len(m.tokens) {
		return &mariaToken{}
	}
	return &m.tokens[i]
}

// queryOf returns the innermost query around a token: the statement itself is 0.
func (m *mariaStatement) queryOf(group int) int {
	for !m.query[group] {
		group = m.inside[group]
	}
	return group
}

// level returns the innermost query around a token that is a level of its own.
func (m *mariaStatement) level(group int) int {
	for !m.scope[group] {
		group = m.inside[group]
	}
	return group
}

// reaches reports whether names in the query at a level can mean tables of another one.
func (m *mariaStatement) reaches(level, other int) bool {
	for level != other && level != 0 {
		level = m.inside[level]
	}
	return level == other
}

// keywords refuses words of statements that do more than query and change rows.
func (m *mariaStatement) keywords() error {
	for i := range m.tokens {
		t, before := m.at(i), m.at(i-1)
		if t.kind != word {
			continue
		}
		wrong := mariaRefused()[t.name]
		switch t.name {
		case "into":
			wrong = m.verb != "insert" && m.verb != "replace" || !before.is("insert", "replace", "ignore", "low_priority", "high_priority") || i > 3
		case "partition":
			wrong = !m.at(i + 1).is("by")
		case "for":
			wrong = !m.inSubstring(t.group)
		case "insert", "replace":
			wrong = i > 0 && !m.at(i+1).is("(")
		case "delete":
			wrong = i > 0
		case "update":
			wrong = i > 0 && (m.verb != "insert" || t.group != 0 || !before.is("key") || !m.at(i-2).is("duplicate"))
		}
		if wrong {
			return badSQL("the statement has the word %s, which Remit does not allow here", strings.ToUpper(t.name)).WithHint("write a name that is this word in backquotes")
		}
	}
	return nil
}

// inSubstring reports whether a pair of parentheses is that of SUBSTRING(x FROM 1 FOR 2).
func (m *mariaStatement) inSubstring(group int) bool {
	n := 0
	for i := range m.tokens {
		if m.tokens[i].is("(") {
			if n++; n == group {
				return m.at(i-1).is("substring", "substr", "mid")
			}
		}
	}
	return false
}

// change finds the table that a statement changes, and the columns that it only writes.
func (m *mariaStatement) change() error {
	if m.verb == "select" {
		return nil
	}
	i := 1
	for m.at(i).is("ignore", "low_priority", "high_priority", "quick") {
		i++
	}
	switch keyword := map[string]string{"insert": "into", "replace": "into", "delete": "from"}[m.verb]; {
	case keyword != "" && m.at(i).is(keyword):
		i++
	case m.verb == "insert" || m.verb == "replace":
		return badSQL("the statement must begin with %s INTO", strings.ToUpper(m.verb))
	case m.verb == "delete":
		return badSQL("the statement must begin with DELETE FROM")
	}
	if m.at(i + 1).is(".") {
		i += 2
	}
	if !m.at(i).isName() {
		return badSQL("the statement does not name the table that it changes")
	}
	m.target = i
	end := []string{"where", "order", "limit", "returning"}
	switch m.verb {
	case "update":
		i = slices.IndexFunc(m.tokens, func(t mariaToken) bool { return t.group == 0 && t.is("set") })
		if i < 0 {
			return badSQL("the statement has no SET")
		}
		return m.assignments(i+1, end)
	case "delete":
		if m.at(i + 1).is("as") {
			i++
		}
		if m.at(i+1).isName() && !mariaReserved()[m.at(i+1).name] {
			i++ // an alias
		}
		if i+1 < len(m.tokens) && !m.at(i+1).is(end...) {
			return badSQL("the statement deletes from more than one table; expected DELETE FROM TABLE WHERE ...")
		}
		return nil
	}
	if m.at(i+1).is("(") && !m.query[m.groupOf(i+1)] {
		m.columns(i + 1)
	}
	if m.at(i + 1).is("set") {
		if err := m.assignments(i+2, []string{"on", "returning"}); err != nil {
			return err
		}
	}
	if k := slices.IndexFunc(m.tokens, func(t mariaToken) bool { return t.is("update") }); k > 0 {
		m.duplicate = k
		return m.assignments(k+1, end)
	}
	return nil
}

// groupOf returns the pair of parentheses that a token opens.
func (m *mariaStatement) groupOf(open int) (n int) {
	for _, t := range m.tokens[:open+1] {
		if t.is("(") {
			n++
		}
	}
	return n
}

// columns marks the columns that INSERT lists.
func (m *mariaStatement) columns(open int) {
	for i, g := open+1, m.groupOf(open); i < len(m.tokens) && m.tokens[i].group == g; i++ {
		m.assigned[i] = m.tokens[i].isName()
	}
}

// assignments marks the columns before each = of a list.
func (m *mariaStatement) assignments(i int, end []string) error {
	for {
		for m.at(i+1).is(".") && m.at(i).isName() {
			i += 2
		}
		if !m.at(i).isName() || !m.at(i+1).is("=") {
			return badSQL("the statement has an assignment that Remit does not understand; expected COLUMN = VALUE")
		}
		m.assigned[i] = true
		for i++; i < len(m.tokens) && (m.tokens[i].group != 0 || !m.tokens[i].is(",")); i++ {
			if m.tokens[i].group == 0 && m.tokens[i].is(end...) {
				return nil
			}
		}
		if i++; i > len(m.tokens) {
			return nil
		}
	}
}

// call refuses a function that is not one of MariaDB's own that only compute.
func (m *mariaStatement) call(i int) {
	t := m.at(i)
	if t.kind == word && mariaFunctions()[t.name] && m.at(i+1).is("(") && i != m.target {
		m.at(i + 1).blank = false // with a blank, MariaDB looks for some of them in the database
	}
	if !t.isName() || i == m.target || !m.at(i+1).is("(") || t.kind == word && (mariaFunctions()[t.name] || mariaBefore()[t.name] || t.name == "against" && m.at(i-1).is(")")) || m.listed(i) {
		return
	}
	m.refused = append(m.refused, "the function "+clip.Text(t.name, 60)+" is not one that statements may call")
}

// listed reports whether a token is the name of WITH before its list of columns.
func (m *mariaStatement) listed(i int) bool {
	if !m.at(i-1).is("with", "recursive", ",") {
		return false
	}
	g := m.groupOf(i + 1)
	end := i + 2
	for end < len(m.tokens) && m.inGroup(m.tokens[end].group, g) {
		end++
	}
	return m.at(end).is(")") && m.at(end+1).is("as") && m.at(end+2).is("(")
}

func (m *mariaStatement) inGroup(group, outer int) bool {
	for group > outer {
		group = m.inside[group]
	}
	return group == outer
}

// mariaTable is a table or view, as the catalogue describes it.
type mariaTable struct {
	use          tool.TableUse // of the whole, without a column
	schema, name string        // as the server writes them
	kind, engine string
	definition   string // of a view
	columns      []mariaColumn
}

type mariaColumn struct {
	name     string
	computed bool
}

// column is the use of a column.
func (t *mariaTable) column(c mariaColumn) tool.TableUse {
	u := t.use
	u.Column = c.name
	if c.computed {
		u.Column = "*"
	}
	return u
}

// computes reports whether a column is computed from others of its row.
func (t *mariaTable) computes(column string) bool {
	return slices.ContainsFunc(t.columns, func(c mariaColumn) bool { return c.computed && strings.EqualFold(c.name, column) })
}

func (t *mariaTable) whole() tool.TableUse {
	u := t.use
	u.Column = "*"
	return u
}
