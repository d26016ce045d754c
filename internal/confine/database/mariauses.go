package database

import (
	"slices"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// mariaViews bounds how deep views use views.
const mariaViews = 20

// mariaRef is a name in a statement that can mean a table.
type mariaRef struct {
	token, level int
	table        *mariaTable
}

func fold(s string) string { return strings.Map(unicode.ToLower, s) }

// refs lists the names that can mean tables: of the database itself, or of another one that
// is named before a dot.
func (m *mariaStatement) refs(c *mariaCatalog, own string) (out []mariaRef, err error) {
	for i := range m.tokens {
		t := m.at(i)
		switch {
		case !t.isName(), t.kind == word && mariaReserved()[t.name], m.at(i - 1).is("as"):
			continue
		case m.at(i + 1).is("."):
			if mariaSystem()[t.name] {
				m.refused = append(m.refused, "the database "+t.name+" is the server's own; use db.schema")
			}
			continue
		case m.at(i+1).is("(") && i != m.target:
			continue
		}
		schema := own
		if m.at(i - 1).is(".") {
			schema = m.at(i - 2).name
		}
		tables, err := c.find(schema, t.name)
		if err != nil {
			return nil, err
		}
		if len(tables) == 0 && mariaSequence.MatchString(t.name) {
			m.refused = append(m.refused, "the table "+clip.Text(t.name, 60)+" is not an ordinary table of the database")
		}
		for _, table := range tables {
			out = append(out, mariaRef{i, m.level(t.group), table})
		}
	}
	return out, nil
}

// mariaSequence are the tables that MariaDB makes up from their names.
var mariaSequence = regex.Lazy(`^seq_[0-9]+_to_`)

var mariaSystem = func() map[string]bool { return words("information_schema mysql performance_schema sys") }

// called lists the tables that a name before a dot can mean: a table of that name, or one
// that the name follows as an alias.
func (m *mariaStatement) called(refs []mariaRef, name string) (out []*mariaTable) {
	for _, r := range refs {
		i, group := r.token+1, m.at(r.token).group
		for m.at(i).is(")") && !m.query[group] {
			i, group = i+1, m.inside[group]
		}
		if m.at(i).is("as") {
			i++
		}
		if m.at(r.token).name == name || m.at(i).isName() && m.at(i).name == name {
			out = append(out, r.table)
		}
	}
	return out
}

// inReach lists the tables that a name without a table can be a column of.
func (m *mariaStatement) inReach(refs []mariaRef, i int) (out []*mariaTable) {
	for _, r := range refs {
		if m.reaches(m.level(m.at(i).group), r.level) {
			out = append(out, r.table)
		}
	}
	return out
}

// isColumn reports whether a token can name a column.
func (m *mariaStatement) isColumn(i int) bool {
	t, before := m.at(i), m.at(i-1)
	switch {
	case !t.isName(), m.at(i + 1).is("."), m.at(i + 1).is("("), before.is("as"), i == m.target:
		return false
	case before.is("from", "join") && !m.at(i-2).is("distinct") && m.query[before.group]: // a table, unless it is in EXTRACT(… FROM …)
		return false
	}
	return t.kind == name || !mariaReserved()[t.name]
}

// columnsOf lists the columns that a token can mean.
func (m *mariaStatement) columnsOf(refs []mariaRef, i int) (out []tool.TableUse) {
	tables := m.inReach(refs, i)
	if m.at(i - 1).is(".") {
		tables = m.called(refs, m.at(i-2).name)
	}
	for _, t := range tables {
		for _, c := range t.columns {
			if fold(c.name) == m.at(i).name {
				out = append(out, t.column(c))
			}
		}
	}
	return out
}

// star lists the tables whose columns a * stands for. The others are products.
func (m *mariaStatement) star(refs []mariaRef, i int) (out []*mariaTable) {
	before := m.at(i - 1)
	switch {
	case before.is("."):
		return m.called(refs, m.at(i-2).name)
	case before.is("(") && m.at(i-2).is("count"), before.is(")"), before.kind == number, before.kind == text, before.kind == name, before.kind == unnamed:
		return nil
	case before.kind == word && !mariaStar()[before.name] && (before.name == "end" || len(m.columnsOf(refs, i-1)) > 0):
		return nil
	}
	for _, r := range refs {
		if m.queryOf(m.at(r.token).group) == m.queryOf(m.at(i).group) {
			out = append(out, r.table)
		}
	}
	return out
}

// uses notes what a statement uses: the tables and columns that its names can mean, and all
// that its views read.
func (m *mariaStatement) uses(c *mariaCatalog, own string, u *uses, depth int) ([]mariaRef, error) {
	refs, err := m.refs(c, own)
	if err != nil {
		return nil, err
	}
	for _, why := range m.refused {
		add(&u.refused, tool.TableUse{Refused: why})
	}
	for i := range m.tokens {
		if m.tokens[i].is("*") {
			for _, t := range m.star(refs, i) {
				for _, col := range t.columns {
					add(&u.read, t.column(col))
				}
			}
		}
		if m.tokens[i].is("default") && (m.verb == "update" || m.duplicate > 0) { // it can be computed from other columns
			for _, t := range m.inReach(refs, i) {
				add(&u.read, t.whole())
			}
		}
		if !m.isColumn(i) {
			continue
		}
		into := &u.read
		switch {
		case m.assigned[i] && m.verb != "update" && (m.duplicate == 0 || i < m.duplicate):
			continue // the whole row is written
		case m.verb == "insert": // ON DUPLICATE KEY UPDATE needs the right to read what it writes
		case m.assigned[i]:
			into = &u.written
		}
		for _, use := range m.columnsOf(refs, i) {
			add(into, use)
		}
	}
	for _, r := range refs {
		if r.table.refused() != "" {
			add(&u.refused, tool.TableUse{Refused: r.table.refused()})
		}
		if r.token != m.target && !slices.ContainsFunc(u.read, func(o tool.TableUse) bool { return o.Schema == r.table.schema && o.Table == r.table.name }) {
			add(&u.read, r.table.use)
		}
		if err := m.view(c, r.table, u, depth); err != nil {
			return nil, err
		}
	}
	return refs, nil
}

// view notes what a view reads.
func (m *mariaStatement) view(c *mariaCatalog, t *mariaTable, u *uses, depth int) error {
	if t.kind != "VIEW" || t.refused() != "" || c.read[t] {
		return nil
	}
	refuse := func(why string) {
		add(&u.refused, tool.TableUse{Refused: "the view " + clip.Text(t.name, 60) + " " + why})
	}
	c.read[t] = true
	if depth == mariaViews {
		refuse("uses too many views")
		return nil
	}
	v, err := mariaShape(t.definition)
	if err == nil && v.verb == "select" {
		_, err = v.uses(c, t.schema, u, depth+1)
		return err
	}
	refuse("has a definition that Remit does not understand")
	return nil
}

// refused says why no policy can allow a table, or is empty.
func (t *mariaTable) refused() string {
	what := "the table " + clip.Text(t.name, 60)
	switch {
	case t.kind == "VIEW" && t.definition == "":
		return "the server does not show the definition of the view " + clip.Text(t.name, 60) + " without the right SHOW VIEW"
	case t.kind == "VIEW":
		return ""
	case t.kind != "BASE TABLE" || !slices.Contains([]string{"INNODB", "ARIA", "MYISAM", "MEMORY", "ROCKSDB"}, strings.ToUpper(t.engine)):
		return what + " is not an ordinary table of the database"
	case !t.use.Own && (fold(t.schema) == "main" || fold(t.schema) == "public"):
		return what + " is in a database whose name a policy cannot tell from the one of the URL"
	}
	return ""
}
