package gateway

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
)

// Offer is what an MCP server offers besides tools, as it describes it. It is not
// changed here.
type Offer struct {
	Server    string
	Resources []*mcp.Resource
	Templates []*mcp.ResourceTemplate
	Prompts   []*mcp.Prompt
}

// origin is where something that a client is shown comes from: the server, and
// what that calls it.
type origin struct{ server, name string }

// shelf is what a client is shown of one kind: by the name that it knows, where it
// comes from and how it was described.
type shelf map[string]shown

type shown struct {
	origin
	text string
}

// shelves are all of them.
type shelves struct{ resources, templates, prompts shelf }

func newShelves() shelves { return shelves{shelf{}, shelf{}, shelf{}} }

// shownURI is the URI by which clients know a server's resource: that of the server
// itself if it is served alone, else with the server's name before it, since two
// servers may have the same.
func (c *conn) shownURI(server, uri string) string {
	if c.gateway.opts.Server != "" {
		return uri
	}
	return "mcp:" + server + ":" + uri
}

// resourceOf is where a resource comes from, read back from its URI.
func (c *conn) resourceOf(uri string) (origin, bool) {
	if only := c.gateway.opts.Server; only != "" {
		return origin{only, uri}, true
	}
	rest, ok := strings.CutPrefix(uri, "mcp:")
	server, name, two := strings.Cut(rest, ":")
	return origin{server, name}, ok && two && server != "" && name != ""
}

// shownPrompt is the name by which clients know a server's prompt.
func (c *conn) shownPrompt(server, name string) string {
	if c.gateway.opts.Server != "" {
		return name
	}
	return NameOf(tool.ID("mcp:" + server + ":" + name))
}

// promptOf is where a prompt comes from, and whether the client is shown it.
func (c *conn) promptOf(name string) (origin, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.prompts[name]
	if !ok && c.gateway.opts.Server != "" {
		return origin{c.gateway.opts.Server, name}, false
	}
	return p.origin, ok
}

// offer shows the client the resources and prompts of which the grant could allow
// the reading. c.mu is held.
func (c *conn) offer(chain policy.Chain, can map[tool.ID]*tool.Spec) {
	if c.gateway.opts.Offers == nil {
		return
	}
	now := newShelves()
	for _, o := range c.gateway.opts.Offers() {
		if only := c.gateway.opts.Server; only != "" && o.Server != only {
			continue
		}
		if spec := can[tool.ID("mcp:"+o.Server+":"+tool.ReadResource)]; spec != nil {
			c.offerResources(now, o, chain, spec)
		}
		spec := can[tool.ID("mcp:"+o.Server+":"+tool.GetPrompt)]
		for _, p := range o.Prompts {
			if spec == nil || chain.DecideTool(spec, anyArguments(p), nil) == policy.Deny {
				continue
			}
			x := *p
			x.Name = c.shownPrompt(o.Server, p.Name)
			put(now.prompts, c.prompts, origin{o.Server, p.Name}, x.Name, &x, func() { c.server.AddPrompt(&x, c.handlePrompt) })
		}
	}
	c.server.RemoveResources(c.resources.without(now.resources)...)
	c.server.RemoveResourceTemplates(c.templates.without(now.templates)...)
	c.server.RemovePrompts(c.prompts.without(now.prompts)...)
	c.shelves = now
}

// anyArguments are those of a prompt as far as they are known before it is got.
func anyArguments(p *mcp.Prompt) tool.Args {
	return tool.Args{"name": p.Name, "arguments": map[string]any{}}
}

func (c *conn) offerResources(now shelves, o Offer, chain policy.Chain, spec *tool.Spec) {
	for _, r := range o.Resources {
		if chain.DecideTool(spec, tool.Args{"uri": r.URI}, nil) == policy.Deny {
			continue
		}
		x := *r
		if x.URI = c.shownURI(o.Server, r.URI); !absolute(x.URI) {
			continue // no client could ask for it
		}
		put(now.resources, c.resources, origin{o.Server, r.URI}, x.URI, &x, func() { c.server.AddResource(&x, c.handleResource) })
	}
	for _, t := range o.Templates { // which resources they stand for is not known: each is decided when it is read
		x := *t
		x.URITemplate = c.shownURI(o.Server, t.URITemplate)
		put(now.templates, c.templates, origin{o.Server, t.URITemplate}, x.URITemplate, &x, func() { c.server.AddResourceTemplate(&x, c.handleResource) })
	}
}

func absolute(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.IsAbs()
}

// put shows one thing, unless it is shown already. What the SDK cannot show, a
// malformed template for example, is left out; of two with one name the first is
// kept.
func put(now, was shelf, from origin, name string, what any, add func()) {
	if _, twice := now[name]; twice {
		return
	}
	text, err := json.Marshal(what)
	if err != nil {
		return
	}
	s := shown{from, string(text)}
	if was[name] != s && !tried(add) {
		return
	}
	now[name] = s
}

func tried(add func()) (ok bool) {
	defer func() { ok = recover() == nil }()
	add()
	return
}

// without are the names that the other shelf does not have.
func (s shelf) without(other shelf) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(s)), func(name string) bool { _, there := other[name]; return there })
}

// news are changes, until somebody takes them.
type news struct {
	due, lists chan struct{} // something waits: of resources, of servers' lists

	mu        sync.Mutex
	resources map[origin]bool
	changed   map[string]bool // servers
}

func newNews() *news {
	return &news{due: make(chan struct{}, 1), lists: make(chan struct{}, 1), resources: map[origin]bool{}, changed: map[string]bool{}}
}

// maxNews bounds the changes that wait to be told.
const maxNews = 4096

// add notes that a server's resource changed, or its lists if uri is "".
func (n *news) add(server, uri string) {
	n.mu.Lock()
	to := n.due
	switch {
	case uri == "":
		n.changed[server] = true
		to = n.lists
	case len(n.resources) < maxNews:
		n.resources[origin{server, uri}] = true
	}
	n.mu.Unlock()
	select {
	case to <- struct{}{}:
	default: // noted already
	}
}

func (n *news) take() map[origin]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.resources
	n.resources = map[origin]bool{}
	return out
}

func (n *news) servers() map[string]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.changed
	n.changed = map[string]bool{}
	return out
}
