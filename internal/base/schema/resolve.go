package schema

import (
	"fmt"
	"net/url"
	"strconv"
	"strings"
)

// rootURI is the base of documents without an $id.
const rootURI = "json-schema:///"

// drafts are the known values of $schema, without a fragment.
var drafts = map[string]int{
	"http://json-schema.org/draft-04/schema":       4,
	"http://json-schema.org/draft-06/schema":       6,
	"http://json-schema.org/draft-07/schema":       7,
	"https://json-schema.org/draft/2019-09/schema": 2019,
	"https://json-schema.org/draft/2020-12/schema": 2020,
	"http://json-schema.org/schema":                2020,
}

// index finds the resources and anchors in a schema v of resource r. begins says that
// r begins with v.
func (c *compiler) index(v any, r *resource, begins bool) error {
	m, ok := v.(map[string]any)
	if !ok {
		if begins {
			c.resources[r.uri] = r
		}
		return nil
	}
	if c.owner[identity(m)] != nil {
		return nil
	}
	r, err := c.enter(m, r, begins)
	if err != nil {
		return err
	}
	c.owner[identity(m)] = r
	if err := c.anchors(m, r); err != nil {
		return err
	}
	for key, below := range m {
		switch key {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			named, _ := below.(map[string]any)
			for _, one := range named {
				if err := c.index(one, r, false); err != nil {
					return err
				}
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items", "additionalItems", "unevaluatedItems", "contains", "additionalProperties",
			"unevaluatedProperties", "propertyNames", "not", "if", "then", "else", "contentSchema":
			list, isList := below.([]any)
			if !isList {
				list = []any{below}
			}
			for _, one := range list {
				if err := c.index(one, r, false); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// enter gives the resource of a schema: a new one if it has an $id.
func (c *compiler) enter(m map[string]any, r *resource, begins bool) (*resource, error) {
	draft := r.draft
	if text, ok := m["$schema"].(string); ok {
		if draft = c.draftOf(text); draft == 0 {
			return nil, fmt.Errorf("$schema: %.200q is not a known draft", text)
		}
	} else if m["$schema"] != nil {
		return nil, fmt.Errorf("$schema: expected a string")
	}
	key := "$id"
	if draft == 4 {
		key = "id"
	}
	id, _ := m[key].(string)
	if m[key] != nil && id == "" && typeOf(m[key]) != "string" {
		return nil, fmt.Errorf("%s: expected a string", key)
	}
	if draft <= 7 && (m["$ref"] != nil || strings.HasPrefix(id, "#")) {
		id = ""
	}
	uri, fragment, err := join(r.uri, id)
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s: %w", key, err)
	case fragment != "" && draft > 7:
		return nil, fmt.Errorf("%s: %q has a fragment", key, id)
	}
	if id == "" && begins {
		r.draft = draft
	} else if id != "" {
		r = &resource{uri: uri, draft: draft, doc: m}
	}
	if id != "" || begins {
		if c.resources[r.uri] != nil {
			return nil, fmt.Errorf("%s: %q is there twice", key, r.uri)
		}
		c.resources[r.uri] = r
		r.anchors, r.dynamic = map[string]any{}, map[string]any{}
		r.recurses = draft == 2019 && m["$recursiveAnchor"] == true
	}
	return r, nil
}

// anchors notes the names that a schema has.
func (c *compiler) anchors(m map[string]any, r *resource) error {
	var names []string
	key := "$id"
	if r.draft == 4 {
		key = "id"
	}
	if id, _ := m[key].(string); r.draft <= 7 && m["$ref"] == nil {
		if _, name, ok := strings.Cut(id, "#"); ok && name != "" {
			names = append(names, name)
		}
	}
	if name, _ := m["$anchor"].(string); r.draft > 7 && name != "" {
		names = append(names, name)
	}
	if name, _ := m["$dynamicAnchor"].(string); r.draft >= 2020 && name != "" {
		names = append(names, name)
		r.dynamic[name] = m
	}
	for _, name := range names {
		if other, twice := r.anchors[name].(map[string]any); twice && identity(other) != identity(m) {
			return fmt.Errorf("the anchor %q is there twice", name)
		}
		r.anchors[name] = m
	}
	return nil
}

// join resolves a reference. An opaque base, as urn:example:x, has no relative ones but
// fragments.
func join(base, ref string) (uri, fragment string, err error) {
	u, err := url.Parse(ref)
	if err != nil {
		return "", "", err
	}
	fragment = u.Fragment
	u.Fragment, u.RawFragment = "", ""
	if u.String() == "" {
		return base, fragment, nil
	}
	b, err := url.Parse(base)
	if err != nil {
		return "", "", err
	}
	return b.ResolveReference(u).String(), fragment, nil
}

// resolve finds the schema that a reference in r names. dynamic is the anchor's name if the
// dynamic scope can have another one in its place.
func (c *compiler) resolve(r *resource, ref string, isDynamic bool) (to *node, dynamic string, err error) {
	uri, fragment, err := join(r.uri, ref)
	if err != nil {
		return nil, "", err
	}
	target := c.resources[uri]
	if target == nil {
		return nil, "", fmt.Errorf("%q: %w", ref, errOtherDocument)
	}
	at, owner := target.doc, target
	if strings.HasPrefix(fragment, "/") {
		if at, owner, err = c.pointer(target, fragment); err != nil {
			return nil, "", fmt.Errorf("%q: %w", ref, err)
		}
	} else if fragment != "" {
		anchor, ok := target.anchors[fragment]
		if !ok {
			return nil, "", fmt.Errorf("%q: the schema has no such anchor", ref)
		}
		at = anchor
		if _, ok := target.dynamic[fragment]; ok && isDynamic {
			dynamic = fragment
		}
	}
	n, err := c.schema(at, c.ownerOf(at, owner))
	return n, dynamic, err
}

// pointer follows a JSON pointer from the root of a resource.
func (c *compiler) pointer(r *resource, pointer string) (any, *resource, error) {
	at := r.doc
	for _, part := range strings.Split(pointer, "/")[1:] {
		part = strings.NewReplacer("~1", "/", "~0", "~").Replace(part)
		switch below := at.(type) {
		case map[string]any:
			next, ok := below[part]
			if !ok {
				return nil, nil, fmt.Errorf("there is no %q", pointer)
			}
			at = next
		case []any:
			i, err := strconv.Atoi(part)
			if err != nil || i < 0 || i >= len(below) {
				return nil, nil, fmt.Errorf("there is no %q", pointer)
			}
			at = below[i]
		default:
			return nil, nil, fmt.Errorf("there is no %q", pointer)
		}
		r = c.ownerOf(at, r)
	}
	return at, r, nil
}
