package httpapi

import (
	"cmp"
	"encoding/json"
	"net/http"
	"reflect"
	"strconv"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/remitrun/remit/internal/base/fault"
)

// description gives the text, with the required action.
func (o *operation) description() string {
	text := o.text
	switch {
	case o.open:
		text += "\n\nNeeds no grant."
	case o.action == "":
		text += "\n\nNeeds a grant, with any permissions."
	default:
		text += "\n\nNeeds `api: {allow: [" + o.action + "]}` in the policies of the caller's grant."
	}
	return strings.TrimSpace(text)
}

// refusals gives the statuses of the operation's errors.
func (o *operation) refusals() []int {
	list := []int{400, 403, 500, 503}
	if !o.open {
		list = append(list, 401, 422, 429)
	}
	if o.method == http.MethodPost || o.method == http.MethodPut || o.method == http.MethodPatch {
		list = append(list, 408, 413, 415)
	}
	return append(list, o.errors...)
}

func (s *Server) reply(r reply) *huma.Response {
	kind := cmp.Or(r.kind, "application/json")
	schema := &huma.Schema{Type: huma.TypeString}
	if r.body != nil {
		t := reflect.TypeOf(r.body)
		schema = s.api.OpenAPI().Components.Schemas.Schema(t, true, t.Name())
	}
	return &huma.Response{Description: r.text, Content: map[string]*huma.MediaType{kind: {Schema: schema}}}
}

// illustrate adds the examples to the document.
func (s *Server) illustrate(op *operation) {
	item := s.api.OpenAPI().Paths[op.path]
	o := map[string]*huma.Operation{"GET": item.Get, "POST": item.Post, "PUT": item.Put, "PATCH": item.Patch, "DELETE": item.Delete}[op.method]
	if op.raw > 0 && o.RequestBody != nil {
		o.RequestBody.Required = false // a file can be empty
	}
	if op.request != nil && o.RequestBody != nil && o.RequestBody.Content["application/json"] != nil {
		o.RequestBody.Content["application/json"].Example = op.request
	}
	for code, r := range o.Responses {
		if m := r.Content["application/json"]; m != nil && op.answer != nil && strings.HasPrefix(code, "2") && m.Example == nil {
			m.Example = op.answer
		}
		if m := r.Content[problemType]; m != nil {
			status, _ := strconv.Atoi(code) // it is a number
			m.Example = exampleProblem(status)
		}
	}
	if op.method == http.MethodPost && !op.stream {
		o.Parameters = append(o.Parameters, &huma.Param{
			Name: "Idempotency-Key", In: "header", Schema: &huma.Schema{Type: huma.TypeString},
			Description: "Makes it safe to repeat the request: the same key with the same body is answered as the first time.",
		})
	}
}

func exampleProblem(status int) any {
	code, ok := map[int]fault.Code{
		400: fault.Usage, 401: fault.GrantInvalid, 403: fault.Denied, 404: fault.SessionUnknown, 409: fault.SessionBusy, 412: fault.Stale,
		422: fault.ArgsInvalid, 429: fault.LimitReached, 500: fault.Internal, 502: fault.ModelFailed, 503: fault.StoreFailed, 507: fault.FilesFull,
	}[status]
	if !ok {
		code = fault.Usage
	}
	return map[string]any{
		"type": "urn:remit:" + code.Error(), "title": http.StatusText(status), "status": status, "code": code.Error(),
		"detail": "the fault in this request", "instance": "urn:remit:request:5J2WQ0ZK",
	}
}

// describe makes the head of the OpenAPI document.
func (s *Server) describe() huma.API {
	doc := &huma.OpenAPI{
		OpenAPI: "3.1.0",
		Info: &huma.Info{
			Title: "Remit", Version: cmp.Or(s.o.Version, "dev"),
			Description: "Agents that stay within their remit: every call of a model or a tool is decided by policy, recorded before it acts, and confined while it does. " +
				"Every request presents a grant; the section `api` of the grant's policies lists its operations.",
			License: &huma.License{Name: "Apache-2.0", Identifier: "Apache-2.0"},
		},
		Components: &huma.Components{Schemas: schemas(), SecuritySchemes: map[string]*huma.SecurityScheme{
			"grant": {Type: "http", Scheme: "bearer", BearerFormat: "Remit grant", Description: "A grant token, as remit serve shows at its first start, or as remit grant issue makes one. A grant that is bound to a key is sent as Authorization: DPoP TOKEN, with a proof of RFC 9449 in the header DPoP."},
		}},
		Tags: []*huma.Tag{
			{Name: "capabilities", Description: "Modules that agents are made of"}, {Name: "agents"}, {Name: "sessions", Description: "Conversations with agents"},
			{Name: "files", Description: "A session's own files"}, {Name: "tools"}, {Name: "runs", Description: "Plans and calls, and their record"}, {Name: "grants", Description: "Tokens with permissions and budgets"},
			{Name: "approvals", Description: "Questions to people"}, {Name: "labels", Description: "Labels of files"}, {Name: "audit"}, {Name: "policies"}, {Name: "service"},
		},
	}
	return huma.NewAPI(huma.Config{
		OpenAPI: doc, Formats: map[string]huma.Format{"application/json": jsonFormat(), problemType: jsonFormat()}, DefaultFormat: "application/json",
		Transformers: []huma.Transformer{s.toProblem},
	}, router{s})
}

// document returns a function that writes the complete OpenAPI document when it is first
// asked for it.
func (s *Server) document() func() ([]byte, error) {
	doc := s.api.OpenAPI()
	delete(doc.Components.Schemas.Map(), "ErrorModel") // huma's own, which no response has
	delete(doc.Components.Schemas.Map(), "ErrorDetail")
	return sync.OnceValues(func() ([]byte, error) { return json.MarshalIndent(doc, "", "  ") })
}
