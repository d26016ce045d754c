package cases

import (
	"path"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// ParseAction reads an action as reports print it: "files.read src/a.go",
// "files.write out/x", "files.delete out/x", "network GET https://host/path", "network
// tcp://host:22", "commands git status", "models provider/model", "api agents.write". A path is
// relative to the workspace unless it begins with / or ~/; words of a command
// are separated by single spaces, and one that holds a space, a quote or a
// backslash needs a call in place of an action. Errors have the code Usage.
func ParseAction(s, workspace, home string) (tool.Action, error) {
	kind, rest, ok := strings.Cut(s, " ")
	if !ok || rest == "" {
		return tool.Action{}, fault.New(fault.Usage, "%q is not a valid action; expected a kind and a subject, as files.read a.txt", s)
	}
	switch kind {
	case "files.read", "files.write", "files.delete":
		kinds := map[string]tool.ActionKind{"files.read": tool.FileRead, "files.write": tool.FileWrite, "files.delete": tool.FileDelete}
		return tool.Action{Kind: kinds[kind], Path: absolute(rest, workspace, home)}, nil
	case "network":
		method, url, ok := strings.Cut(rest, " ")
		if !ok {
			method, url = "", rest
		}
		t, err := target.Local(rest)
		if err != nil {
			t, err = target.Parse(method, url)
		}
		if err != nil {
			return tool.Action{}, fault.New(fault.Usage, "%s", fault.Message(err))
		}
		return tool.Action{Kind: tool.Network, Target: t}, nil
	case "commands":
		if strings.ContainsAny(rest, "'\"\\\t\n") || strings.Contains(rest, "  ") {
			return tool.Action{}, fault.New(fault.Usage, "the words of %q are ambiguous: write call: {tool: shell.run, args: {argv: [...]}}", rest)
		}
		return tool.Action{Kind: tool.Command, Argv: strings.Split(rest, " "), Dir: workspace}, nil
	case "models":
		return tool.Action{Kind: tool.Model, Model: rest}, nil
	case "api":
		return tool.Action{Kind: tool.API, API: rest}, nil
	case "databases.read", "databases.write":
		kinds := map[string]tool.ActionKind{"databases.read": tool.TableRead, "databases.write": tool.TableWrite}
		return databaseAction(kinds[kind], rest)
	}
	return tool.Action{}, fault.New(fault.Usage, "%q is not a kind of action; expected files.read, files.write, files.delete, network, commands, models, api, databases.read or databases.write", kind)
}

func absolute(p, workspace, home string) string {
	switch {
	case strings.HasPrefix(p, "/"):
		return path.Clean(p)
	case strings.HasPrefix(p, "~/"):
		return path.Join(home, p[2:])
	}
	return path.Join(workspace, p)
}

// databaseAction reads "main" or "main: orders(total)".
func databaseAction(k tool.ActionKind, rest string) (tool.Action, error) {
	name, use, used := strings.Cut(rest, ": ")
	a := tool.Action{Kind: k, Database: name}
	if !used {
		return a, nil
	}
	table, column, listed := strings.Cut(use, "(")
	schema, rest, qualified := strings.Cut(table, ".")
	if !qualified {
		schema, rest = "", table
	}
	column, closed := strings.CutSuffix(column, ")")
	if rest == "" || listed != closed {
		return a, fault.New(fault.Usage, "%q is not a valid table; expected DATABASE: TABLE(COLUMN)", use)
	}
	a.Uses = []tool.TableUse{{Schema: schema, Table: rest, Column: column}}
	return a, nil
}
