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

// Offer is what an MCP server offers besides tools, in the server's own description. It
// is not changed here.
type Offer struct {
	Server    string
	Resources []*mcp.Resource
	Templates []*mcp.ResourceTemplate
	Prompts   []*mcp.Prompt
}

// origin is the server of something that a client sees, and the server's name for it.
type origin struct{ server, name string }

// shelf has the things of one kind that a client sees, by their names for the client, with
// their origin and description.
type shelf map[string]shown

type shown struct {
	origin
	text string
}

// shelves has the shelves of all kinds.
type shelves struct{ resources, templates, prompts shelf }

func newShelves() shelves { return shelves{shelf{}, shelf{}, shelf{}} }

// shownURI is the URI of a server's resource for clients. If several servers are served,
// the server's name comes first, since two servers may have the same URI.
func (c *conn) shownURI(server, uri string) string {
	if c.gateway.opts.Server != "" {
		return uri
	}
	return "mcp:" + server + ":" + uri
}

// resourceOf gives the origin of a resource from its URI.
func (c *conn) resourceOf(uri string) (origin, bool) {
	if only := c.gateway.opts.Server; only != "" {
		return origin{only, uri}, true
	}
	rest, ok := strings.CutPrefix(uri, "mcp:")
	server, name, two := strings.Cut(rest, ":")
	return origin{server, name}, ok && two && server != "" && name != ""
}

// shownPrompt is the name of a server's prompt for clients.
func (c *conn) shownPrompt(server, name string) string {
	if c.gateway.opts.Server != "" {
		return name
	}
	return NameOf(tool.ID("mcp:" + server + ":" + name))
}

// promptOf gives the origin of a prompt, and whether the client sees it.
func (c *conn) promptOf(name string) (origin, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	p, ok := c.prompts[name]
	if !ok && c.gateway.opts.Server != "" {
		return origin{c.gateway.opts.Server, name}, false
	}
	return p.origin, ok
}

// offer shows the client the resources and prompts that the grant could allow it to read.
// The caller holds c.mu.
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
	c.server.RemoveResources(c.resources.difference(now.resources)...)
	c.server.RemoveResourceTemplates(c.templates.difference(now.templates)...)
	c.server.RemovePrompts(c.prompts.difference(now.prompts)...)
	c.shelves = now
}

// anyArguments gives the arguments of a prompt that are known before it is read.
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
			continue // clients could not request it
		}
		put(now.resources, c.resources, origin{o.Server, r.URI}, x.URI, &x, func() { c.server.AddResource(&x, c.handleResource) })
	}
	for _, t := range o.Templates { // their resources are not known: each is decided when it is read
		x := *t
		x.URITemplate = c.shownURI(o.Server, t.URITemplate)
		put(now.templates, c.templates, origin{o.Server, t.URITemplate}, x.URITemplate, &x, func() { c.server.AddResourceTemplate(&x, c.handleResource) })
	}
}

func absolute(uri string) bool {
	u, err := url.Parse(uri)
	return err == nil && u.IsAbs()
}

// put shows a thing, unless it is shown already. Things that the SDK refuses, as a
// malformed template, are left out. Of two with the same name the first is kept.
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

// difference gives the names that the other shelf does not have.
func (s shelf) difference(other shelf) []string {
	return slices.DeleteFunc(slices.Collect(maps.Keys(s)), func(name string) bool { _, there := other[name]; return there })
}

// news collects changes until they are taken.
type news struct {
	due, lists chan struct{} // get a value when resources, or servers' lists, have changed

	mu        sync.Mutex
	resources map[origin]bool
	changed   map[string]bool // servers
}

func newNews() *news {
	return &news{due: make(chan struct{}, 1), lists: make(chan struct{}, 1), resources: map[origin]bool{}, changed: map[string]bool{}}
}

// maxNews is the largest number of changes that wait.
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
