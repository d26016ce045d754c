package schema

import (
	"errors"
	"fmt"
	"maps"
	"math/big"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// compiler compiles the schemas of one document.
type compiler struct {
	resources map[string]*resource  // by URI
	owner     map[uintptr]*resource // of each schema that is an object
	nodes     map[uintptr]*node
	tracks    bool
	lenient   bool    // keywords that cannot be used are left out
	partial   []*node // nodes without some of their keywords
	all       []*node // of a lenient compiler
}

// identity tells one object of a decoded document from another.
func identity(m map[string]any) uintptr { return reflect.ValueOf(m).Pointer() }

// newCompiler finds the resources of a document, and the one of its root.
func newCompiler(doc any, lenient bool) (*compiler, *resource, error) {
	c := &compiler{resources: map[string]*resource{}, owner: map[uintptr]*resource{}, nodes: map[uintptr]*node{}, lenient: lenient}
	r := &resource{uri: rootURI, draft: 2020, doc: doc}
	if err := c.index(doc, r, true); err != nil {
		return nil, nil, err
	}
	if m, ok := doc.(map[string]any); ok {
		r = c.owner[identity(m)]
	}
	return c, r, nil
}

func compile(doc any, lenient bool) (*Schema, error) {
	c, r, err := newCompiler(doc, lenient)
	if err != nil {
		return nil, err
	}
	root, err := c.schema(doc, r)
	if err != nil {
		return nil, err
	}
	// A dynamic reference may reach any anchor of its name, so all of them are compiled.
	for _, r := range c.resources {
		if r.root, err = c.schema(r.doc, r); err != nil {
			return nil, err
		}
		r.compiled = map[string]*node{}
		for name, at := range r.dynamic {
			if r.compiled[name], err = c.schema(at, c.ownerOf(at, r)); err != nil {
				return nil, err
			}
		}
	}
	c.loosen()
	return &Schema{root: root, tracks: c.tracks}, nil
}

// ownerOf gives the resource that a schema belongs to.
func (c *compiler) ownerOf(v any, otherwise *resource) *resource {
	if m, ok := v.(map[string]any); ok {
		if r := c.owner[identity(m)]; r != nil {
			return r
		}
	}
	return otherwise
}

// schema compiles the schema v of resource r, once.
func (c *compiler) schema(v any, r *resource) (*node, error) {
	switch v := v.(type) {
	case bool:
		n := newNode(r)
		n.never = !v
		return n, nil
	case map[string]any:
		if n := c.nodes[identity(v)]; n != nil {
			return n, nil
		}
		if c.owner[identity(v)] == nil { // reached by a pointer to where no schema was expected
			if err := c.index(v, r, false); err != nil {
				return nil, err
			}
		}
		n := newNode(c.owner[identity(v)])
		c.nodes[identity(v)] = n
		k := &keywords{c: c, r: n.resource, n: n, m: v}
		if c.lenient {
			k.m = usable(v)
			c.all = append(c.all, n)
		}
		k.compile()
		return n, k.err
	}
	return nil, fmt.Errorf("expected a schema, which is an object or a boolean, got %s", typeOf(v))
}

// keywords reads the keywords of one schema. It keeps the first error.
type keywords struct {
	c   *compiler
	r   *resource
	n   *node
	m   map[string]any
	err error
}

func (k *keywords) compile() {
	if k.r.draft <= 7 && k.m["$ref"] != nil { // keys beside it are ignored
		k.references(map[string]any{"$ref": k.m["$ref"]})
		return
	}
	if !k.c.lenient {
		k.annotations()
	}
	k.readCounts()
	k.values()
	k.lists()
	k.objects()
	k.references(k.m)
	k.logic()
}

// fail notes that a keyword cannot be used. A lenient compiler leaves the keyword out.
func (k *keywords) fail(key, format string, args ...any) {
	if k.c.lenient {
		k.c.partial = append(k.c.partial, k.n)
		return
	}
	if k.err == nil {
		k.err = fmt.Errorf("%s: "+format, append([]any{key}, args...)...)
	}
}

// annotations checks the types of keywords that assert nothing.
func (k *keywords) annotations() {
	for key, want := range map[string]string{"title": "string", "description": "string", "$comment": "string", "format": "string",
		"contentEncoding": "string", "contentMediaType": "string", "readOnly": "boolean", "writeOnly": "boolean", "deprecated": "boolean", "examples": "array"} {
		if v, ok := k.m[key]; ok && typeOf(v) != want {
			k.fail(key, "expected a value of type %s, got %s", want, typeOf(v))
		}
	}
}

func (k *keywords) readCounts() {
	n := k.n
	for key, to := range map[string]*int{"minLength": &n.minLength, "maxLength": &n.maxLength, "minItems": &n.minItems, "maxItems": &n.maxItems,
		"minContains": &n.minContains, "maxContains": &n.maxContains, "minProperties": &n.minProperties, "maxProperties": &n.maxProperties} {
		v, ok := k.m[key]
		if !ok || k.r.draft <= 7 && strings.HasSuffix(key, "Contains") {
			continue
		}
		x := number(v)
		if x == nil || !x.IsInt() || x.Sign() < 0 {
			k.fail(key, "expected a whole number from 0")
		} else if *to = 1<<31 - 1; x.Num().IsInt64() && x.Num().Int64() < 1<<31 {
			*to = int(x.Num().Int64())
		}
	}
}

var typeNames = []string{"array", "boolean", "integer", "null", "number", "object", "string"}

func isTypeName(name string) bool { return slices.Contains(typeNames, name) }

// values reads the keywords for any value, numbers and strings.
func (k *keywords) values() {
	n := k.n
	if v, ok := k.m["type"]; ok {
		n.types = k.strings("type", v)
		for _, name := range n.types {
			if !isTypeName(name) {
				k.fail("type", "%q is not a valid type; expected %s", name, strings.Join(typeNames, ", "))
				n.types = nil
			}
		}
		if n.types != nil && len(n.types) == 0 {
			k.fail("type", "expected a type")
			n.types = nil
		}
	}
	if v, ok := k.m["enum"]; ok {
		list, isList := v.([]any)
		if n.enum = list; !isList {
			k.fail("enum", "expected a list")
		} else if list == nil {
			n.enum = []any{}
		}
	}
	if v, ok := k.m["const"]; ok && k.r.draft > 4 {
		if n.enum == nil || holds(n.enum, v) {
			n.enum = []any{v}
		} else {
			n.enum = []any{}
		}
	}
	n.minimum, n.maximum = k.number("minimum"), k.number("maximum")
	if k.r.draft > 4 {
		n.aboveMinimum, n.belowLimit = k.number("exclusiveMinimum"), k.number("exclusiveMaximum")
	} else {
		if k.m["exclusiveMinimum"] == true {
			n.aboveMinimum, n.minimum = n.minimum, nil
		}
		if k.m["exclusiveMaximum"] == true {
			n.belowLimit, n.maximum = n.maximum, nil
		}
	}
	if n.multipleOf = k.number("multipleOf"); n.multipleOf != nil && n.multipleOf.Sign() <= 0 {
		k.fail("multipleOf", "expected a number above 0")
		n.multipleOf = nil
	}
	if v, ok := k.m["pattern"]; ok {
		n.pattern = k.expression("pattern", v)
	}
	if f, ok := k.m["format"].(string); ok && k.r.draft <= 7 {
		n.format = f
	}
}

func (k *keywords) lists() {
	n := k.n
	items, additional := "items", "additionalItems"
	if list, ok := k.m["items"].([]any); ok && k.r.draft < 2020 {
		n.prefix, items = k.schemas("items", list), additional
	} else if k.r.draft >= 2020 {
		if v, ok := k.m["prefixItems"]; ok {
			n.prefix = k.schemas("prefixItems", v)
		}
	}
	n.items = k.schema(items)
	if k.r.draft > 4 {
		n.contains = k.schema("contains")
	}
	if k.r.draft > 7 {
		n.unevaluatedItems = k.schema("unevaluatedItems")
	}
	n.unique = k.boolean("uniqueItems")
}

func (k *keywords) objects() {
	n := k.n
	if v, ok := k.m["required"]; ok {
		if _, isList := v.([]any); !isList {
			k.fail("required", "expected a list of strings")
		} else {
			n.required = k.strings("required", v)
		}
	}
	n.properties = k.named("properties")
	n.names = slices.Sorted(maps.Keys(n.properties))
	n.additional = k.schema("additionalProperties")
	if _, ok := k.m["properties"].(map[string]any); !ok && k.m["properties"] != nil {
		n.additional = nil // which properties are additional is not known
	}
	patterns := k.named("patternProperties")
	for _, p := range slices.Sorted(maps.Keys(patterns)) {
		if name := k.expression("patternProperties", p); name != nil {
			n.patterns = append(n.patterns, patternNode{name, patterns[p]})
		} else {
			n.additional = nil
		}
	}
	if k.r.draft > 4 {
		n.propertyNames = k.schema("propertyNames")
	}
	if k.r.draft > 7 {
		n.unevaluated = k.schema("unevaluatedProperties")
		schemas := k.named("dependentSchemas")
		for _, name := range slices.Sorted(maps.Keys(schemas)) {
			n.dependents = append(n.dependents, dependent{name, nil, schemas[name]})
		}
		k.dependents("dependentRequired", false)
	}
	k.dependents("dependencies", true)
	k.c.tracks = k.c.tracks || n.unevaluated != nil || n.unevaluatedItems != nil
}

// dependents reads an object of lists of properties or, if mixed, also of schemas.
func (k *keywords) dependents(key string, mixed bool) {
	v, ok := k.m[key]
	if !ok {
		return
	}
	m, ok := v.(map[string]any)
	if !ok {
		k.fail(key, "expected an object")
	}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		if _, isList := m[name].([]any); isList || !mixed {
			k.n.dependents = append(k.n.dependents, dependent{name, k.strings(key, m[name]), nil})
			continue
		}
		n, err := k.c.schema(m[name], k.r)
		if err != nil {
			k.fail(key, "%w", err)
			continue
		}
		k.n.dependents = append(k.n.dependents, dependent{name, nil, n})
	}
}

