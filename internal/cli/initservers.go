package cli

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/servers"
)

// movedServers are the servers of one agent's file.
type movedServers struct {
	app.AgentServers
	names map[string]string // of the imported ones: what Remit calls them, by the agent's name
	left  map[string]string // why the others stay where they are
	moved bool              // the file has the gateway in their place
}

// movable are the files of the project. A person's own files are for all folders, so init leaves them.
func movable(plan app.Setup) (out []app.AgentServers) {
	for _, one := range plan.Servers {
		if one.Scope == clients.Project {
			out = append(out, one)
		}
	}
	return out
}

// importServers adds the servers of the project's files. One that cannot be added stays with its agent.
func (s *session) importServers(ctx context.Context, a *app.App, plan app.Setup) (out []movedServers) {
	for _, file := range movable(plan) {
		one := movedServers{AgentServers: file, names: map[string]string{}, left: map[string]string{}}
		found, err := servers.ReadClientFile(file.File)
		if err != nil {
			for _, name := range file.Names {
				one.left[name] = fault.Message(err)
			}
		}
		q := mcpImporting{values: map[string]string{}}
		for _, i := range found {
			if i.Label == clients.GatewayName {
				continue
			}
			if err := s.importOnce(ctx, a, i, &q); err != nil {
				one.left[i.Label] = fault.Message(err)
				continue
			}
			one.names[i.Label] = i.Server.Name
		}
		out = append(out, one)
	}
	return out
}

// importOnce adds a server, unless the same one is there already.
func (s *session) importOnce(ctx context.Context, a *app.App, i servers.Imported, q *mcpImporting) error {
	was, err := a.Servers.Find(i.Server.Name)
	if i.Err == nil && err == nil && was.URL == i.Server.URL && slices.Equal(was.Command, i.Server.Command) {
		return nil
	}
	return s.mcpImportOne(ctx, a, i, q)
}

// moveServers puts the gateway in the place of the servers that were imported.
func (s *session) moveServers(a *app.App, q app.SetupRequest, list []movedServers) {
	for n := range list {
		one := &list[n]
		if len(one.names) == 0 {
			continue
		}
		if _, err := a.Clients.MoveServers(one.Agent, one.Scope, q.Workspace, slices.Sorted(maps.Keys(one.names))); err != nil {
			for name := range one.names {
				one.left[name] = fault.Message(err)
			}
			one.names = map[string]string{}
			continue
		}
		one.moved = true
	}
}

// printServers shows the servers of a plan.
func (s *session) printServers(plan app.Setup) {
	for _, one := range plan.Servers {
		text := "MCP servers of " + one.Title + " in " + one.File + ": " + strings.Join(one.Names, ", ")
		if one.Scope == clients.Project {
			s.item("•", text+". They can be moved behind Remit's gateway (--mcp)")
		} else {
			s.item("•", text+". They stay: the hook decides their calls")
		}
	}
}

// printMoved shows what became of the servers.
func (s *session) printMoved(plan app.Setup, moved []movedServers) {
	if len(moved) == 0 {
		for _, one := range movable(plan) {
			s.printf("%s %s starts %s by itself: %s\n", s.paint(yellow, "!"), one.Title, counted(len(one.Names), "MCP server"), show(strings.Join(one.Names, ", ")))
			s.item(" ", "next: remit init --yes --mcp moves them behind Remit's gateway; until then the hook decides their calls")
		}
	}
	for _, one := range moved {
		if one.moved {
			s.printf("%s %s: %s behind Remit's gateway: %s\n", s.paint(green, "✓"), one.Title, counted(len(one.names), "MCP server"), show(strings.Join(slices.Sorted(maps.Keys(one.names)), ", ")))
			s.item(" ", "file: "+one.File)
			if !plan.New {
				s.item(" ", "next: allow their tools in remit.yaml, as tools: {ask: [\"mcp:NAME:*\"]}, and trust it again")
			}
		}
		for _, name := range slices.Sorted(maps.Keys(one.left)) {
			s.printf("%s %s: the MCP server %s stays as it is: %s\n", s.paint(yellow, "!"), one.Title, show(name), show(one.left[name]))
		}
	}
}

// serversJSON are the servers as --json prints them.
func serversJSON(plan app.Setup, moved []movedServers) []map[string]any {
	out := []map[string]any{}
	for _, file := range plan.Servers {
		i := slices.IndexFunc(moved, func(m movedServers) bool { return m.File == file.File && m.Agent == file.Agent })
		for _, name := range file.Names {
			one := map[string]any{"agent": file.Agent, "file": file.File, "name": name, "moved": false}
			if i >= 0 && moved[i].moved && moved[i].names[name] != "" {
				one["moved"], one["server"] = true, moved[i].names[name]
			} else if i >= 0 && moved[i].left[name] != "" {
				one["reason"] = moved[i].left[name]
			}
			out = append(out, one)
		}
	}
	return out
}
