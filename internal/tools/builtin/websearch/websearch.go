// Package websearch holds the built-in tool web.search, which asks the search service that
// the settings name. It reaches the service only through package confine/network, under a
// permit. Start at [New].
package websearch

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"golang.org/x/net/html"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/network"
	"github.com/remitrun/remit/internal/tools/typed"
)

// ID is the tool's ID.
const ID tool.ID = "web.search"

// Bounds of a search.
const (
	maxResults = 20
	usual      = 10
	maxBytes   = 4 << 20 // of an answer
	maxText    = 2000    // of a result's text
	maxName    = 300     // of a result's title
	maxURL     = 2048
)

// The services whose answers are known.
const (
	SearXNG = "searxng"
	Brave   = "brave"
	Tavily  = "tavily"
)

// Usual is where a service is, if the settings do not say so; "": they must.
func Usual(kind string) string {
	return map[string]string{Brave: "https://api.search.brave.com/res/v1/web/search", Tavily: "https://api.tavily.com/search"}[kind]
}

// Options are the service.
type Options struct {
	Kind string // SearXNG, Brave or Tavily
	URL  string // of the service's search, without a query
	Key  string // by which the key is found; "": none is sent
	// Secret finds a value by its key.
	Secret func(key string) (string, bool)
}

type service struct{ o Options }

type arguments struct {
	Query string `json:"query"`
	Count int    `json:"count"`
}

// result is the shown part of one page that was found.
type result struct{ title, url, text, published string }

// New makes the tool.
func New(o Options) permit.Tool {
	return typed.New(tool.Spec{
		ID: ID, Title: "Search the web", Version: "1", Source: "builtin", Risk: tool.Medium, Effects: tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS),
		Description: "Searches the web with the service that the operator chose, and returns the pages that it found: their titles, URLs and a piece of their text.",
		Input: typed.Object(`"query": {"type": "string", "minLength": 1, "maxLength": 400, "description": "what to search for"},
			"count": {"type": "integer", "minimum": 1, "maximum": 20, "description": "the largest number of results; default 10"}`, "query"),
		Output: typed.Object(`"results": {"type": "array", "items": {"type": "object", "additionalProperties": false, "required": ["title", "url", "text"], "properties": {
				"title": {"type": "string"}, "url": {"type": "string"}, "text": {"type": "string"}, "published": {"type": "string"}}}},
			"service": {"type": "string", "description": "the host that was asked"}`, "results", "service"),
	}, service{o}.prepare)
}

// request is the request to the service.
func (s service) request(a arguments) (network.Request, error) {
	count := strconv.Itoa(cmp.Or(a.Count, usual))
	query := url.Values{"q": {a.Query}}
	r := network.Request{Method: http.MethodGet, Header: http.Header{"Accept": {"application/json"}}}
	switch s.o.Kind {
	case SearXNG:
		query.Set("format", "json")
	case Brave:
		query.Set("count", count)
	case Tavily:
		body, err := json.Marshal(map[string]any{"query": a.Query, "max_results": cmp.Or(a.Count, usual)})
		if err != nil {
			return r, fault.Wrap(fault.ArgsInvalid, err, "the query cannot be written as JSON").In("query")
		}
		r.Method, r.Body, r.URL = http.MethodPost, body, s.o.URL
		r.Header.Set("Content-Type", "application/json")
		return r, nil
	default:
		return r, fault.New(fault.ToolFailed, "the settings name no search service").WithHint("add search to config.yaml")
	}
	r.URL = s.o.URL + "?" + query.Encode()
	return r, nil
}

func (s service) prepare(_ tool.Env, a arguments) (permit.Prepared, error) {
	if strings.TrimSpace(a.Query) == "" {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "must not be empty").In("query")
	}
	if a.Count < 0 || a.Count > maxResults {
		return permit.Prepared{}, fault.New(fault.ArgsInvalid, "must be a whole number from 1 to %d", maxResults).In("count")
	}
	r, err := s.request(a)
	if err != nil {
		return permit.Prepared{}, err
	}
	to, err := target.Parse(r.Method, r.URL)
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Network, Target: to}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			list, err := s.search(ctx, p, r, to)
			if err != nil {
				return tool.Result{}, err
			}
			return tool.Result{Output: map[string]any{"results": shown(list, cmp.Or(a.Count, usual)), "service": to.Host}}, nil
		},
	}, nil
}

