package database

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// mariaCatalog holds the server's description of its tables, read at first use.
type mariaCatalog struct {
	s       *mariaSession
	names   map[string][]string       // tables, by the folded name of their database
	schemas map[string][]string       // databases, by folded name
	tables  map[[2]string]*mariaTable // by the names as the server writes them
	read    map[*mariaTable]bool      // views whose definition was analysed
	links   []mariaKey                // foreign keys; nil: not read yet
}

func newCatalog(s *mariaSession) (*mariaCatalog, error) {
	c := &mariaCatalog{s: s, names: map[string][]string{}, schemas: map[string][]string{}, tables: map[[2]string]*mariaTable{}, read: map[*mariaTable]bool{}}
	rows, err := s.texts("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA LIMIT ?", maxTables)
	if len(rows) == maxTables {
		return nil, fault.New(fault.ToolFailed, "the server of the database %q has too many databases", s.limits.Name)
	}
	for _, r := range rows {
		if k := fold(r[0]); !mariaSystem()[k] {
			c.schemas[k] = append(c.schemas[k], r[0])
		}
	}
	return c, err
}

// find returns the tables of a name. There are several if their names differ in case only.
func (c *mariaCatalog) find(schema, name string) (out []*mariaTable, err error) {
	for _, at := range c.schemas[fold(schema)] {
		if _, known := c.names[at]; !known {
			rows, err := c.s.texts("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? LIMIT ?", at, maxTables)
			if err != nil {
				return nil, err
			}
			if len(rows) == maxTables {
				return nil, fault.New(fault.ToolFailed, "the database %q has too many tables", c.s.limits.Name)
			}
			c.names[at] = []string{}
			for _, r := range rows {
				c.names[at] = append(c.names[at], r[0])
			}
		}
		for _, n := range c.names[at] {
			if fold(n) != fold(name) {
				continue
			}
			t, err := c.table(at, n)
			if err != nil {
				return nil, err
			}
			out = append(out, t)
		}
	}
	return out, nil
}

// table describes a table or view.
func (c *mariaCatalog) table(schema, name string) (*mariaTable, error) {
	key := [2]string{schema, name}
	if t := c.tables[key]; t != nil {
		return t, nil
	}
	t := &mariaTable{schema: schema, name: name, use: tool.TableUse{Schema: schema, Own: schema == c.s.own, Table: name}}
	rows, err := c.s.texts(`SELECT t.TABLE_TYPE, COALESCE(t.ENGINE, ''), COALESCE((SELECT v.VIEW_DEFINITION FROM information_schema.VIEWS v WHERE v.TABLE_SCHEMA = ? AND v.TABLE_NAME = ?), '')
		FROM information_schema.TABLES t WHERE t.TABLE_SCHEMA = ? AND t.TABLE_NAME = ?`, schema, name, schema, name)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.kind, t.engine, t.definition = r[0], r[1], r[2]
	}
	rows, err = c.s.texts(`SELECT COLUMN_NAME, COALESCE(GENERATION_EXPRESSION, '') <> '' FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = ? AND TABLE_NAME = ? ORDER BY ORDINAL_POSITION`, schema, name)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		t.columns = append(t.columns, mariaColumn{r[0], r[1] == "1"})
	}
	c.tables[key] = t
	return t, nil
}

// mariaKey is a column of a foreign key.
type mariaKey struct {
	child, parent      [2]string // database and table
	column, other      string    // of the child, of the parent
	onDelete, onUpdate string
}

// keys lists the columns of all foreign keys that the server shows.
func (c *mariaCatalog) keys() ([]mariaKey, error) {
	if c.links != nil {
		return c.links, nil
	}
	out := []mariaKey{}
	for _, names := range c.schemas {
		for _, at := range names { // one database each, since the server reads each of its tables for it
			rules, err := c.s.texts("SELECT TABLE_NAME, CONSTRAINT_NAME, DELETE_RULE, UPDATE_RULE FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = ?", at)
			if err != nil {
				return nil, err
			}
			if len(rules) == 0 {
				continue
			}
			rows, err := c.s.texts(`SELECT TABLE_NAME, CONSTRAINT_NAME, COLUMN_NAME, REFERENCED_TABLE_SCHEMA, REFERENCED_TABLE_NAME, REFERENCED_COLUMN_NAME
				FROM information_schema.KEY_COLUMN_USAGE WHERE TABLE_SCHEMA = ? AND REFERENCED_TABLE_NAME IS NOT NULL`, at)
			if err != nil {
				return nil, err
			}
			for _, r := range rows {
				k := mariaKey{child: [2]string{at, r[0]}, parent: [2]string{r[3], r[4]}, column: r[2], other: r[5], onDelete: "CASCADE", onUpdate: "CASCADE"}
				for _, rule := range rules {
					if rule[0] == r[0] && rule[1] == r[1] {
						k.onDelete, k.onUpdate = rule[2], rule[3]
					}
				}
				out = append(out, k)
			}
		}
	}
	c.links = out
	return out, nil
}

// sees reports whether the server shows the triggers of a database, and with them all its
// tables: it hides them from an account that lacks the right TRIGGER.
func (c *mariaCatalog) sees(schema string) (bool, error) {
	const mine = ` AND PRIVILEGE_TYPE = 'TRIGGER' AND GRANTEE = CONCAT('\'', REPLACE(CURRENT_USER(), '@', '\'@\''), '\'')`
	rows, err := c.s.texts("SELECT 1 FROM information_schema.SCHEMA_PRIVILEGES WHERE TABLE_SCHEMA IN (?, REPLACE(?, '_', '\\\\_'))"+mine, schema, schema)
	if err == nil && len(rows) == 0 {
		rows, err = c.s.texts("SELECT 1 FROM information_schema.USER_PRIVILEGES WHERE 1 = 1" + mine)
	}
	return len(rows) > 0, err
}

