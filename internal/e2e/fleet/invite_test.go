package fleet_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
)

// isSlow reports whether the effect of a path takes a second.
func isSlow(path string) bool { return strings.Contains(path, "/"+slow) }

// newPerson adds a person to the settings of the nodes, who will sign in to the web UI.
func (c *chaos) newPerson() *person {
	c.Helper()
	idp := c.people()
	if err := os.WriteFile(filepath.Join(c.dir, "home", "developer.yaml"), []byte("version: 1\nname: developer\nrest: inherit\napi: {allow: [\"*\"]}\n"), 0o600); err != nil {
		c.Fatal(err)
	}
	return &person{f: c.fleet, idp: idp, name: "ann", cookies: map[string]*http.Cookie{}}
}

// invite adds the clients outside: of the API, of MCP, of hooks and of the web UI.
func (c *chaos) invite(p *person) {
	c.Helper()
	var ways []way
	for i, d := range c.doors {
		ways = append(ways, way{"node " + string(rune('0'+i)), "http://" + d.addr})
	}
	front := ways[0]
	if len(ways) > 1 {
		if url := newBalancer(c.T, c.doors); url != "" {
			front = way{"HAProxy", url}
			ways = append(ways, front)
		}
	}
	back := p.leave(c.nodes[0])
	p.wants(http.StatusOK, c.nodes[0], back)
	c.crowd = newCrowd(c.fleet, ways)
	for range 3 {
		c.crowd.keep("http", outside, c.crowd.httpClient().invoke)
	}
	for i := range c.doors {
		one := c.crowd.httpClient() // of one node alone: a node must work or end
		one.to = func(int) way { return ways[i] }
		c.crowd.keep("http at "+ways[i].name, outside, one.invoke)
	}
	for _, to := range []way{front, ways[0]} {
		c.users = append(c.users, c.crowd.mcpUser(to))
	}
	c.crowd.keep("queue", outside, c.crowd.httpClient().queue)
	c.crowd.keep("turn", outside, c.crowd.httpClient().turn)
	c.crowd.keep(asking, outsideAsked, c.crowd.httpClient().turn)
	c.crowd.answers()
	c.crowd.hookUser(c.urls[0])
	c.crowd.viewer(p)
}
