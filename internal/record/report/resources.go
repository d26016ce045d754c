package report

import (
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// usedResources collects the resources that steps used, each once.
type usedResources struct{ read, written, deleted, hosts, commands, tablesRead, tablesWritten map[string]bool }

func newResources() *usedResources {
	return &usedResources{map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}, map[string]bool{}}
}

func (r *usedResources) addStep(s *Step) {
	for _, h := range s.SideEffects.Happened {
		r.add(h.Effect, h.On)
	}
	if len(s.SideEffects.Happened) == 0 && s.Status == tool.Completed.String() {
		r.addArgs(*s)
	}
}

// sorted lists the resources.
func (r *usedResources) sorted() Resources {
	list := func(set map[string]bool) []string {
		return slices.AppendSeq(make([]string, 0, len(set)), maps.Keys(set))
	}
	out := Resources{list(r.read), list(r.written), list(r.deleted), list(r.hosts), list(r.commands), list(r.tablesRead), list(r.tablesWritten)}
	for _, l := range [][]string{out.FilesRead, out.FilesWritten, out.FilesDeleted, out.HostsContacted, out.CommandsRun, out.TablesRead, out.TablesWritten} {
		slices.Sort(l)
	}
	return out
}

func (r *usedResources) add(effect, on string) {
	switch effect {
	case tool.FSRead.String():
		r.read[on] = true
	case tool.FSWrite.String(), tool.FSChmod.String():
		r.written[on] = true
	case tool.FSDelete.String():
		r.deleted[on] = true
	case tool.NetworkHTTP.String(), tool.NetworkSocket.String():
		r.hosts[host(on)] = true
	case tool.SystemExec.String():
		r.commands[on] = true
	case tool.DatabaseRead.String():
		r.tablesRead[on] = true
	case tool.DatabaseWrite.String():
		r.tablesWritten[on] = true
	}
}

// addArgs adds the resources named by the arguments, for each declared effect.
func (r *usedResources) addArgs(s Step) {
	a := arguments(s)
	for _, e := range s.SideEffects.Declared {
		on := a.str("path")
		switch e {
		case tool.NetworkHTTP.String(), tool.NetworkSocket.String():
			on = a.str("url")
		case tool.SystemExec.String():
			on = a.command()
		}
		if on != "" {
			r.add(e, on)
		}
	}
}

// host gives the host, and the port where it is written, of "GET https://h/x",
// "https://h/x" or "h:443".
func host(on string) string {
	if _, after, ok := strings.Cut(on, " "); ok && strings.Contains(after, "://") {
		on = after
	}
	if !strings.Contains(on, "://") {
		return on
	}
	u, err := url.Parse(on)
	if err != nil || u.Host == "" {
		return on
	}
	return u.Host
}

// args are a step's arguments, or none where they are not part of the report.
type args map[string]any

func arguments(s Step) args {
	var a args
	if json.Unmarshal(s.Args.JSON, &a) != nil {
		return nil
	}
	return a
}

func (a args) str(key string) string {
	s, _ := a[key].(string) // an argument of another type has no such text
	return s
}

// command gives the command line in an argv or script argument.
func (a args) command() string {
	words, ok := a["argv"].([]any)
	if !ok {
		return a.str("script")
	}
	line := make([]string, 0, len(words))
	for _, w := range words {
		s, ok := w.(string)
		if !ok {
			return a.str("script")
		}
		line = append(line, s)
	}
	return tool.Action{Kind: tool.Command, Argv: line}.Subject()
}

// subject returns the path, URL or command that a step's arguments name, else the
// arguments themselves.
func subject(s Step) string {
	a := arguments(s)
	switch {
	case a.command() != "":
		return a.command()
	case a.str("url") != "":
		return strings.TrimSpace(a.str("method") + " " + a.str("url"))
	case a.str("from") != "":
		return a.str("from") + " -> " + a.str("to")
	case a.str("sql") != "":
		return a.str("database") + ": " + a.str("sql")
	case a.str("path") != "" && a.str("pattern") != "":
		return a.str("path") + " " + a.str("pattern")
	case a.str("path") != "":
		return a.str("path")
	case s.Args.JSON == nil && s.Args.Bytes > 0:
		return "(" + size(s.Args.Bytes) + " of arguments)"
	case len(a) == 0:
		return ""
	}
	return string(s.Args.JSON)
}