// mariaChange is a change of a table: "insert", "delete", or "update" of columns.
type mariaChange struct {
	table   *mariaTable
	verb    string
	columns []string
}

// follow notes what a change leads to: the other ends of foreign keys, read and written.
func (c *mariaCatalog) follow(u *uses, list []mariaChange) error {
	done := []mariaChange{}
	for len(list) > 0 {
		ch := list[0]
		list = list[1:]
		if slices.ContainsFunc(done, func(o mariaChange) bool {
			return o.table == ch.table && o.verb == ch.verb && slices.Equal(o.columns, ch.columns)
		}) {
			continue
		}
		if done = append(done, ch); len(done) > maxFollowed {
			return fault.New(fault.ToolFailed, "foreign keys lead from the statement to too many tables")
		}
		keys, err := c.keys()
		if err != nil {
			return err
		}
		for _, k := range keys {
			more, err := c.along(u, ch, k)
			if err != nil {
				return err
			}
			list = append(list, more...)
		}
	}
	return nil
}

// along notes the effects of a change at the other end of a foreign key, and returns the changes
// that it makes there.
func (c *mariaCatalog) along(u *uses, ch mariaChange, k mariaKey) (out []mariaChange, err error) {
	at := [2]string{ch.table.schema, ch.table.name}
	touches := func(column string) bool {
		return slices.ContainsFunc(ch.columns, func(o string) bool { return strings.EqualFold(o, column) || o == "*" }) || ch.table.computes(column)
	}
	if at == k.child && (ch.verb == "insert" || ch.verb == "update" && touches(k.column)) {
		parent, err := c.table(k.parent[0], k.parent[1])
		if err != nil {
			return nil, err
		}
		add(&u.read, parent.column(mariaColumn{name: k.other}))
	}
	if at != k.parent || ch.verb == "insert" || ch.verb == "update" && !touches(k.other) {
		return nil, nil
	}
	child, err := c.table(k.child[0], k.child[1])
	if err != nil {
		return nil, err
	}
	add(&u.read, child.column(mariaColumn{name: k.column}))
	rule := k.onDelete
	if ch.verb == "update" {
		rule = k.onUpdate
	}
	switch {
	case rule == "RESTRICT" || rule == "NO ACTION":
		return nil, nil
	case rule == "CASCADE" && ch.verb == "delete":
		add(&u.written, child.whole())
		return []mariaChange{{child, "delete", nil}}, nil
	}
	add(&u.written, child.column(mariaColumn{name: k.column}))
	return []mariaChange{{child, "update", []string{k.column}}}, nil
}

// changes notes what a statement writes: the table of INSERT, REPLACE and DELETE, the
// columns of UPDATE, and what triggers and foreign keys could add.
func (c *mariaCatalog) changes(u *uses, m *mariaStatement, refs []mariaRef) error {
	if m.verb == "select" {
		return nil
	}
	var list []mariaChange
	refuse := func(why string) { add(&u.refused, tool.TableUse{Refused: why}) }
	for _, r := range refs {
		var columns []string
		for _, w := range u.written {
			if w.Schema == r.table.schema && w.Table == r.table.name {
				columns = append(columns, w.Column)
			}
		}
		switch {
		case m.verb == "update" && len(columns) > 0:
			list = append(list, mariaChange{r.table, "update", columns})
		case m.verb == "update" || r.token != m.target:
			continue
		default:
			add(&u.written, r.table.whole())
			if m.verb != "delete" {
				list = append(list, mariaChange{r.table, "insert", nil})
			}
			if m.verb != "insert" {
				list = append(list, mariaChange{r.table, "delete", nil})
			}
			if m.verb == "insert" && len(m.updated()) > 0 {
				list = append(list, mariaChange{r.table, "update", m.updated()})
			}
		}
		switch why, err := c.unclear(r.table); {
		case err != nil:
			return err
		case why != "":
			refuse(why)
		}
	}
	if len(list) == 0 {
		refuse("the table that the statement changes is not one that the account of the database can see")
	}
	return c.follow(u, list)
}

// unclear says why a table must not be written, or is empty.
func (c *mariaCatalog) unclear(t *mariaTable) (string, error) {
	switch sees, err := c.sees(t.schema); {
	case err != nil:
		return "", err
	case t.kind == "VIEW":
		return "the table " + t.name + " is a view; write to its tables", nil
	case !strings.EqualFold(t.engine, "InnoDB"):
		return "the table " + t.name + " is not of InnoDB, so a change of it could not be taken back", nil
	case !sees:
		return "the server hides triggers and foreign keys from the account of the database; it needs the right TRIGGER on the whole database to change rows", nil
	}
	rows, err := c.s.texts(`SELECT TRIGGER_NAME FROM information_schema.TRIGGERS WHERE EVENT_OBJECT_SCHEMA = ? AND EVENT_OBJECT_TABLE = ? LIMIT 1`, t.schema, t.name)
	if len(rows) > 0 {
		return "the table " + t.name + " has a trigger, of which MariaDB does not say what it uses", err
	}
	return "", err
}

// updated lists the columns that ON DUPLICATE KEY UPDATE changes.
func (m *mariaStatement) updated() (out []string) {
	for i := range m.tokens {
		if m.duplicate > 0 && i > m.duplicate && m.assigned[i] {
			out = append(out, m.tokens[i].name)
		}
	}
	return out
}
