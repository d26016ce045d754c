package database

import (
	"github.com/remitrun/remit/internal/base/clip"
)

// pgBehind lists objects that run or show names without being a function of a query tree. It
// starts at types and tables and follows what they consist of and depend on. Members of
// extensions are not followed.
//
//	$1  types in the caller's text     $3  tables that are written
//	$2  types that rules, views and    $4  all tables, whose partitions are found by
//	    defaults add                       operator classes
//
// PostgreSQL records no dependencies on objects of its own, whose OIDs are below 16384.
const pgBehind = `WITH RECURSIVE o(class, id, asked) AS (
	(SELECT 'pg_catalog.pg_type'::pg_catalog.regclass::pg_catalog.oid, pg_catalog.unnest($1::oid[]), true
	UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, pg_catalog.unnest($2::oid[]), false
	UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, atttypid, false FROM pg_catalog.pg_attribute WHERE attrelid = ANY ($3::oid[]) AND attnum > 0 AND NOT attisdropped
	UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, oid, false FROM pg_catalog.pg_constraint WHERE conrelid = ANY ($3::oid[])
	UNION ALL SELECT 'pg_catalog.pg_attrdef'::pg_catalog.regclass, oid, false FROM pg_catalog.pg_attrdef WHERE adrelid = ANY ($3::oid[])
	UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, indexrelid, false FROM pg_catalog.pg_index WHERE indrelid = ANY ($3::oid[])
	UNION ALL SELECT 'pg_catalog.pg_class'::pg_catalog.regclass, pg_catalog.unnest($3::oid[]), false
	UNION ALL SELECT 'pg_catalog.pg_opclass'::pg_catalog.regclass, pg_catalog.unnest(partclass::oid[]), false FROM pg_catalog.pg_partitioned_table WHERE partrelid = ANY ($4::oid[]))
	UNION SELECT n.class, n.id, o.asked FROM o CROSS JOIN LATERAL (
		SELECT refclassid, refobjid FROM pg_catalog.pg_depend WHERE classid = o.class AND objid = o.id AND refobjid >= 16384
			AND refclassid IN ('pg_catalog.pg_proc'::pg_catalog.regclass, 'pg_catalog.pg_operator'::pg_catalog.regclass, 'pg_catalog.pg_opclass'::pg_catalog.regclass, 'pg_catalog.pg_type'::pg_catalog.regclass)
		UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, pg_catalog.unnest(ARRAY[typelem, typbasetype]) FROM pg_catalog.pg_type WHERE oid = o.id AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
		UNION ALL SELECT 'pg_catalog.pg_type'::pg_catalog.regclass, a.atttypid FROM pg_catalog.pg_type t JOIN pg_catalog.pg_attribute a ON a.attrelid = t.typrelid
			WHERE t.oid = o.id AND t.typrelid <> 0 AND a.attnum > 0 AND NOT a.attisdropped AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
		UNION ALL SELECT 'pg_catalog.pg_constraint'::pg_catalog.regclass, oid FROM pg_catalog.pg_constraint WHERE contypid = o.id AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
		UNION ALL SELECT 'pg_catalog.pg_proc'::pg_catalog.regclass, castfunc FROM pg_catalog.pg_cast WHERE castsource = o.id AND casttarget = 114 AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
		UNION ALL SELECT 'pg_catalog.pg_opclass'::pg_catalog.regclass, oid FROM pg_catalog.pg_opclass WHERE opcintype = o.id AND opcdefault AND oid >= 16384 AND o.class = 'pg_catalog.pg_type'::pg_catalog.regclass
	) n(class, id) WHERE n.id <> 0 AND o.class <> 'pg_catalog.pg_proc'::pg_catalog.regclass
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = o.class AND e.objid = o.id AND e.deptype = 'e')
)
SELECT 'function', p.proname FROM o JOIN pg_catalog.pg_proc p ON p.oid = o.id JOIN pg_catalog.pg_language l ON l.oid = p.prolang
	WHERE o.class = 'pg_catalog.pg_proc'::pg_catalog.regclass AND o.id >= 16384 AND NOT (p.provolatile = 'i' AND l.lanname IN ('c', 'internal')
		AND EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = o.class AND e.objid = o.id AND e.deptype = 'e'))
UNION ALL SELECT 'class', c.opcname FROM o JOIN pg_catalog.pg_opclass c ON c.oid = o.id
	WHERE o.class = 'pg_catalog.pg_opclass'::pg_catalog.regclass AND o.id >= 16384
		AND NOT EXISTS (SELECT FROM pg_catalog.pg_depend e WHERE e.classid = o.class AND e.objid = o.id AND e.deptype = 'e')
UNION ALL SELECT 'type', t.typname FROM o JOIN pg_catalog.pg_type t ON t.oid = o.id
	WHERE o.class = 'pg_catalog.pg_type'::pg_catalog.regclass AND o.id < 16384 AND o.asked AND (t.typname LIKE 'reg%' OR t.typname = 'aclitem')
LIMIT 8`

// behind refuses functions that PostgreSQL calls for a type or a written table, and types
// whose values are printed as names of the catalogue.
func (s *pgSession) behind(tree, written *pgTree, changed map[uint32]bool, refuse func(string)) error {
	rows, err := s.texts(pgBehind, list(written.types), list(tree.types), list(changed), list(tree.relations))
	if err != nil {
		return err
	}
	for _, r := range rows {
		name := clip.Text(r[1], 60)
		switch r[0] {
		case "type":
			refuse("the type " + name + " is not one that statements may use: its values are names of the catalogue")
		case "class":
			refuse("a type or table of the statement has the operator class " + name + ", whose functions are not ones that statements may call")
		default:
			refuse("a type or table of the statement calls the function " + name + ", which is not one that statements may call")
		}
	}
	return nil
}
