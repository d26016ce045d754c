package openapi_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/tools/source/openapi"
)

const pagedPaths = `{
	"/repos/{owner}/issues": {"get": {"operationId": "issues", "parameters": [
		{"name": "owner", "in": "path", "required": true, "schema": {"type": "string"}},
		{"name": "page", "in": "query", "schema": {"type": "integer"}},
		{"name": "labels", "in": "query", "schema": {"type": "array", "items": {"type": "string"}}},
		{"name": "open", "in": "query", "schema": {"type": "boolean"}}]}},
	"/files": {"get": {"operationId": "files", "parameters": [
		{"name": "pageToken", "in": "query", "schema": {"type": "string"}},
		{"name": "q", "in": "query", "schema": {"type": "string"}}]},
		"post": {"operationId": "upload", "parameters": [{"name": "pageToken", "in": "query", "schema": {"type": "string"}}]}}
}`

// The arguments of the next page are those whose request the server's answer names.
func TestTheNextPageIsACallAway(t *testing.T) {
	tests := map[string]struct {
		tool, args string
		link, body string
		want       string // "": there is none
	}{
		"a link": {"issues", `{"owner": "ann", "labels": ["a", "b"]}`, `<https://elsewhere.example/repositories/17/issues?labels=a&labels=b&page=2>; rel="next", <x?page=9>; rel="last"`, `[]`,
			`{"labels":["a","b"],"owner":"ann","page":2}`},
		"relative, with several relations": {"issues", `{"owner": "ann", "page": 2}`, `<?page=3&open=true>; title="a, b"; rel="prev next"`, `[]`, `{"open":true,"owner":"ann","page":3}`},
		"rel without quotes":               {"issues", `{"owner": "ann"}`, `<?page=2>; rel=next`, `[]`, `{"owner":"ann","page":2}`},
		"with the credential":              {"issues", `{"owner": "ann"}`, `<?page=2&api_key=x>; rel=next`, `[]`, `{"owner":"ann","page":2}`},
		"another relation":                 {"issues", `{"owner": "ann"}`, `<?page=2>; rel="nextra"`, `[]`, ""},
		"a parameter that nobody declared": {"issues", `{"owner": "ann"}`, `<?page=2&secret_mode=1>; rel="next"`, `[]`, ""},
		"another resource":                 {"issues", `{"owner": "ann"}`, `</v1/repos/ann/keys?page=2>; rel="next"`, `[]`, ""},
		"the page that it is":              {"issues", `{"owner": "ann", "page": 2}`, `<?page=2>; rel="next"`, `[]`, ""},
		"a link in the body":               {"issues", `{"owner": "ann"}`, "", `{"next": "/v1/repos/ann/issues?page=2"}`, `{"owner":"ann","page":2}`},
		"a link of links":                  {"issues", `{"owner": "ann"}`, "", `{"_links": {"next": {"href": "?page=2"}}}`, `{"owner":"ann","page":2}`},
		"OData":                            {"files", `{"q": "x"}`, "", `{"@odata.nextLink": "?q=x&pageToken=t"}`, `{"pageToken":"t","q":"x"}`},
		"a number":                         {"issues", `{"owner": "ann"}`, "", `{"meta": {"next_page": 2}}`, `{"owner":"ann","page":2}`},
		"a token":                          {"files", `{"q": "x"}`, "", `{"files": [], "nextPageToken": "~!!~/="}`, `{"pageToken":"~!!~/=","q":"x"}`},
		"a token of the holder":            {"files", `{}`, "", `{"response_metadata": {"next_cursor": "t"}}`, `{"pageToken":"t"}`},
		"no token":                         {"files", `{}`, "", `{"nextPageToken": ""}`, ""},
		"no more":                          {"files", `{}`, "", `{"has_more": false, "nextPageToken": "t"}`, ""},
		"a token elsewhere":                {"files", `{}`, "", `{"files": {"nextPageToken": "t"}}`, ""},
		"too long":                         {"files", `{}`, "", `{"nextPageToken": "` + strings.Repeat("x", 5000) + `"}`, ""},
		"what is no link":                  {"issues", `{"owner": "ann"}`, "", `{"next": {"href": ["?page=2"]}, "next_page": null}`, ""},
		"an answer to a change":            {"upload", `{}`, "", `{"nextPageToken": "t"}`, ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t, pagedPaths, []openapi.Auth{{Kind: openapi.Query, Name: "api_key", Secret: "key"}}, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if tc.link != "" {
					w.Header().Set("Link", tc.link)
				}
				_, _ = io.WriteString(w, tc.body)
			})
			out, err := a.call(tc.tool, tc.args, mayAll)
			if err != nil {
				t.Fatal(err)
			}
			got := ""
			if out["next"] != nil {
				b, err := json.Marshal(out["next"])
				if err != nil {
					t.Fatal(err)
				}
				got = string(b)
			}
			if got != tc.want {
				t.Errorf("got %s, want %s", got, tc.want)
			}
			if got == "" {
				return
			}
			if _, err := a.call(tc.tool, got, mayAll); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}
