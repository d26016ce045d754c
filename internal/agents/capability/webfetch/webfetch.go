// Package webfetch has the capability web_fetch: a tool that fetches a page as Markdown or
// text. It uses the network only through package network, under a permit. Start at [New].
package webfetch

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Bounds of a fetch.
const (
	DefaultFirstByte = time.Second      // until an answer starts, for each request of a chain of redirects
	DefaultBody      = 30 * time.Second // until the body is complete; then the part that arrived is given
	DefaultMaxBytes  = 5 << 20          // of a body
	mostBytes        = 20 << 20         // the largest MaxBytes of a configuration
)

// Options configures the capability. The zero Options has the defaults.
type Options struct {
	FirstByte, Body time.Duration
	// Secret finds the value of a policy.Secret.Key, for policies that add a secret to
	// requests; nil: there are none.
	Secret func(name string) (string, bool)
}

// Capability is the capability web_fetch.
type Capability struct{ opts Options }

// New makes the capability.
func New(o Options) Capability {
	if o.FirstByte <= 0 {
		o.FirstByte = DefaultFirstByte
	}
	if o.Body <= 0 {
		o.Body = DefaultBody
	}
	return Capability{o}
}

// config is the configuration of an agent.
type config struct {
	MaxBytes int64 `json:"max_bytes"`
}

var configSchema = typed.Object(`"max_bytes":{"type":"integer","minimum":1,"maximum":20971520,"description":"Most bytes of a page that are read; default 5242880. The policy's network.max_bytes bounds it too."}`)

// Info describes the capability.
func (Capability) Info() capability.Info {
	return capability.Info{ID: "web_fetch", Name: "Web Fetch", Description: "Fetch content from URLs and convert HTML responses to markdown or plain text.",
		Status: capability.Available, Icon: "globe", Category: "Network", Version: "1", Config: configSchema, Wants: []string{"network GET https://**", "network HEAD https://**"}}
}

var (
	input = typed.Object(`"url":{"type":"string","minLength":1,"maxLength":8192,"description":"The URL to fetch; it begins with http:// or https://."},
		"method":{"enum":["GET","HEAD"],"description":"HEAD asks for what is known of the page without its content; default GET."},
		"as_markdown":{"type":"boolean","description":"Convert an HTML page to Markdown."},
		"as_text":{"type":"boolean","description":"Convert an HTML page to plain text; as_markdown comes first."}`, "url")
	output = typed.Object(`"url":{"type":"string"},"final_url":{"type":"string"},"status_code":{"type":"integer"},"content_type":{"type":"string"},"size":{"type":"integer"},
		"last_modified":{"type":"string"},"filename":{"type":"string"},"format":{"enum":["markdown","text","raw"]},"content":{"type":"string"},
		"truncated":{"type":"boolean"},"error":{"type":"string"},"note":{"type":"string"}`, "url", "status_code", "content_type", "size", "format", "truncated")
)

type arguments struct {
	URL        string `json:"url"`
	Method     string `json:"method"`
	AsMarkdown bool   `json:"as_markdown"`
	AsText     bool   `json:"as_text"`
}

// Part offers web_fetch.
func (c Capability) Part(_ capability.Session, raw json.RawMessage) (capability.Part, error) {
	conf := config{MaxBytes: DefaultMaxBytes}
	if raw != nil {
		if err := json.Unmarshal(raw, &conf); err != nil {
			return capability.Part{}, fault.Wrap(fault.CapabilityInvalid, err, "the configuration cannot be read: %v", err)
		}
	}
	f := fetcher{opts: c.opts, most: min(conf.MaxBytes, mostBytes)}
	return capability.Part{Tools: []capability.Offer{capability.Own("web_fetch", typed.New(tool.Spec{
		ID: "web_fetch.web_fetch", Title: "Fetch a web page", Version: "1", Risk: tool.Medium, Effects: tool.EffectSet(tool.NetworkHTTP, tool.NetworkDNS),
		Description: "Fetches a URL and gives the answer's status, type and content. HTML can be converted with as_markdown (best for reading) or as_text. " +
			"An answer must begin within 1 second; a body that is not complete after 30 seconds is cut and says so. " +
			"Of binary content (images, PDF, archives) only what is known about it is given. A status of 400 or more is an answer, not a failure.",
		Input: input, Output: output,
	}, f.prepare))}}, nil
}

// Page is the text of a page.
type Page struct {
	URL, Final string // Final is where redirects led; "": nowhere else
	Status     int
	Content    string // "" where Problem says why
	Problem    string // why there is no whole text; "": there is
}

// Text prepares a fetch of a page as plain text, for a tool that does more with it in the
// same call.
func Text(o Options, url string) ([]tool.Action, func(context.Context, permit.Permit) (Page, error), error) {
	f, a := fetcher{opts: New(o).opts, most: DefaultMaxBytes}, arguments{URL: url, AsText: true}
	to, err := a.target()
	return []tool.Action{{Kind: tool.Network, Target: to}}, func(ctx context.Context, p permit.Permit) (Page, error) {
		out, err := f.fetch(ctx, p, a)
		if err != nil {
			return Page{}, err
		}
		page := Page{URL: url}
		page.Final, _ = out["final_url"].(string)
		page.Status, _ = out["status_code"].(int)
		page.Content, _ = out["content"].(string)
		if page.Problem, _ = out["error"].(string); page.Problem == "" && out["truncated"] == true {
			page.Problem = "the page is too large, or took too long"
		}
		return page, nil
	}, err
}

// prepare returns the request of a call. Redirects are decided when they come.
func (f fetcher) prepare(_ tool.Env, a arguments) (permit.Prepared, error) {
	to, err := a.target()
	if err != nil {
		return permit.Prepared{}, err
	}
	return permit.Prepared{
		Actions: []tool.Action{{Kind: tool.Network, Target: to}},
		Run: func(ctx context.Context, p permit.Permit) (tool.Result, error) {
			out, err := f.fetch(ctx, p, a)
			return tool.Result{Output: out}, err
		},
	}, nil
}

// target parses the URL.
func (a arguments) target() (tool.Target, error) {
	if low := strings.ToLower(a.URL); !strings.HasPrefix(low, "http://") && !strings.HasPrefix(low, "https://") {
		return tool.Target{}, fault.New(fault.ArgsInvalid, "%.200q does not start with http:// or https://", a.URL).In("url")
	}
	to, err := target.Parse(a.method(), a.URL)
	if err != nil {
		return to, fault.Wrap(fault.ArgsInvalid, err, "%s", fault.Message(err)).In("url")
	}
	return to, nil
}

func (a arguments) method() string {
	if a.Method == "" {
		return "GET"
	}
	return a.Method
}
