package policy

import (
	"maps"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Limits bounds the resources of calls. A zero number or duration means that the
// chain sets no limit and the default of the field's comment holds.
type Limits struct {
	ReadBytes           int64             // files.read.max_bytes: one file; default 5 MiB
	WriteBytes          int64             // files.write.max_bytes: one file; default 5 MiB
	Hold                bool              // files.write.hold: writes are held as a changeset; true if any policy says so
	ResponseBytes       int64             // network.max_bytes: one response; default 10 MiB
	RequestTimeout      time.Duration     // network.timeout; default 30 s
	Bandwidth           int64             // network.bandwidth: bytes a second of one confined call, both ways together; 0: no limit
	TotalBytes          int64             // network.total_bytes: of one confined call, both ways together; 0: no limit
	CommandTimeout      time.Duration     // commands.timeout; default 300 s
	OutputBytes         int64             // commands.max_output: each of stdout and stderr; default 1 MiB
	Memory              int64             // commands.memory; default 2 GiB
	Processes           int               // commands.processes; default 256
	CPU                 time.Duration     // commands.cpu: of one process; 0: no limit
	OpenFiles           int               // commands.files: open at once in one process; default 4096
	Disk                int64             // commands.disk: of a command's private folders; default commands.memory
	Env                 []string          // commands.env: names passed through, the intersection of the chain; nil: no policy lists any
	Values              map[string]string // commands.env: the values that policies give variables
	Folders             bool              // commands.cwd: a policy says where commands may start
	Path                []string          // the trusted PATH: the environment's plus commands.path of every policy (intersection of the additions)
	Image               string            // image: the digest of the container image that commands see in place of the machine's system; "": none
	ImageOrLocal        bool              // where the image is not there, they see the machine's system
	Secrets             []string          // secrets: the variables that some policy of the chain gives a stored secret in
	BytesIn             int64             // limits.bytes_in: received over the network in a run; 0: no limit
	BytesOut            int64             // limits.bytes_out: sent over the network in a run; 0: no limit
	Money               int64             // limits.money: millionths of a US dollar in a run; 0: no limit
	Calls               int               // limits.calls: of a run; 0: no limit
	CallsPerTool        int               // limits.calls_per_tool: of a run, each tool; 0: no limit
	PerTool             []ToolLimit       // limits.per_tool: each pattern counts all tools it matches together
	Time                time.Duration     // limits.time: of a run; 0: no limit
	Tokens              int64             // models.tokens: of a run; 0: no limit
	TokensIn, TokensOut int64             // models.tokens_in, models.tokens_out: of a run; 0: no limit
	PerKind             []KindLimit       // limits.per_kind: calls of a run that do something of a kind
	Databases           []Database        // databases with a url in a policy, with the smallest limits of the chain
	Spawn               *int              // agents.spawn: sub-agents of one agent; nil: no limit
	Depth               *int              // agents.depth: levels of sub-agents; nil: no limit
}

// KindLimit bounds how many calls of a run may do something of a kind.
type KindLimit struct {
	Kind  tool.ActionKind
	Calls int // 0: none
}

// ToolLimit bounds how many calls of the tools that match a pattern one run
// may make, counted together.
type ToolLimit struct {
	Pattern string
	Calls   int                // 0: none
	Match   func(tool.ID) bool `json:"-"`
}

// agentSettings is the section agents.
type agentSettings struct{ spawn, depth *int }

func (s *agentSettings) setting() setting {
	return mapping("agents", optionalCount("spawn", &s.spawn), optionalCount("depth", &s.depth))
}

// limitSettings is the section limits.
type limitSettings struct {
	calls, callsPerTool      int
	time                     time.Duration
	bytesIn, bytesOut, money int64
	perTool                  []toolCount
	perKind                  []KindLimit
}

type toolCount struct {
	pos     fault.Pos
	pattern string
	calls   int
	name    *glob.Text
}

func (s *limitSettings) setting() setting {
	return mapping("limits", count("calls", &s.calls, 1), count("calls_per_tool", &s.callsPerTool, 1), duration("time", &s.time),
		size("bytes_in", &s.bytesIn), size("bytes_out", &s.bytesOut), money("money", &s.money),
		setting{"per_tool", s.readPerTool, s.printPerTool}, setting{"per_kind", s.readPerKind, s.printPerKind})
}

func (s *limitSettings) readPerTool(p *parser) document.Field {
	return func(n *document.Node, path string) {
		p.Each(n, path, func(key, value *document.Node, path string) {
			// As in a deny list, a limit counts every tool that the pattern might
			// mean.
			name, err := compileToolName(key.Text, true)
			if err != nil {
				p.Fail(key, path, "%v", err)
				return
			}
			c := toolCount{pos: p.Pos(key), pattern: key.Text, name: name}
			document.Int(p.Reader, &c.calls, 0, maxCount)(value, path)
			s.perTool = append(s.perTool, c)
		})
	}
}

func (s *limitSettings) printPerTool(w *printer, in int) {
	if len(s.perTool) == 0 {
		return
	}
	w.line(in, "per_tool:")
	for _, t := range s.perTool {
		w.line(in+1, "%s: %d", quote(t.pattern), t.calls)
	}
}

// counted are the kinds of operations that limits.per_kind counts.
var counted = []tool.ActionKind{tool.FileRead, tool.FileWrite, tool.FileDelete, tool.Network, tool.Command, tool.Model}

func (s *limitSettings) readPerKind(p *parser) document.Field {
	return func(n *document.Node, path string) {
		fields := document.Fields{}
		for _, k := range counted {
			fields[k.String()] = func(n *document.Node, path string) {
				l := KindLimit{Kind: k}
				document.Int(p.Reader, &l.Calls, 0, maxCount)(n, path)
				s.perKind = append(s.perKind, l)
			}
		}
		p.mapping(n, path, fields)
	}
}

func (s *limitSettings) printPerKind(w *printer, in int) {
	if len(s.perKind) == 0 {
		return
	}
	w.line(in, "per_kind:")
	for _, k := range s.perKind {
		w.line(in+1, "%s: %d", k.Kind, k.Calls)
	}
}

// lowerKind adds a limit of a kind, or lowers the one that is there.
func lowerKind(list []KindLimit, l KindLimit) []KindLimit {
	for i := range list {
		if list[i].Kind == l.Kind {
			list[i].Calls = min(list[i].Calls, l.Calls)
			return list
		}
	}
	return append(list, l)
}

// Limits gives the chain's effective limits: the smallest of each.
func (c Chain) Limits() Limits {
	var l Limits
	first := true // no policy so far decides commands
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		d := r.policy.content()
		l.lower(d)
		for _, u := range d.secrets.list {
			if u.Env != "" {
				l.Secrets = append(l.Secrets, u.Env)
			}
		}
		if r.sections[commandSection].inherits {
			continue
		}
		if first {
			l.Env, l.Path, first = slices.Clone(d.commands.env), slices.Clone(r.added), false
			continue
		}
		if l.Env != nil || d.commands.env != nil {
			l.Env = append([]string{}, intersect(l.Env, d.commands.env)...)
		}
		l.Path = intersect(l.Path, r.added)
	}
	l.Path = c.trustedPath(l.Path)
	l.Values, l.Folders = c.given(), c.folders()
	l.Image, l.ImageOrLocal = c.image()
	l.Databases = c.databases()
	for _, name := range slices.Sorted(maps.Keys(l.Values)) {
		if !slices.Contains(l.Env, name) {
			l.Env = append(l.Env, name)
		}
	}
	return l
}

