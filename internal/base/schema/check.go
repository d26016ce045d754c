package schema

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// maxSteps bounds the work of one check: schemas of strangers can name each other so
// that the work doubles with each level.
const maxSteps = 2_000_000

var (
	errTooMuch = errors.New("the schema is too complex: the check was given up")
	errCycle   = errors.New("the schema refers to itself without end")
)

// check is one check of a value.
type check struct {
	tracks  bool
	steps   int
	stopped error // the check was given up
}

// place is a part of the value.
type place struct {
	above *place
	name  string
}

func (p *place) path() []string {
	var out []string
	for ; p != nil; p = p.above {
		out = append(out, p.name)
	}
	slices.Reverse(out)
	return out
}

// frame is a schema that is being checked, and those that led to it.
type frame struct {
	above *frame
	node  *node
	at    *place
}

// evaluated notes the properties and items that schemas have looked at.
type evaluated struct {
	properties map[string]bool
	items      map[int]bool
	prefix     int // items before it are evaluated
}

func (e *evaluated) property(name string) {
	if e.properties == nil {
		e.properties = map[string]bool{}
	}
	e.properties[name] = true
}

func (e *evaluated) item(i int) {
	if e.items == nil {
		e.items = map[int]bool{}
	}
	e.items[i] = true
}

func (e *evaluated) merge(o *evaluated) {
	for name := range o.properties {
		e.property(name)
	}
	for i := range o.items {
		e.item(i)
	}
	e.prefix = max(e.prefix, o.prefix)
}

// problems collects problems; nil: only whether there are some matters.
type problems = *[]Problem

// visit checks a value against a schema, and reports whether it fits.
func (c *check) visit(n *node, v any, at *place, scope *frame, out problems, seen *evaluated) bool {
	if c.steps++; c.steps > maxSteps {
		c.stopped = errTooMuch
	}
	for f := scope; f != nil && f.at == at; f = f.above {
		if f.node == n {
			c.stopped = errCycle
		}
	}
	if c.stopped != nil {
		return false
	}
	if n.never {
		return report(out, at, "", "false schema")
	}
	scope = &frame{scope, n, at}
	ok := c.value(n, v, at, out)
	switch v := v.(type) {
	case map[string]any:
		ok = c.object(n, v, at, scope, out, seen) && ok
	case []any:
		ok = c.list(n, v, at, scope, out, seen) && ok
	}
	ok = c.logic(n, v, at, scope, out, seen) && ok
	switch v := v.(type) {
	case map[string]any:
		ok = c.restOfObject(n, v, at, scope, out, seen) && ok
	case []any:
		ok = c.restOfList(n, v, at, scope, out, seen) && ok
	}
	return ok && c.stopped == nil
}

func report(out problems, at *place, hint, format string, args ...any) bool {
	if out != nil {
		*out = append(*out, Problem{At: at.path(), Text: fmt.Sprintf(format, args...), Hint: hint})
	}
	return false
}

// value checks the keywords that do not look into the value.
func (c *check) value(n *node, v any, at *place, out problems) bool {
	ok := true
	if n.types != nil && !slices.ContainsFunc(n.types, func(t string) bool { return isOf(v, t) }) {
		ok = report(out, at, "", "got %s, want %s", typeOf(v), strings.Join(n.types, " or "))
	}
	if n.enum != nil && !holds(n.enum, v) {
		ok = report(out, at, "", "value must be %s", choices(n.enum))
	}
	if s, isText := v.(string); isText {
		ok = c.text(n, s, at, out) && ok
	}
	if n.minimum == nil && n.maximum == nil && n.aboveMinimum == nil && n.belowLimit == nil && n.multipleOf == nil || typeOf(v) != "number" {
		return ok
	}
	x := number(v)
	if x == nil {
		return report(out, at, "", "the number is too large to be checked")
	}
	for _, bound := range []struct {
		name  string
		want  *big.Rat
		holds func(order int) bool
	}{
		{"minimum", n.minimum, func(o int) bool { return o >= 0 }},
		{"maximum", n.maximum, func(o int) bool { return o <= 0 }},
		{"exclusiveMinimum", n.aboveMinimum, func(o int) bool { return o > 0 }},
		{"exclusiveMaximum", n.belowLimit, func(o int) bool { return o < 0 }},
	} {
		if bound.want != nil && !bound.holds(x.Cmp(bound.want)) {
			ok = report(out, at, "", "%s: got %s, want %s", bound.name, decimal(x), decimal(bound.want))
		}
	}
	if n.multipleOf != nil && !new(big.Rat).Quo(x, n.multipleOf).IsInt() {
		ok = report(out, at, "", "multipleOf: got %s, want %s", decimal(x), decimal(n.multipleOf))
	}
	return ok
}