// search asks the service.
func (s service) search(ctx context.Context, p permit.Permit, r network.Request, to tool.Target) ([]result, error) {
	client := network.NewClient(p)
	client.Transport.Secret = s.o.Secret
	client.Transport.Sign = func(at tool.Target) ([]network.Credential, error) { return s.sign(at, to) }
	resp, err := client.Do(ctx, r)
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // the answer is read or given up; closing cannot change it
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBytes+1))
	switch {
	case err != nil:
		return nil, err
	case len(body) > maxBytes:
		return nil, fault.New(fault.LimitReached, "the answer of the search service is larger than %d bytes", maxBytes)
	case resp.StatusCode != http.StatusOK:
		return nil, fault.New(fault.ToolFailed, "the search service answered with status %d", resp.StatusCode).WithHint("%s", s.why(resp.StatusCode))
	}
	return s.read(body)
}

// why explains a status that services give.
func (s service) why(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "it limits how often it is asked; wait, or ask less"
	case status == http.StatusForbidden && s.o.Kind == SearXNG:
		return "the service must offer the format json: add it to search.formats of its settings.yml"
	case status == http.StatusUnauthorized || status == http.StatusForbidden || status == http.StatusUnprocessableEntity:
		return "check search.key in config.yaml"
	}
	return "check search.url in config.yaml"
}

// sign adds the key to requests to the service itself, not to where it redirects.
func (s service) sign(at, to tool.Target) ([]network.Credential, error) {
	if s.o.Key == "" || at.Scheme != to.Scheme || at.Host != to.Host || at.Port != to.Port {
		return nil, nil
	}
	key, ok := "", false
	if s.o.Secret != nil {
		key, ok = s.o.Secret(s.o.Key)
	}
	if key = strings.TrimSpace(key); !ok || key == "" {
		return nil, fault.New(fault.ToolFailed, "the key of the search service is not set").ForOperator("set search.key of config.yaml with remit secret set")
	}
	if s.o.Kind == Brave {
		return []network.Credential{{Header: "X-Subscription-Token", Value: key, Secret: key}}, nil
	}
	return []network.Credential{{Header: "Authorization", Value: "Bearer " + key, Secret: key}}, nil
}

// read reads an answer. Malformed parts are left out; one without a list of results is not an
// answer.
func (s service) read(body []byte) ([]result, error) {
	type found struct {
		Title         string `json:"title"`
		URL           string `json:"url"`
		Content       string `json:"content"`        // SearXNG, Tavily
		Description   string `json:"description"`    // Brave
		PublishedDate string `json:"publishedDate"`  // SearXNG
		Published     string `json:"published_date"` // Tavily
		PageAge       string `json:"page_age"`       // Brave
	}
	var answer struct {
		Results *[]json.RawMessage `json:"results"`
		Type    string             `json:"type"`
		Web     *struct {
			Results []json.RawMessage `json:"results"`
		} `json:"web"`
	}
	if err := json.NewDecoder(bytes.NewReader(body)).Decode(&answer); err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "the search service's answer is not JSON").WithHint("check search.kind and search.url in config.yaml")
	}
	var list []json.RawMessage
	switch {
	case s.o.Kind == Brave && answer.Web != nil:
		list = answer.Web.Results
	case s.o.Kind == Brave && answer.Type == "search": // nothing was found
	case s.o.Kind != Brave && answer.Results != nil:
		list = *answer.Results
	default:
		return nil, fault.New(fault.ToolFailed, "the search service's answer has no results").WithHint("check search.kind and search.url in config.yaml")
	}
	var out []result
	for _, raw := range list {
		var f found
		if json.Unmarshal(raw, &f) != nil || len(f.URL) > maxURL {
			continue
		}
		u, err := url.Parse(f.URL)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			continue
		}
		out = append(out, result{text(f.Title, maxName), u.String(), text(cmp.Or(f.Content, f.Description), maxText), text(cmp.Or(f.PublishedDate, f.Published, f.PageAge), 60)})
	}
	return out, nil
}

// text is a service's text without marks of HTML and without what cannot be seen.
func text(s string, most int) string {
	var b strings.Builder
	z := html.NewTokenizer(strings.NewReader(s))
	for z.Next() != html.ErrorToken {
		if t := z.Token(); t.Type == html.TextToken {
			b.WriteString(t.Data)
		}
	}
	return clip.Text(strings.Join(strings.Fields(inspect.Clean(b.String())), " "), most)
}

// shown is the list of results, each URL once.
func shown(list []result, most int) []any {
	out, seen := []any{}, map[string]bool{}
	for _, r := range list {
		if seen[r.url] || len(out) == most {
			continue
		}
		seen[r.url] = true
		one := map[string]any{"title": r.title, "url": r.url, "text": r.text}
		if r.published != "" {
			one["published"] = r.published
		}
		out = append(out, one)
	}
	return out
}
