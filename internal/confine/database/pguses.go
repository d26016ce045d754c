package database

import (
	"cmp"
	"errors"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// pgStatement is the name of the statement of a call: the one that is described is the one
// that runs. PostgreSQL locks the tables that it names from the analysis to the end of the
// transaction, so they are not dropped or altered in between. Two changes do not wait for
// that lock: ATTACH PARTITION, and changes of types and functions.
const pgStatement = "remit"

// describe has the server analyse a statement and lists what it uses.
func (s *pgSession) describe(sql string) (*pgconn.StatementDescription, uses, error) {
	var u uses
	switch {
	case len(sql) > maxStatement:
		return nil, u, fault.New(fault.ArgsInvalid, "the statement is longer than %d bytes", maxStatement).In("sql")
	case strings.ContainsRune(sql, 0):
		return nil, u, fault.New(fault.ArgsInvalid, "the statement contains a NUL byte").In("sql")
	}
	if err := s.printing("on"); err != nil {
		return nil, u, err
	}
	s.notices = nil
	d, err := s.conn.Prepare(s.ctx, pgStatement, sql, nil)
	said := s.notices
	if err != nil {
		var pg *pgconn.PgError
		switch {
		case errors.As(err, &pg) && strings.Contains(pg.Message, "multiple commands"):
			return nil, u, fault.New(fault.ArgsInvalid, "the text is more than one statement; expected one in each call").In("sql")
		case pg != nil && pg.Where != "": // a function of the database may have made the message, before the decision
			return nil, u, fault.New(fault.ToolFailed, "the database %q refused a value in the text of the statement; expected values in params", s.limits.Name)
		}
		return nil, u, s.failed(err)
	}
	if err := s.printing("off"); err != nil {
		return nil, u, err
	}
	tree := newTree()
	written := *tree // what the caller wrote
	written.functions, written.types = map[uint32]bool{}, map[uint32]bool{}
	for _, p := range d.ParamOIDs {
		written.types[p] = true
	}
	found := 0
	for _, n := range said {
		if n.SeverityUnlocalized != "LOG" || n.Detail == "" {
			continue
		}
		into := tree
		if strings.HasPrefix(n.Message, "parse tree") {
			into = &written
		} else if !strings.HasPrefix(n.Message, "rewritten parse tree") {
			continue
		}
		found++
		if err := into.read(n.Detail); err != nil {
			return nil, u, err
		}
	}
	if found == 0 && len(d.Fields) == 0 {
		return nil, u, notAStatement()
	}
	if found != 2 || len(written.commands) == 0 {
		return nil, u, fault.New(fault.ToolFailed, "the database %q does not say what the statement uses; expected a server of PostgreSQL 14 or later", s.limits.Name)
	}
	err = s.uses(&u, tree, &written)
	return d, u, err
}

func notAStatement() error {
	return fault.New(fault.ArgsInvalid, "the statement must be SELECT, VALUES, TABLE, WITH, INSERT, UPDATE or DELETE").In("sql")
}

// printing has the server say how it understands statements, to the client. Where the role
// may set it, the server's own log does not repeat it.
func (s *pgSession) printing(on string) error {
	level, log := "log", "'fatal'"
	if on == "off" {
		level, log = "warning", "(SELECT reset_val FROM pg_catalog.pg_settings WHERE name = 'log_min_messages')"
	}
	text := "SET LOCAL client_min_messages = " + level + "; SET LOCAL debug_print_parse = " + on + "; SET LOCAL debug_print_rewritten = " + on
	quiet := "SELECT pg_catalog.set_config('log_min_messages', " + log + ", true) WHERE pg_catalog.has_parameter_privilege('log_min_messages', 'SET')"
	switch {
	case strings.HasPrefix(s.conn.ParameterStatus("server_version"), "14"): // it has no such privilege
	case on == "on":
		text = quiet + "; " + text
	default:
		text += "; " + quiet
	}
	_, err := s.conn.Exec(s.ctx, text).ReadAll()
	return s.failed(err)
}

// uses turns trees into uses of tables, by names. written is the tree of the caller's text;
// tree has also what views, rules, defaults and row security add.
func (s *pgSession) uses(u *uses, tree, written *pgTree) error {
	for _, c := range slices.Concat(written.commands, tree.commands) {
		if len(c) != 1 || !strings.Contains("1234", c) {
			return notAStatement()
		}
	}
	refuse := func(why string) { add(&u.refused, tool.TableUse{Refused: why}) }
	if n := cmp.Or(written.unknown, tree.unknown); n != "" {
		refuse("the statement has a part that Remit does not know: " + clip.Text(n, 60))
	}
	if err := s.callsIn(tree, written, refuse); err != nil {
		return err
	}
	seen := map[uint32]bool{}
	for _, t := range slices.Concat(written.tables, tree.tables) {
		seen[t.relation] = true
	}
	maps.Copy(tree.relations, written.relations)
	for r := range tree.relations {
		if !seen[r] {
			refuse("PostgreSQL does not say how the statement uses one of its tables")
		}
	}
	changed, err := s.follow(u, pgRelations{}, slices.Concat(written.tables, tree.tables))
	if err != nil {
		return err
	}
	return s.behind(tree, written, changed, refuse)
}

// callsIn refuses functions and operators that do more than compute.
func (s *pgSession) callsIn(tree, written *pgTree, refuse func(string)) error {
	functions := maps.Clone(tree.functions)
	maps.Copy(functions, written.functions)
	if len(functions)+len(tree.aggregate)+len(tree.operators) == 0 {
		return nil
	}
	rows, err := s.texts(`SELECT p.oid, p.proname, p.oid < 16384 AND n.nspname = 'pg_catalog', p.provolatile = 'i' AND l.lanname IN ('c', 'internal'),
			EXISTS (SELECT FROM pg_catalog.pg_operator o WHERE o.oprcode = p.oid),
			EXISTS (SELECT FROM pg_catalog.pg_depend d WHERE d.classid = 'pg_catalog.pg_proc'::pg_catalog.regclass AND d.objid = p.oid AND d.deptype = 'e'),
			p.prokind IN ('a', 'w')
		FROM pg_catalog.pg_proc p JOIN pg_catalog.pg_namespace n ON n.oid = p.pronamespace JOIN pg_catalog.pg_language l ON l.oid = p.prolang
		WHERE p.oid = ANY ($1::oid[]) OR p.oid = ANY ($2::oid[]) OR p.oid IN (SELECT oprcode FROM pg_catalog.pg_operator WHERE oid = ANY ($3::oid[]))`,
		list(functions), list(tree.aggregate), list(tree.operators))
	if err != nil {
		return err
	}
	for _, r := range rows {
		oid, err := strconv.ParseUint(r[0], 10, 32)
		if err != nil {
			return broken()
		}
		id, builtin, pure, operator, extension, many := uint32(oid), r[2] == "t", r[3] == "t", r[4] == "t", r[5] == "t", r[6] == "t"
		delete(functions, id)
		ok := builtin && (pgFunctions()[r[1]] || many || operator && !strings.HasPrefix(r[1], "pg_")) ||
			operator && pure && extension ||
			builtin && r[1] == "nextval" && !written.functions[id] // of a default
		if !ok {
			refuse("the function " + clip.Text(r[1], 60) + " is not one that statements may call")
		}
	}
	if len(functions) > 0 {
		refuse("the statement calls a function that PostgreSQL does not describe")
	}
	return nil
}

// pgRelations are tables by OID.
type pgRelations map[uint32]*pgRelation

type pgRelation struct {
	schema, name, kind, refused string
	triggers                    bool
	columns                     map[int]pgColumn
}

type pgColumn struct {
	name     string
	computed bool // from others, or with a name that differs from another one's in case only
}

// relations reads the catalogue's entries of tables.
func (s *pgSession) relations(ids map[uint32]bool) (pgRelations, error) {
	rows, err := s.texts(`SELECT c.oid, n.nspname, c.relname, c.relkind, n.nspname IN ('pg_catalog', 'information_schema') OR n.nspname LIKE 'pg\_%',
			EXISTS (SELECT FROM pg_catalog.pg_trigger t WHERE t.tgrelid = c.oid AND NOT t.tgisinternal AND t.tgenabled <> 'D'),
			EXISTS (SELECT FROM pg_catalog.pg_class o JOIN pg_catalog.pg_namespace m ON m.oid = o.relnamespace
				WHERE o.oid <> c.oid AND o.relkind IN ('r', 'p', 'v', 'm', 'f') AND pg_catalog.lower(o.relname) = pg_catalog.lower(c.relname) AND pg_catalog.lower(m.nspname) = pg_catalog.lower(n.nspname))
			OR pg_catalog.lower(n.nspname) IN ('main', 'public') AND n.nspname <> 'public'
		FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = ANY ($1::oid[])`, list(ids))
	if err != nil {
		return nil, err
	}
	out := pgRelations{}
	for _, r := range rows {
		oid, err := strconv.ParseUint(r[0], 10, 32)
		if err != nil {
			return nil, broken()
		}
		rel := &pgRelation{schema: r[1], name: r[2], kind: r[3], triggers: r[5] == "t", columns: map[int]pgColumn{}}
		if r[4] == "t" || !strings.Contains("rpvm", r[3]) {
			rel.refused = "the table " + clip.Text(r[2], 60) + " is not an ordinary table of the database"
		} else if r[6] == "t" {
			rel.refused = "the table " + clip.Text(r[2], 60) + " has a name that a policy cannot tell from another one"
		}
		out[uint32(oid)] = rel
	}
	columns, err := s.texts(`SELECT attrelid, attnum, attname, attgenerated <> '' OR EXISTS (SELECT FROM pg_catalog.pg_attribute o
			WHERE o.attrelid = a.attrelid AND o.attnum <> a.attnum AND pg_catalog.lower(o.attname) = pg_catalog.lower(a.attname))
		FROM pg_catalog.pg_attribute a WHERE attrelid = ANY ($1::oid[]) AND attnum > 0 AND NOT attisdropped ORDER BY 1, 2`, list(ids))
	if err != nil {
		return nil, err
	}
	for _, r := range columns {
		oid, err := strconv.ParseUint(r[0], 10, 32)
		n, err2 := strconv.Atoi(r[1])
		if err != nil || err2 != nil || out[uint32(oid)] == nil {
			return nil, broken()
		}
		out[uint32(oid)].columns[n] = pgColumn{r[2], r[3] == "t"}
	}
	return out, nil
}

// note adds the privileges required for one table.
func (all pgRelations) note(u *uses, t pgUse) {
	r := all[t.relation]
	switch {
	case r == nil:
		add(&u.refused, tool.TableUse{Refused: "PostgreSQL does not describe one of the statement's tables"})
		return
	case r.refused != "":
		add(&u.refused, tool.TableUse{Refused: r.refused})
		return
	}
	if t.required&pgSelect != 0 {
		if len(t.selected) == 0 {
			add(&u.read, r.use(""))
		}
		for _, c := range t.selected {
			r.column(&u.read, c)
		}
	}
	if t.required&(pgInsert|pgDelete) != 0 || t.required&pgUpdate != 0 && len(t.updated) == 0 {
		add(&u.written, r.use("*"))
	}
	for _, c := range t.updated {
		r.column(&u.written, c)
	}
}

func (r *pgRelation) use(column string) tool.TableUse {
	return tool.TableUse{Schema: r.schema, Table: r.name, Column: column}
}

// column adds a column by its number: 0 is all of them, and one of the system none.
func (r *pgRelation) column(list *[]tool.TableUse, number int) {
	c, known := r.columns[number]
	switch {
	case number == 0:
		for _, n := range slices.Sorted(maps.Keys(r.columns)) {
			r.column(list, n)
		}
	case !known || c.computed: // a column of the system is of the whole row
		add(list, r.use("*"))
	default:
		add(list, r.use(c.name))
	}
}
