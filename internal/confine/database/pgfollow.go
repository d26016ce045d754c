package database

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// maxFollowed bounds the tables that foreign keys and partitions lead to.
const maxFollowed = 2000

// follow notes the uses of tables, and what they lead to: partitions and heirs of a table,
// and the tables at the other end of foreign keys. It returns the tables that are changed.
func (s *pgSession) follow(u *uses, all pgRelations, tables []pgUse) (changed map[uint32]bool, err error) {
	changed = map[uint32]bool{}
	done := map[string]bool{}
	for len(tables) > 0 {
		var fresh []pgUse
		ids := map[uint32]bool{}
		for _, t := range tables {
			key := fmt.Sprint(t)
			if done[key] {
				continue
			}
			done[key] = true
			fresh, ids[t.relation] = append(fresh, t), true
		}
		if len(done) > maxFollowed {
			return nil, fault.New(fault.ToolFailed, "foreign keys and partitions lead from the statement to too many tables")
		}
		if len(ids) == 0 {
			break
		}
		more, err := s.relations(ids)
		if err != nil {
			return nil, err
		}
		maps.Copy(all, more)
		for _, t := range fresh {
			all.note(u, t)
			if t.required&^pgSelect != 0 {
				changed[t.relation] = true
			}
			if r := all[t.relation]; r != nil && r.triggers && t.required&^pgSelect != 0 {
				add(&u.refused, tool.TableUse{Refused: "the table " + clip.Text(r.name, 60) + " has a trigger, of which PostgreSQL does not say what it uses"})
			}
		}
		if tables, err = s.next(fresh, ids); err != nil {
			return nil, err
		}
	}
	return changed, nil
}

// next lists what uses lead to.
func (s *pgSession) next(from []pgUse, ids map[uint32]bool) (out []pgUse, err error) {
	heirs, err := s.texts(`SELECT i.inhparent, i.inhrelid, p.attnum, c.attnum FROM pg_catalog.pg_inherits i
		JOIN pg_catalog.pg_attribute p ON p.attrelid = i.inhparent JOIN pg_catalog.pg_attribute c ON c.attrelid = i.inhrelid AND c.attname = p.attname
		WHERE i.inhparent = ANY ($1::oid[]) AND NOT p.attisdropped AND p.attnum > 0`, list(ids))
	if err != nil {
		return nil, err
	}
	keys, err := s.texts(`SELECT conrelid, confrelid, conkey, confkey, confdeltype, confupdtype FROM pg_catalog.pg_constraint
		WHERE contype = 'f' AND (conrelid = ANY ($1::oid[]) OR confrelid = ANY ($1::oid[]))`, list(ids))
	if err != nil {
		return nil, err
	}
	columns := map[[2]uint32]map[int]int{}
	for _, h := range heirs {
		n := numbers("{" + strings.Join(h, ",") + "}")
		pair := [2]uint32{uint32(n[0]), uint32(n[1])} //nolint:gosec // OIDs
		if columns[pair] == nil {
			columns[pair] = map[int]int{}
		}
		columns[pair][n[2]] = n[3]
	}
	for _, t := range from {
		for pair, to := range columns {
			if pair[0] == t.relation {
				out = append(out, pgUse{pair[1], t.required, renumber(t.selected, to), renumber(t.inserted, to), renumber(t.updated, to)})
			}
		}
		for _, k := range keys {
			out = append(out, t.along(k)...)
		}
	}
	return out, nil
}

// along lists the effects of a table's change at the other end of a foreign key.
func (t pgUse) along(key []string) (out []pgUse) {
	ends := numbers("{" + key[0] + "," + key[1] + "}")
	child, parent, columns, others := uint32(ends[0]), uint32(ends[1]), numbers(key[2]), numbers(key[3]) //nolint:gosec // OIDs
	touches := func(of []int) bool {
		return slices.ContainsFunc(t.updated, func(c int) bool { return slices.Contains(of, c) })
	}
	if t.relation == child && (t.required&pgInsert != 0 || touches(columns)) {
		out = append(out, pgUse{relation: parent, required: pgSelect, selected: others})
	}
	if t.relation != parent {
		return out
	}
	change := func(action string, required uint64) {
		out = append(out, pgUse{relation: child, required: pgSelect, selected: columns})
		switch {
		case action == "c" && required == pgDelete:
			out = append(out, pgUse{relation: child, required: pgDelete})
		case action != "a" && action != "r":
			out = append(out, pgUse{relation: child, required: pgUpdate, updated: columns})
		}
	}
	if t.required&pgDelete != 0 {
		change(key[4], pgDelete)
	}
	if touches(others) {
		change(key[5], pgUpdate)
	}
	return out
}

func renumber(columns []int, to map[int]int) (out []int) {
	for _, c := range columns {
		if n, ok := to[c]; ok {
			c = n
		}
		out = append(out, c)
	}
	return out
}

// numbers reads an array of PostgreSQL's catalogue.
func numbers(text string) (out []int) {
	for _, f := range strings.Split(strings.Trim(text, "{}"), ",") {
		n, err := strconv.Atoi(f)
		if err != nil {
			n = 0 // no column and no table has it: the whole row of none
		}
		out = append(out, n)
	}
	return out
}