// decimal writes a number as people do.
func decimal(x *big.Rat) string {
	f, _ := x.Float64()
	return strconv.FormatFloat(f, 'g', -1, 64)
}

func (c *check) text(n *node, s string, at *place, out problems) bool {
	ok := true
	if n.minLength >= 0 || n.maxLength >= 0 {
		ok = checkCount(out, at, "Length", utf8.RuneCountInString(s), n.minLength, n.maxLength)
	}
	if n.pattern != nil && !n.pattern.MatchString(s) {
		ok = report(out, at, "", "does not match pattern '%s'", n.pattern)
	}
	if n.format != "" && !hasFormat(s, n.format) {
		ok = report(out, at, "", "not a valid %s", n.format)
	}
	return ok
}

// checkCount checks a count; a bound of -1 holds always.
func checkCount(out problems, at *place, what string, got, least, most int) bool {
	if least >= 0 && got < least {
		return report(out, at, "", "min%s: got %d, want %d", what, got, least)
	}
	if most >= 0 && got > most {
		return report(out, at, "", "max%s: got %d, want %d", what, got, most)
	}
	return true
}

func (c *check) object(n *node, m map[string]any, at *place, scope *frame, out problems, seen *evaluated) bool {
	ok := checkCount(out, at, "Properties", len(m), n.minProperties, n.maxProperties)
	if missing := slices.DeleteFunc(slices.Clone(n.required), func(name string) bool { _, there := m[name]; return there }); len(missing) > 0 {
		word := "property"
		if len(missing) > 1 {
			word = "properties"
		}
		ok = report(out, at, "", "missing %s %s", word, quoted(missing))
	}
	var unknowns []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		known := false
		below := &place{at, name}
		if p := n.properties[name]; p != nil {
			known = true
			ok = c.visit(p, m[name], below, scope, out, &evaluated{}) && ok
		}
		for _, p := range n.patterns {
			if p.name.MatchString(name) {
				known = true
				ok = c.visit(p.node, m[name], below, scope, out, &evaluated{}) && ok
			}
		}
		if n.propertyNames != nil && !c.visit(n.propertyNames, name, below, scope, nil, &evaluated{}) {
			ok = report(out, at, "", "invalid propertyName %s", quoted([]string{name}))
		}
		if !known && n.additional != nil {
			known = true
			if n.additional.never {
				unknowns = append(unknowns, name)
			} else {
				ok = c.visit(n.additional, m[name], below, scope, out, &evaluated{}) && ok
			}
		}
		if known && c.tracks {
			seen.property(name)
		}
	}
	if len(unknowns) > 0 {
		text, hint := unknown(unknowns, n.names)
		ok = report(out, at, hint, "%s", text)
	}
	return c.dependents(n, m, at, scope, out, seen) && ok
}

func (c *check) dependents(n *node, m map[string]any, at *place, scope *frame, out problems, seen *evaluated) bool {
	ok := true
	for _, d := range n.dependents {
		if _, there := m[d.property]; !there {
			continue
		}
		missing := slices.DeleteFunc(slices.Clone(d.required), func(name string) bool { _, there := m[name]; return there })
		if len(missing) > 0 {
			ok = report(out, at, "", "properties %s required, if %s exists", quoted(missing), quoted([]string{d.property}))
		}
		if d.node != nil {
			ok = c.visit(d.node, m, at, scope, out, seen) && ok
		}
	}
	return ok
}

func (c *check) restOfObject(n *node, m map[string]any, at *place, scope *frame, out problems, seen *evaluated) bool {
	if n.unevaluated == nil {
		return true
	}
	ok := true
	var unknowns []string
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if seen.properties[name] {
			continue
		}
		seen.property(name)
		if n.unevaluated.never {
			unknowns = append(unknowns, name)
		} else {
			ok = c.visit(n.unevaluated, m[name], &place{at, name}, scope, out, &evaluated{}) && ok
		}
	}
	if len(unknowns) > 0 {
		text, hint := unknown(unknowns, n.names)
		ok = report(out, at, hint, "%s", text)
	}
	return ok
}