// ToolEnv is what tools derive the actions of their calls from, under these limits.
func (l Limits) ToolEnv(workspace, home string) tool.Env {
	return tool.Env{Workspace: workspace, Home: home, Path: l.Path, Pass: l.Env, AnyVariable: l.Env == nil, Values: l.Values, Secrets: l.Secrets}
}

// lower lowers each limit to the one that a policy sets.
func (l *Limits) lower(d *content) {
	least(&l.ReadBytes, d.files.readMax)
	least(&l.WriteBytes, d.files.writeMax)
	l.Hold = l.Hold || d.files.hold || slices.Contains(d.place.places, Remote.String())
	least(&l.ResponseBytes, d.network.maxBytes)
	least(&l.RequestTimeout, d.network.timeout)
	least(&l.Bandwidth, d.network.bandwidth)
	least(&l.TotalBytes, d.network.totalBytes)
	least(&l.CommandTimeout, d.commands.timeout)
	least(&l.OutputBytes, d.commands.maxOutput)
	least(&l.Memory, d.commands.memory)
	least(&l.Processes, d.commands.processes)
	least(&l.CPU, d.commands.cpu)
	least(&l.OpenFiles, d.commands.openFiles)
	least(&l.Disk, d.commands.disk)
	least(&l.Calls, d.limits.calls)
	least(&l.CallsPerTool, d.limits.callsPerTool)
	least(&l.BytesIn, d.limits.bytesIn)
	least(&l.BytesOut, d.limits.bytesOut)
	least(&l.Money, d.limits.money)
	least(&l.Time, d.limits.time)
	least(&l.Tokens, d.models.tokens)
	least(&l.TokensIn, d.models.tokensIn)
	least(&l.TokensOut, d.models.tokensOut)
	for _, k := range d.limits.perKind {
		l.PerKind = lowerKind(l.PerKind, k)
	}
	leastOf(&l.Spawn, d.agents.spawn)
	leastOf(&l.Depth, d.agents.depth)
	for _, t := range d.limits.perTool {
		l.PerTool = append(l.PerTool, ToolLimit{t.pattern, t.calls, func(id tool.ID) bool { return t.name.Match(string(id)) }})
	}
}

// trustedPath is the environment's folders, then the added ones.
func (c Chain) trustedPath(added []string) []string {
	var out []string
	for _, r := range c {
		if r != nil && r.policy != nil {
			out = slices.Clone(r.env.Path)
			break
		}
	}
	for _, dir := range added {
		if !slices.Contains(out, dir) {
			out = append(out, dir)
		}
	}
	return out
}

func intersect(a, b []string) []string {
	var out []string
	for _, s := range a {
		if slices.Contains(b, s) {
			out = append(out, s)
		}
	}
	return out
}

// least lowers a limit; zero means no limit.
func least[T int | int64 | time.Duration](into *T, v T) {
	if v > 0 && (*into == 0 || v < *into) {
		*into = v
	}
}

func leastOf(into **int, v *int) {
	if v != nil && (*into == nil || *v < **into) {
		n := *v
		*into = &n
	}
}
