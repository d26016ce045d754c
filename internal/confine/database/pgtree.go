package database

import (
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// pgTree is what the query trees of one statement name, as PostgreSQL prints them with
// debug_print_parse and debug_print_rewritten. Everything is an OID or a number, so no
// name that the statement makes up can be taken for another.
type pgTree struct {
	tables    []pgUse
	relations map[uint32]bool // tables that are read or written anywhere
	functions map[uint32]bool
	operators map[uint32]bool
	aggregate map[uint32]bool // and window functions
	types     map[uint32]bool
	commands  []string // types of the statement and of those in WITH
	unknown   string   // the first node that is not in pgNodes
}

func newTree() *pgTree {
	return &pgTree{relations: map[uint32]bool{}, functions: map[uint32]bool{}, operators: map[uint32]bool{}, aggregate: map[uint32]bool{}, types: map[uint32]bool{}}
}

// pgUse holds the privileges that PostgreSQL itself requires for one table.
type pgUse struct {
	relation                    uint32
	required                    uint64 // bits of pgInsert to pgDelete
	selected, inserted, updated []int  // numbers of columns; 0 is the whole row
}

// Bits of requiredPerms, and how far numbers of columns are shifted in sets of columns.
const (
	pgInsert    = 1
	pgSelect    = 2
	pgUpdate    = 4
	pgDelete    = 8
	pgShift     = 7
	pgLineWidth = 78
	pgRegconfig = "3734" // OID of the type
)

// unwrap joins the lines of a printed tree. PostgreSQL breaks lines at a space, but within
// a word that fills the whole line. Such a tree is refused, since the end of a word
// could then be taken for a bracket.
func unwrap(text string) (string, error) {
	lines := strings.Split(text, "\n")
	for _, l := range lines {
		trimmed := strings.TrimRight(l, `\`)
		if strings.LastIndexByte(l, ' ') <= 0 && (len(l) >= pgLineWidth || (len(l)-len(trimmed))%2 == 1) {
			return "", fault.New(fault.ArgsInvalid, "a name in the statement is too long, or has a line break").In("sql")
		}
	}
	return strings.Join(lines, " "), nil
}

// pgReader reads a printed tree.
type pgReader struct {
	text  string
	at    int
	depth int
	out   *pgTree
}

// node is a node with the fields that matter. A list that is not of nodes is its atoms.
type pgNode struct {
	label  string
	fields map[string][]string
}

// read adds a printed tree.
func (t *pgTree) read(text string) error {
	joined, err := unwrap(text)
	if err != nil {
		return err
	}
	r := &pgReader{text: joined, out: t}
	for {
		word := r.word()
		if word == "" {
			return nil
		}
		if _, err := r.value(word); err != nil {
			return err
		}
	}
}

func broken() error {
	return fault.New(fault.ToolFailed, "PostgreSQL describes the statement in a form that Remit does not know")
}

// word returns the next bracket or atom; "" at the end. An escaped character is part of an atom.
func (r *pgReader) word() string {
	for r.at < len(r.text) && (r.text[r.at] == ' ' || r.text[r.at] == '\t') {
		r.at++
	}
	start := r.at
	for ; r.at < len(r.text); r.at++ {
		switch r.text[r.at] {
		case '\\':
			r.at++
			continue
		case '(', ')', '{', '}':
			if r.at == start {
				r.at++
			}
			return r.text[start:r.at]
		case ' ', '\t':
			return r.text[start:r.at]
		}
	}
	r.at = min(r.at, len(r.text))
	return r.text[start:r.at]
}

// value reads the value that begins with a word, and returns its atoms.
func (r *pgReader) value(word string) ([]string, error) {
	r.depth++
	defer func() { r.depth-- }()
	switch {
	case word == "" || word == ")" || word == "}" || r.depth > 2000:
		return nil, broken()
	case word == "{":
		return nil, r.node()
	case word != "(":
		return []string{word}, nil
	}
	var atoms []string
	for {
		word = r.word()
		if word == ")" {
			return atoms, nil
		}
		more, err := r.value(word)
		if err != nil {
			return nil, err
		}
		atoms = append(atoms, more...)
	}
}

// node reads a node behind its bracket: a label, then names of fields with a value each.
// Only a constant's value is more than one word.
func (r *pgReader) node() error {
	n := pgNode{label: r.word(), fields: map[string][]string{}}
	word := r.word()
	for word != "}" {
		name, ok := strings.CutPrefix(word, ":")
		if !ok {
			return broken()
		}
		atoms, err := r.value(r.word())
		if err != nil {
			return err
		}
		if _, twice := n.fields[name]; twice {
			return broken()
		}
		n.fields[name] = atoms
		for word = r.word(); n.label == "CONST" && name == "constvalue" && word != "" && word[0] != ':' && word != "}"; {
			word = r.word()
		}
	}
	return r.out.node(n)
}

// node notes the names in a node.
func (t *pgTree) node(n pgNode) error {
	if !pgNodes()[n.label] && t.unknown == "" {
		t.unknown = n.label
	}
	if c := n.fields["consttype"]; len(c) == 1 && c[0] == pgRegconfig {
		delete(n.fields, "consttype") // 'english' of to_tsvector, which the caller wrote
	}
	for _, f := range []struct {
		into  map[uint32]bool
		names []string
	}{
		{t.functions, []string{"funcid", "opfuncid", "hashfuncid", "negfuncid", "elemfuncid"}},
		{t.aggregate, []string{"aggfnoid", "winfnoid"}},
		{t.operators, []string{"opno", "opnos", "eqop", "sortop", "sortOperators", "uniqueEqOperators"}},
		{t.types, []string{
			"resulttype", "vartype", "paramtype", "consttype", "funcresulttype", "opresulttype", "aggtype", "aggargtypes", "wintype", "casetype", "coalescetype",
			"minmaxtype", "array_typeid", "element_typeid", "row_typeid", "refcontainertype", "refelemtype", "refrestype", "typeId", "funccoltypes", "coltypes", "colTypes", "ctecoltypes",
		}},
	} {
		for _, name := range f.names {
			if err := oids(n.fields[name], f.into); err != nil {
				return err
			}
		}
	}
	if c := n.fields["commandType"]; n.label == "QUERY" && len(c) == 1 {
		t.commands = append(t.commands, c[0])
	}
	if _, ok := n.fields["requiredPerms"]; !ok && n.label == "RTEPERMISSIONINFO" {
		return broken()
	}
	if _, ok := n.fields["relid"]; !ok {
		return nil
	}
	return t.table(n)
}

// table notes a table of a query, or the required rights on it. Until PostgreSQL 15 one node has both.
func (t *pgTree) table(n pgNode) error {
	if err := oids(n.fields["relid"], t.relations); err != nil {
		return err
	}
	perms, ok := n.fields["requiredPerms"]
	if !ok || len(perms) != 1 || perms[0] == "0" {
		return nil
	}
	one := map[uint32]bool{}
	err := oids(n.fields["relid"], one)
	u := pgUse{}
	for u.relation = range one {
	}
	if u.required, err = numberOf(perms[0], err); err != nil || u.relation == 0 {
		return broken()
	}
	for name, into := range map[string]*[]int{"selectedCols": &u.selected, "insertedCols": &u.inserted, "updatedCols": &u.updated} {
		set, ok := n.fields[name]
		if !ok || len(set) == 0 || set[0] != "b" {
			return broken()
		}
		for _, s := range set[1:] {
			v, err := numberOf(s, nil)
			if err != nil {
				return broken()
			}
			*into = append(*into, int(v)-pgShift) //nolint:gosec // at most 1600 columns
		}
	}
	t.tables = append(t.tables, u)
	return nil
}

func numberOf(s string, err error) (uint64, error) {
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(s, 10, 32)
}

// oids adds the OIDs among atoms, of which the first of a list is its kind.
func oids(atoms []string, into map[uint32]bool) error {
	for i, a := range atoms {
		if i == 0 && len(atoms) > 0 && (a == "o" || a == "i" || a == "<>") {
			continue
		}
		v, err := strconv.ParseUint(a, 10, 32)
		if err != nil {
			return broken()
		}
		if v != 0 {
			into[uint32(v)] = true
		}
	}
	return nil
}