func (c *check) list(n *node, list []any, at *place, scope *frame, out problems, seen *evaluated) bool {
	ok := checkCount(out, at, "Items", len(list), n.minItems, n.maxItems)
	for i, v := range list {
		below := &place{at, strconv.Itoa(i)}
		switch {
		case i < len(n.prefix):
			ok = c.visit(n.prefix[i], v, below, scope, out, &evaluated{}) && ok
			seen.prefix = max(seen.prefix, i+1)
		case n.items != nil:
			ok = c.visit(n.items, v, below, scope, out, &evaluated{}) && ok
			seen.prefix = max(seen.prefix, i+1)
		}
	}
	if n.contains != nil {
		ok = c.containing(n, list, at, scope, out, seen) && ok
	}
	if n.unique {
		if i, j, twice := duplicates(list); twice {
			ok = report(out, at, "", "items at %d and %d are equal", i, j)
		}
	}
	return ok
}

func (c *check) containing(n *node, list []any, at *place, scope *frame, out problems, seen *evaluated) bool {
	count := 0
	for i, v := range list {
		if c.visit(n.contains, v, &place{at, strconv.Itoa(i)}, scope, nil, &evaluated{}) {
			count++
			if n.resource.draft >= 2020 {
				seen.item(i)
			}
		}
	}
	least := max(n.minContains, 0)
	if n.minContains < 0 {
		least = 1
	}
	switch {
	case count < least && n.minContains < 0:
		return report(out, at, "", "no items match contains schema")
	case count < least:
		return report(out, at, "", "min %d items required to match contains schema, but matched %d items", least, count)
	case n.maxContains >= 0 && count > n.maxContains:
		return report(out, at, "", "max %d items required to match contains schema, but matched %d items", n.maxContains, count)
	}
	return true
}

func (c *check) restOfList(n *node, list []any, at *place, scope *frame, out problems, seen *evaluated) bool {
	if n.unevaluatedItems == nil {
		return true
	}
	ok := true
	for i := seen.prefix; i < len(list); i++ {
		if !seen.items[i] {
			ok = c.visit(n.unevaluatedItems, list[i], &place{at, strconv.Itoa(i)}, scope, out, &evaluated{}) && ok
		}
	}
	seen.prefix = len(list)
	return ok
}

// logic checks the value against other schemas, at the same place.
func (c *check) logic(n *node, v any, at *place, scope *frame, out problems, seen *evaluated) bool {
	ok := true
	if n.ref != nil {
		ok = c.inPlace(c.target(n, scope), v, at, scope, out, seen)
	}
	for _, one := range n.allOf {
		ok = c.inPlace(one, v, at, scope, out, seen) && ok
	}
	if len(n.anyOf) > 0 {
		if matched, found := c.count(n.anyOf, v, at, scope, out, seen); len(matched) == 0 {
			ok = adopt(out, found)
		}
	}
	if len(n.oneOf) > 0 {
		switch matched, found := c.count(n.oneOf, v, at, scope, out, seen); {
		case len(matched) == 0:
			ok = adopt(out, found)
		case len(matched) > 1:
			ok = report(out, at, "", "'oneOf' failed, subschemas %d, %d matched", matched[0], matched[1])
		}
	}
	if n.not != nil && c.visit(n.not, v, at, scope, nil, &evaluated{}) {
		ok = report(out, at, "", "'not' failed")
	}
	if n.ifNode != nil {
		branch := n.elseNode
		if c.inPlace(n.ifNode, v, at, scope, nil, seen) {
			branch = n.thenNode
		}
		if branch != nil {
			ok = c.inPlace(branch, v, at, scope, out, seen) && ok
		}
	}
	return ok
}

// inPlace checks the value at the same place. The parts evaluated by a schema that fails do not
// count.
func (c *check) inPlace(n *node, v any, at *place, scope *frame, out problems, seen *evaluated) bool {
	own := &evaluated{}
	ok := c.visit(n, v, at, scope, out, own)
	if ok && c.tracks {
		seen.merge(own)
	}
	return ok
}

// count gives the indexes of the schemas that the value fits, and the problems with the
// others.
func (c *check) count(list []*node, v any, at *place, scope *frame, out problems, seen *evaluated) (matched []int, found []Problem) {
	var to problems
	if out != nil {
		to = &found
	}
	for i, one := range list {
		if c.inPlace(one, v, at, scope, to, seen) {
			matched = append(matched, i)
		}
	}
	return matched, found
}

func adopt(out problems, found []Problem) bool {
	if out != nil {
		*out = append(*out, found...)
	}
	return false
}

// target gives the schema that a reference means in this dynamic scope: the outermost
// resource decides.
func (c *check) target(n *node, scope *frame) *node {
	to := n.ref
	for f := scope; f != nil; f = f.above {
		r := f.node.resource
		if n.dynamic != "" && r.compiled[n.dynamic] != nil {
			to = r.compiled[n.dynamic]
		}
		if n.recurses {
			if !r.recurses {
				break
			}
			to = r.root
		}
	}
	return to
}
