package policy

import (
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/tool"
)

// Limits gives the chain's effective limits: the smallest of each.
func (c Chain) Limits() Limits {
	var l Limits
	first := true // no link so far says which commands' surroundings it grants
	for _, r := range c {
		if r == nil || r.policy == nil {
			continue
		}
		d := r.policy.document()
		least(&l.ReadBytes, d.readBytes)
		least(&l.WriteBytes, d.writeBytes)
		l.Hold = l.Hold || d.hold
		least(&l.ResponseBytes, d.responseBytes)
		least(&l.RequestTimeout, d.requestTimeout)
		least(&l.Bandwidth, d.bandwidth)
		least(&l.TotalBytes, d.totalBytes)
		least(&l.CommandTimeout, d.commandTimeout)
		least(&l.OutputBytes, d.outputBytes)
		least(&l.Memory, d.memory)
		least(&l.Processes, d.processes)
		least(&l.CPU, d.cpu)
		least(&l.OpenFiles, d.openFiles)
		least(&l.Disk, d.disk)
		least(&l.Calls, d.calls)
		least(&l.CallsPerTool, d.callsPerTool)
		least(&l.BytesIn, d.bytesIn)
		least(&l.BytesOut, d.bytesOut)
		least(&l.Money, d.money)
		least(&l.Time, d.time)
		least(&l.Tokens, d.tokens)
		leastOf(&l.Spawn, d.spawn)
		leastOf(&l.Depth, d.depth)
		for _, t := range d.perTool {
			l.PerTool = append(l.PerTool, ToolLimit{t.pattern, t.calls, func(id tool.ID) bool { return t.name.Match(string(id)) }})
		}
		if r.sections[commandSection].inherits {
			continue
		}
		if first {
			l.Env, l.Path, first = slices.Clone(d.env), slices.Clone(r.added), false
			continue
		}
		l.Env = intersect(l.Env, d.env)
		l.Path = intersect(l.Path, r.added)
	}
	l.Path = c.trustedPath(l.Path)
	return l
}

// StandardSystem reports whether commands see the standard system and not only
// the minimal one: every link says so, or leaves it to the others.
func (c Chain) StandardSystem() bool {
	standard := false
	for _, r := range c {
		if r == nil || r.policy == nil {
			return false
		}
		d := r.policy.document()
		if d.system == "standard" {
			standard = true
		} else if d.system != "" || !d.inherit {
			return false
		}
	}
	return standard
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

// least lowers a limit; zero is none.
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
