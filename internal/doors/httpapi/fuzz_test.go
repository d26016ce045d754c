package httpapi_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"sort"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
)

// TestNoRequestBreaksTheService makes requests from the published document: right
// ones, and ones with each part made wrong. None is answered with an error of the
// service, each error is a problem, and what is accepted is what the document says.
// REMIT_SOAK=1 makes more of them.
func TestNoRequestBreaksTheService(t *testing.T) {
	rounds := 40
	if os.Getenv("REMIT_SOAK") != "" {
		rounds = 4000
	}
	doc := document(t)
	w := newWorld()
	s := server(t, w)
	agentID, sessionID := agentAndSession(t, s, "admin")
	var paths []string
	for p := range doc.Paths.Map() {
		paths = append(paths, p)
	}
	sort.Strings(paths)
	for _, path := range paths {
		for method, op := range doc.Paths.Value(path).Operations() {
			if strings.HasSuffix(path, "/events") {
				continue // it answers until it is left
			}
			r := rand.New(rand.NewPCG(6, uint64(len(path)*1000+len(method))))
			for i := range rounds {
				a := made(r, method, path, op, agentID, sessionID)
				ctx, leave := context.WithCancel(t.Context())
				if strings.Contains(a.path, "wait=") {
					leave() // it would wait for minutes
				}
				rec := a.ofContext(ctx, s)
				leave()
				if rec.Code >= 500 && !(path == "/readyz") {
					t.Fatalf("%s %s, round %d: %d\nbody %.500q\nheader %v\n%s", method, a.path, i, rec.Code, a.body, a.header, rec.Body)
				}
				if rec.Code >= 400 {
					checkProblem(t, rec)
				}
				if rec.Code < 400 && op.Responses.Value(fmt.Sprint(rec.Code)) == nil {
					t.Fatalf("%s %s: %d is not in the document", method, a.path, rec.Code)
				}
				if strings.Contains(rec.Body.String(), "goroutine ") || strings.Contains(rec.Body.String(), "Go struct") {
					t.Fatalf("%s %s tells of the inside: %s", method, a.path, rec.Body)
				}
			}
		}
	}
}

// nasty are texts that break what is written carelessly.
var nasty = []string{"", " ", "\x00", "..", "../../etc/passwd", "%", "%2e%2e%2f", "'", "\"", "\\", "{}", "[]", "null", "-1", "1e999", "999999999999999999999", "\u202e", "é", "ÿ",
	"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b4", "019A1FE7-0B1C-7A52-9E55-7E0F3A1C2B44", "00000000-0000-0000-0000-000000000000", "{019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44}", "urn:uuid:019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44",
	strings.Repeat("a", 5000), "\r\nX-Evil: 1", "<script>", "${jndi:ldap://x}", "v1", `"v1"`, `W/"v1"`, "*", "2026-13-40T99:99:99Z", "true", "0x10", "١٢"}

func pick(r *rand.Rand) string { return nasty[r.IntN(len(nasty))] }

// made is a request for an operation, some of whose parts are wrong.
func made(r *rand.Rand, method, path string, op *openapi3.Operation, agentID, sessionID string) ask {
	a := ask{method: method, token: "admin", header: map[string]string{}}
	p := sample(path, agentID, sessionID)
	if r.IntN(3) == 0 {
		for strings.Contains(path, "{") {
			i, j := strings.IndexByte(path, '{'), strings.IndexByte(path, '}')
			path = path[:i] + "\x01" + path[j+1:]
		}
		for strings.Contains(path, "\x01") {
			path = strings.Replace(path, "\x01", url.PathEscape(pick(r)), 1)
		}
		p = path
	}
	query := url.Values{}
	for _, ref := range op.Parameters {
		if v := ref.Value; r.IntN(2) == 0 {
			text := pick(r)
			if r.IntN(2) == 0 {
				text = fmt.Sprint(value(r, v.Schema.Value, 0))
			}
			switch v.In {
			case "query":
				query.Add(v.Name, text)
			case "header":
				a.header[v.Name] = strings.Map(func(c rune) rune {
					if c < ' ' || c > '~' {
						return -1
					}
					return c
				}, text)
			}
		}
	}
	if r.IntN(8) == 0 {
		query.Add(pick(r), pick(r))
	}
	a.path = p
	if len(query) > 0 {
		a.path += "?" + query.Encode()
	}
	if op.RequestBody != nil || r.IntN(10) == 0 {
		a.body = body(r, op)
	}
	if r.IntN(6) == 0 {
		a.header["Content-Type"] = []string{"text/plain", "application/json; charset=utf-8", "application/xml", ";", "application/problem+json", "+;", "multipart/form-data"}[r.IntN(7)]
	}
	if r.IntN(6) == 0 {
		a.header["Accept"] = []string{"text/event-stream", "application/json", "text/html;q=x", "*/*", "application/problem+json"}[r.IntN(5)]
	}
	if method == http.MethodPost && r.IntN(6) == 0 && a.header["Accept"] == "" {
		a.header["Idempotency-Key"] = fmt.Sprint(r.IntN(20))
	}
	return a
}

func body(r *rand.Rand, op *openapi3.Operation) string {
	if r.IntN(8) == 0 {
		return []string{"", "{", "[]", "null", "0", `"x"`, "{}{}", `{"a":1,"a":2}`, "\xff", strings.Repeat("[", 300), strings.Repeat(`{"a":`, 300), "1e400", `{"content":"\ud800"}`}[r.IntN(13)]
	}
	if op.RequestBody == nil || op.RequestBody.Value.Content["application/json"] == nil {
		return pick(r)
	}
	b, err := json.Marshal(value(r, op.RequestBody.Value.Content["application/json"].Schema.Value, 0))
	if err != nil {
		return "{}"
	}
	return string(b)
}

// value is one of a schema, or one that is wrong somewhere.
func value(r *rand.Rand, s *openapi3.Schema, depth int) any {
	if s == nil || depth > 4 || r.IntN(12) == 0 {
		return []any{nil, true, -1, 1.5, 1e300, pick(r), []any{}, []any{pick(r), nil}, map[string]any{}, map[string]any{pick(r): pick(r)}}[r.IntN(10)]
	}
	if len(s.OneOf) > 0 {
		return value(r, s.OneOf[r.IntN(len(s.OneOf))].Value, depth+1)
	}
	if len(s.Enum) > 0 && r.IntN(3) > 0 {
		return s.Enum[r.IntN(len(s.Enum))]
	}
	switch {
	case s.Type.Includes("object"):
		m := map[string]any{}
		var names []string
		for n := range s.Properties {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			if r.IntN(3) > 0 {
				m[n] = value(r, s.Properties[n].Value, depth+1)
			}
		}
		if r.IntN(10) == 0 {
			m[pick(r)] = pick(r)
		}
		return m
	case s.Type.Includes("array"):
		list := []any{}
		for range r.IntN(4) {
			list = append(list, value(r, s.Items.Value, depth+1))
		}
		return list
	case s.Type.Includes("integer"), s.Type.Includes("number"):
		return []any{0, 1, 7, 500, -1, 1 << 40, 2.5}[r.IntN(7)]
	case s.Type.Includes("boolean"):
		return r.IntN(2) == 0
	case s.Type.Includes("string"):
		if r.IntN(2) == 0 {
			return []string{"a", "hello", "version: 1\n", someID, "2026-11-21T12:00:00Z", "current_time", "time.now"}[r.IntN(7)]
		}
		return pick(r)
	}
	return pick(r)
}
