package report

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// resources lists the resources that the steps used.
func resources(steps []Step) Resources {
	r := Resources{[]string{}, []string{}, []string{}, []string{}, []string{}}
	for _, s := range steps {
		for _, h := range s.SideEffects.Happened {
			r.add(h.Effect, h.On)
		}
		if len(s.SideEffects.Happened) == 0 && s.Status == tool.Completed.String() {
			r.addArgs(s)
		}
	}
	for _, list := range []*[]string{&r.FilesRead, &r.FilesWritten, &r.FilesDeleted, &r.HostsContacted, &r.CommandsRun} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	return r
}

func (r *Resources) add(effect, on string) {
	switch effect {
	case tool.FSRead.String():
		r.FilesRead = append(r.FilesRead, on)
	case tool.FSWrite.String(), tool.FSChmod.String():
		r.FilesWritten = append(r.FilesWritten, on)
	case tool.FSDelete.String():
		r.FilesDeleted = append(r.FilesDeleted, on)
	case tool.NetworkHTTP.String(), tool.NetworkSocket.String():
		r.HostsContacted = append(r.HostsContacted, host(on))
	case tool.SystemExec.String():
		r.CommandsRun = append(r.CommandsRun, on)
	}
}

// addArgs adds the resources named by the arguments, for each declared effect.
func (r *Resources) addArgs(s Step) {
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