func (k *keywords) references(m map[string]any) {
	for _, key := range []string{"$ref", "$recursiveRef", "$dynamicRef"} {
		v, ok := m[key]
		if !ok || key == "$recursiveRef" && k.r.draft != 2019 || key == "$dynamicRef" && k.r.draft != 2020 {
			continue
		}
		text, isText := v.(string)
		if !isText {
			k.fail(key, "expected a string")
			return
		}
		to, name, err := k.c.resolve(k.r, text, key == "$dynamicRef")
		if err != nil {
			k.fail(key, "%w", err)
			return
		}
		if k.n.ref != nil { // beside $ref: both hold
			other := newNode(k.r)
			other.ref = k.n.ref
			k.c.all = append(k.c.all, other)
			k.n.allOf = append(k.n.allOf, other)
		}
		k.n.ref, k.n.dynamic = to, name
		k.n.recurses = key == "$recursiveRef" && to.resource.recurses
	}
}

func (k *keywords) logic() {
	n := k.n
	for key, to := range map[string]*[]*node{"allOf": &n.allOf, "anyOf": &n.anyOf, "oneOf": &n.oneOf} {
		if v, ok := k.m[key]; ok {
			*to = append(*to, k.schemas(key, v)...)
		}
	}
	n.not = k.schema("not")
	if k.r.draft >= 7 {
		if n.ifNode = k.schema("if"); n.ifNode != nil {
			n.thenNode, n.elseNode = k.schema("then"), k.schema("else")
		}
	}
}

