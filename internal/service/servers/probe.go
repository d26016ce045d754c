package servers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/service/settings"
	"github.com/remitrun/remit/internal/tools/infer"
)

// ToolsSaid finds what the settings say of a tool. A key is an ID, or the beginning
// of IDs before a final "*"; the longest that fits holds.
func ToolsSaid(set map[string]settings.Tool) func(tool.ID) catalog.Said {
	said := make(map[string]catalog.Said, len(set))
	for key, t := range set {
		said[key] = catalog.Said{Said: infer.Said{Risk: t.Risk, Effects: t.Effects}, Trusted: t.Trusted, Name: t.AnyName}
	}
	return func(id tool.ID) catalog.Said {
		if s, ok := said[string(id)]; ok {
			return s
		}
		best, found := "", catalog.Said{}
		for key, s := range said {
			if head, open := strings.CutSuffix(key, "*"); open && len(key) > len(best) && strings.HasPrefix(string(id), head) {
				best, found = key, s
			}
		}
		return found
	}
}

// Probe is what came of starting an MCP server once.
type Probe struct {
	Tools   []catalog.Tool // with the findings of their texts
	Refused []catalog.Refused
	Err     error    // why it lists no tools
	Fixes   []string // entries of its policy that would probably help, as files.read: "/opt/x/**"
}

// Test starts a server as for a call and lists its tools, ignoring remembered failures. None is
// used by that. The error only reports an unknown server; a failed step is in the probe.
func (m *Servers) Test(ctx context.Context, name string) (p Probe, err error) {
	s, err := m.Find(name)
	if err != nil {
		return p, err
	}
	source, known := "mcp:"+name, &memory{home: m.Home}
	known.Failed(source, nil)
	logged := m.logSize(name)
	c, err := catalog.Open(catalog.Config{BuiltIn: m.BuiltIn(), Sources: []catalog.Source{catalog.From(m.mcpServer(s))}, Memory: known, Said: ToolsSaid(m.Home.Settings.Tools)})
	if err != nil {
		return p, err
	}
	list := c.List(ctx, catalog.Filter{Source: source})
	p.Tools, p.Refused = list.Tools, list.Refused
	if len(list.Failing) > 0 {
		p.Err = list.Failing[0].Err
	}
	err = c.Close()
	if p.Err == nil {
		p.Err, err = err, nil
	}
	if p.Err != nil {
		p.Fixes = m.mcpFixes(s, m.logTail(name, logged))
	}
	return p, err
}

func (m *Servers) logSize(name string) int64 {
	st, err := os.Stat(m.mcpLog(name))
	if err != nil {
		return 0
	}
	return st.Size()
}

// maxTail is how much of a server's log is searched for what it missed.
const maxTail = 64 << 10

// logTail is the text that a server wrote since its log had this size, or the end of it. It is the
// server's own text: nothing is allowed by it, only proposed.
func (m *Servers) logTail(name string, from int64) string {
	f, err := os.Open(m.mcpLog(name))
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // nothing was written to it
	st, err := f.Stat()
	if err != nil {
		return ""
	}
	if st.Size() < from {
		from = 0 // it was rotated
	}
	b := make([]byte, min(st.Size()-max(from, st.Size()-maxTail), maxTail))
	n, _ := f.ReadAt(b, st.Size()-int64(len(b)))
	return string(b[:n])
}

// unresolved is how runtimes say that they could not find a host.
var unresolved = regex.Lazy(`(?:ENOTFOUND|EAI_AGAIN|[Cc]ould not resolve host:?|Failed to resolve|lookup) '?([A-Za-z0-9.-]+\.[A-Za-z]{2,})`)

// mcpFixes proposes permissions for a server that does not start: the folders of the files that its
// command names and that it cannot read, and the hosts that its log says it could not reach.
func (m *Servers) mcpFixes(s Server, log string) []string {
	p, err := s.policy()
	if err != nil {
		return nil
	}
	r, err := p.Bind(m.Home.Env(m.Folder(s)))
	if err != nil {
		return nil
	}
	chain := policy.Chain{r}
	var out []string
	add := func(fix string) {
		if !slices.Contains(out, fix) && len(out) < 10 {
			out = append(out, fix)
		}
	}
	for _, word := range s.Command {
		real, err := filepath.EvalSymlinks(word)
		if !filepath.IsAbs(word) || err != nil || inSystem(real) {
			continue
		}
		read := tool.Action{Kind: tool.FileRead, Path: filepath.Clean(word), Real: real}
		if chain.DecideAction(read).Effect != policy.Allow {
			add(fmt.Sprintf("files.read: %q", packageOf(real)+"/**"))
		}
	}
	for _, found := range unresolved.FindAllStringSubmatch(log, -1) {
		to, err := target.Parse("", "https://"+found[1]+"/")
		if err == nil && chain.DecideAction(tool.Action{Kind: tool.Network, Target: to}).Effect != policy.Allow {
			add(fmt.Sprintf("network: %q", to.Host))
		}
	}
	return out
}

// inSystem reports whether a file is in a folder that every sandbox shows.
func inSystem(file string) bool {
	return slices.ContainsFunc([]string{"/usr/", "/bin/", "/lib/", "/lib64/", "/sbin/"}, func(dir string) bool { return strings.HasPrefix(file, dir) })
}

// packageOf is the folder that a program needs besides its own file: the outermost
// node_modules that it is in, the environment of a Python program, or its folder.
func packageOf(file string) string {
	if before, _, ok := strings.Cut(file, "/node_modules/"); ok {
		return before + "/node_modules"
	}
	dir := filepath.Dir(file)
	if _, err := os.Stat(filepath.Join(filepath.Dir(dir), "pyvenv.cfg")); !errors.Is(err, os.ErrNotExist) {
		return filepath.Dir(dir)
	}
	return dir
}
