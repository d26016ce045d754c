package openapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"path"
	"reflect"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Names by which services tell of the next page, and the parameters that take it: as of fold.
var (
	pageLinks   = []string{"next", "nexturl", "nextlink", "nextpage", "nextpageurl", "odatanextlink"}
	pageTokens  = []string{"nextcursor", "nextpagetoken", "nexttoken", "nextpage", "continuationtoken", "endcursor"}
	pageParams  = []string{"cursor", "nextcursor", "pagecursor", "pagetoken", "nextpagetoken", "nexttoken", "continuationtoken", "after", "marker"}
	pageNumbers = []string{"page", "pagenumber"}
	// Objects of an answer in which they are looked for, besides the answer itself.
	pageHolders = []string{"links", "meta", "metadata", "responsemetadata", "pagination", "paging", "pageinfo", "cursor", "cursors"}
)

const maxPageToken = 4096 // bytes of what tells of a next page

// fold is a field's name without what services write differently.
func fold(name string) string {
	return strings.ToLower(strings.NewReplacer("_", "", "-", "", "@", "", ".", "").Replace(name))
}

// next returns the arguments of the call that gets the next page, as the answer tells it: in its
// Link header (RFC 8288), or in a field of its body with a URL or a token. It returns nil if there
// is no such page, or if no arguments of this operation make the request that the answer names. A
// URL of the answer is never followed: it counts if these arguments make a request with just that
// query. Its path may have other names of the same thing, as GitHub's links have, but must end
// alike.
func (t *Tool) next(args tool.Args, r request, a *answer, body any) map[string]any {
	if r.method != http.MethodGet || a.status < 200 || a.status > 299 {
		return nil
	}
	for _, link := range nextLinks(a.header) {
		if out := t.nextByURL(args, r, link); out != nil {
			return out
		}
	}
	top, ok := body.(map[string]any)
	if !ok {
		return nil
	}
	holders := []map[string]any{top}
	for _, name := range slices.Sorted(maps.Keys(top)) {
		if m, ok := top[name].(map[string]any); ok && slices.Contains(pageHolders, fold(name)) {
			holders = append(holders, m)
		}
	}
	for _, m := range holders {
		if out := t.nextByFields(args, r, m); out != nil {
			return out
		}
	}
	return nil
}

// nextByFields looks for the next page in the fields of an object.
func (t *Tool) nextByFields(args tool.Args, r request, m map[string]any) map[string]any {
	names := slices.Sorted(maps.Keys(m))
	for _, name := range names {
		if folded := fold(name); (folded == "hasmore" || folded == "hasnextpage") && m[name] == false {
			return nil
		}
	}
	for _, name := range names {
		v := m[name]
		if o, ok := v.(map[string]any); ok {
			v = o["href"]
		}
		if link, ok := v.(string); ok && slices.Contains(pageLinks, fold(name)) {
			if out := t.nextByURL(args, r, link); out != nil {
				return out
			}
		}
	}
	for _, name := range names {
		if !slices.Contains(pageTokens, fold(name)) {
			continue
		}
		params := pageParams
		if _, number := m[name].(json.Number); number {
			params = append(slices.Clip(pageNumbers), params...)
		}
		value := text(m[name])
		if value == "" || len(value) > maxPageToken {
			continue
		}
		for _, want := range params {
			for i := range t.op.Params {
				if p := &t.op.Params[i]; p.In == "query" && fold(p.Name) == want {
					return t.withArgs(args, map[string]string{p.Arg: value})
				}
			}
		}
	}
	return nil
}

// The forms of one link of a Link header, and of the relation among its parameters.
var (
	linkForm = regex.Lazy(`<([^<>]*)>((?:\s*;\s*[A-Za-z*-]+\s*=\s*(?:"[^"]*"|[^\s;,"]*))*)`)
	relNext  = regex.Lazy(`(?i);\s*rel\s*=\s*(?:"(?:[^"]*\s)?next(?:\s[^"]*)?"|next(?:[\s;]|$))`)
)

// nextLinks are the targets of a Link header's links of the relation "next".
func nextLinks(h http.Header) []string {
	var out []string
	for _, m := range linkForm.FindAllStringSubmatch(strings.Join(h.Values("Link"), ", "), 100) {
		if relNext.MatchString(m[2]) {
			out = append(out, m[1])
		}
	}
	return out
}

// nextByURL returns arguments of which the operation makes a request with a link's query.
func (t *Tool) nextByURL(args tool.Args, r request, link string) map[string]any {
	if link == "" || len(link) > maxPageToken {
		return nil
	}
	now, err := url.Parse(r.url)
	if err != nil {
		return nil
	}
	to, err := now.Parse(link)
	if err != nil || path.Base(to.Path) != path.Base(now.Path) {
		return nil
	}
	query := t.pageQuery(to)
	change := map[string]string{}
	for i := range t.op.Params {
		p := &t.op.Params[i]
		if v := query[p.Name]; p.In == "query" && len(v) == 1 && !slices.Equal(v, t.pageQuery(now)[p.Name]) {
			change[p.Arg] = v[0]
		}
	}
	out := t.withArgs(args, change)
	if out == nil {
		return nil
	}
	again, err := t.op.build(t.base(), out)
	if err != nil {
		return nil
	}
	made, err := url.Parse(again.url)
	if err != nil || !reflect.DeepEqual(t.pageQuery(made), query) {
		return nil
	}
	return out
}

// pageQuery is a URL's query, without credentials that the service wrote into its link.
func (t *Tool) pageQuery(u *url.URL) url.Values {
	q := u.Query()
	for _, a := range t.s.conf.Auth {
		if a.Kind == Query {
			q.Del(a.Name)
		}
	}
	return q
}

// withArgs returns the arguments with some others, which are text as of a query; nil if nothing
// changes.
func (t *Tool) withArgs(args tool.Args, change map[string]string) map[string]any {
	var schema struct {
		Properties map[string]struct {
			Type any `json:"type"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(t.op.Input, &schema); err != nil || len(change) == 0 {
		return nil
	}
	out := maps.Clone(map[string]any(args))
	if out == nil {
		out = map[string]any{}
	}
	changed := false
	for arg, v := range change {
		changed = changed || text(out[arg]) != v
		out[arg] = typed(schema.Properties[arg].Type, v)
	}
	if !changed {
		return nil
	}
	return out
}

// typed is a parameter's text as a value of the schema's type.
func typed(kind any, v string) any {
	switch kind {
	case "integer", "number":
		var n json.Number
		if json.Unmarshal([]byte(v), &n) == nil {
			return n
		}
	case "boolean":
		if v == "true" || v == "false" {
			return v == "true"
		}
	}
	return v
}