// The readers of single keywords give the zero value for an absent one.

func (k *keywords) schema(key string) *node {
	v, ok := k.m[key]
	if !ok {
		return nil
	}
	n, err := k.c.schema(v, k.r)
	if err != nil {
		k.fail(key, "%w", err)
	}
	return n
}

func (k *keywords) schemas(key string, v any) []*node {
	list, ok := v.([]any)
	if !ok || len(list) == 0 {
		k.fail(key, "expected a list of schemas")
	}
	out := make([]*node, len(list))
	for i := range list {
		var err error
		if out[i], err = k.c.schema(list[i], k.r); err != nil {
			k.fail(key, "%d: %w", i, err)
			out[i] = newNode(k.r)
		}
	}
	return out
}

func (k *keywords) named(key string) map[string]*node {
	v, ok := k.m[key]
	if !ok {
		return nil
	}
	m, ok := v.(map[string]any)
	if !ok {
		k.fail(key, "expected an object")
	}
	out := make(map[string]*node, len(m))
	for _, name := range slices.Sorted(maps.Keys(m)) {
		var err error
		if out[name], err = k.c.schema(m[name], k.r); err != nil {
			k.fail(key, "%s: %w", strconv.Quote(name), err)
			out[name] = newNode(k.r)
		}
	}
	return out
}

// strings reads a string or a list of different strings.
func (k *keywords) strings(key string, v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, ok := v.([]any)
	if !ok {
		k.fail(key, "expected strings")
	}
	out := make([]string, 0, len(list))
	seen := map[string]bool{}
	for _, one := range list {
		s, ok := one.(string)
		if !ok || seen[s] {
			k.fail(key, "expected different strings")
			continue
		}
		seen[s] = true
		out = append(out, s)
	}
	return out
}

func (k *keywords) number(key string) *big.Rat {
	v, ok := k.m[key]
	if !ok {
		return nil
	}
	x := number(v)
	if x == nil {
		k.fail(key, "expected a number")
	}
	return x
}

func (k *keywords) boolean(key string) bool {
	v, ok := k.m[key]
	b, isBool := v.(bool)
	if ok && !isBool {
		k.fail(key, "expected true or false")
	}
	return b
}

func (k *keywords) expression(key string, v any) *regexp.Regexp {
	text, ok := v.(string)
	if !ok {
		k.fail(key, "expected a string")
		return nil
	}
	re, err := regexp.Compile(text)
	if err != nil {
		k.fail(key, "%w", err)
	}
	return re
}

var errOtherDocument = errors.New("the schema refers to another document, which is not fetched")
