package schema

import (
	"math/big"
	"regexp"
)

// node is one schema of a document, compiled. Absent keywords are nil or -1.
type node struct {
	resource *resource
	never    bool // the schema false
	recurses bool // $recursiveRef: ref is the target, unless the dynamic scope has another
	dynamic  string

	types                    []string
	enum                     []any // const is an enum of one value
	minimum, maximum         *big.Rat
	aboveMinimum, belowLimit *big.Rat // exclusiveMinimum, exclusiveMaximum
	multipleOf               *big.Rat
	minLength, maxLength     int
	pattern                  *regexp.Regexp
	format                   string // asserted only by drafts up to 7

	minItems, maxItems       int
	minContains, maxContains int
	unique                   bool
	prefix                   []*node // prefixItems, or items as a list
	items                    *node   // of the items after prefix
	contains                 *node
	unevaluatedItems         *node

	minProperties, maxProperties int
	required                     []string
	properties                   map[string]*node
	names                        []string // of properties, sorted
	patterns                     []patternNode
	additional                   *node
	propertyNames                *node
	dependents                   []dependent
	unevaluated                  *node

	ref                        *node
	allOf                      []*node
	anyOf                      []*node
	oneOf                      []*node
	not                        *node
	ifNode, thenNode, elseNode *node
}

// patternNode is the schema of the properties whose names match.
type patternNode struct {
	name *regexp.Regexp
	node *node
}

// dependent holds the requirements on an object that has a property.
type dependent struct {
	property string
	required []string
	node     *node
}

// resource is a schema document, or a part of one with its own $id.
type resource struct {
	uri      string // absolute, without a fragment
	draft    int    // 4, 6, 7, 2019 or 2020
	doc      any
	anchors  map[string]any
	dynamic  map[string]any // the anchors that a $dynamicRef may reach from elsewhere
	recurses bool           // $recursiveAnchor

	compiled map[string]*node // of dynamic; complete before the first check
	root     *node
}

// newNode makes the schema that everything fits.
func newNode(r *resource) *node {
	return &node{resource: r, minLength: -1, maxLength: -1, minItems: -1, maxItems: -1, minContains: -1, maxContains: -1,
		minProperties: -1, maxProperties: -1}
}
