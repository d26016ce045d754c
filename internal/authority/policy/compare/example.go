package compare

import (
	"encoding/json"
	"path"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// most bounds how many entries are made examples of.
const most = 4000

func unquote(s string) (string, error) { return strconv.Unquote(s) }

// candidates makes examples of each entry of both chains.
func candidates(was, is policy.Chain, env policy.Env) [][]policy.Call {
	var entries []policy.Entry
	for _, c := range []policy.Chain{was, is} {
		for _, r := range c {
			if r != nil && r.Policy() != nil {
				entries = append(entries, r.Policy().Entries()...)
			}
		}
	}
	var out [][]policy.Call
	add := func(calls []policy.Call) {
		if len(calls) > 0 && len(out) < most {
			out = append(out, calls)
		}
	}
	for _, e := range entries {
		add(examples(e, env))
	}
	// A pattern that matches anywhere meets the folders that others allow.
	for _, e := range entries {
		tail, anywhere := strings.CutPrefix(e.Pattern, "**/")
		if !anywhere || !strings.HasPrefix(e.Section, "files.") {
			continue
		}
		for _, o := range entries {
			if o.Section == e.Section && o.Effect != policy.Deny && o.Pattern != e.Pattern {
				add(files(o.Section, path.Join(lead(o.Pattern), tail), env))
			}
		}
	}
	return out
}

// lead is a path pattern's literal folder.
func lead(pattern string) string {
	i := strings.IndexAny(pattern, "*?[{\\")
	if i < 0 {
		return path.Dir(pattern)
	}
	return pattern[:strings.LastIndexByte(pattern[:i], '/')+1]
}

// examples makes calls that an entry speaks of.
func examples(e policy.Entry, env policy.Env) []policy.Call {
	switch e.Section {
	case "files.read", "files.write", "files.delete":
		return files(e.Section, e.Pattern, env)
	case "network":
		return targets(e.Pattern)
	case "commands":
		return commands(e.Pattern, env)
	case "models":
		return one(tool.Action{Kind: tool.Model, Model: fill(e.Pattern, "x")})
	case "api":
		return one(tool.Action{Kind: tool.API, API: fill(e.Pattern, "x")})
	case "databases.read":
		return one(policy.DatabaseExample(tool.TableRead, e.Pattern))
	case "databases.write":
		return one(policy.DatabaseExample(tool.TableWrite, e.Pattern))
	case "tools":
		return calls(e)
	}
	return nil
}

func one(actions ...tool.Action) []policy.Call {
	var out []policy.Call
	for _, a := range actions {
		out = append(out, policy.Call{Actions: []tool.Action{a}})
	}
	return out
}

// fill writes a text for each wildcard.
func fill(pattern, with string) string {
	var b strings.Builder
	for i := 0; i < len(pattern); i++ {
		switch c := pattern[i]; {
		case c == '\\' && i+1 < len(pattern):
			i++
			b.WriteByte(pattern[i])
		case c == '*':
			for i+1 < len(pattern) && pattern[i+1] == '*' {
				i++
			}
			b.WriteString(with)
		case c == '?':
			b.WriteString("q")
		case c == '[':
			end := strings.IndexByte(pattern[i:], ']')
			if end < 2 {
				return ""
			}
			if first := pattern[i+1]; first == '^' || first == '!' {
				b.WriteString("q")
			} else {
				b.WriteByte(first)
			}
			i += end
		default:
			b.WriteByte(c)
		}
	}
	return b.String()
}

// alternatives writes braces out: the first and the last of each.
func alternatives(pattern string) []string {
	open := strings.IndexByte(pattern, '{')
	end := strings.IndexByte(pattern, '}')
	if open < 0 || end < open {
		return []string{pattern}
	}
	parts := strings.Split(pattern[open+1:end], ",")
	out := alternatives(pattern[:open] + parts[0] + pattern[end+1:])
	if len(parts) > 1 {
		out = append(out, alternatives(pattern[:open]+parts[len(parts)-1]+pattern[end+1:])...)
	}
	return out
}

func files(section, pattern string, env policy.Env) []policy.Call {
	var acts []tool.Action
	for _, alt := range alternatives(pattern) {
		for _, with := range []string{"x", "x/y"} {
			p := fill(strings.ReplaceAll(alt, "**", "\x00"), "x")
			p = strings.ReplaceAll(p, "\x00", with)
			switch rest, home := strings.CutPrefix(p, "~/"); {
			case home && env.Home == "":
				continue
			case home:
				p = path.Join(env.Home, rest)
			case !strings.HasPrefix(p, "/"):
				p = path.Join(env.Workspace, p)
			}
			acts = append(acts, tool.Action{Kind: kinds[section], Path: path.Clean(p)})
		}
	}
	return one(acts...)
}

func targets(pattern string) []policy.Call {
	methods := []string{"GET", "POST"}
	rest := pattern
	if words, after, ok := strings.Cut(pattern, " "); ok {
		methods, rest = strings.Split(words, ","), after
	}
	if t, err := target.Local(rest); err == nil {
		return one(tool.Action{Kind: tool.Network, Target: t})
	}
	if key, ok := strings.CutPrefix(rest, "ssh-agent:"); ok {
		return keyUses(methods, key, methods[0] == "GET")
	}
	scheme, after, ok := strings.Cut(rest, "://")
	if !ok {
		scheme, after = "https", rest
	}
	host, p, hasPath := strings.Cut(after, "/")
	if hasPath && strings.Trim(p, "0123456789") == "" && !strings.Contains(host, "*") && p != "" {
		p = "" // a range of addresses
	}
	host = strings.Replace(strings.Replace(host, "*.", "x.", 1), "*", "example.net", 1)
	var acts []tool.Action
	for _, m := range methods {
		url := scheme + "://" + host
		if scheme == "tcp" {
			m = ""
		} else {
			url += "/" + fill(strings.ReplaceAll(p, "**", "*"), "x")
		}
		if t, err := target.Parse(m, url); err == nil {
			acts = append(acts, tool.Action{Kind: tool.Network, Target: t})
		}
	}
	return one(acts...)
}

// keyUses are uses of a key of the SSH agent, or of any.
func keyUses(methods []string, key string, every bool) []policy.Call {
	if every {
		methods = []string{target.AgentLogin, target.AgentSign}
	}
	key = strings.Replace(key, "*", "SHA256:"+strings.Repeat("x", 43), 1)
	var acts []tool.Action
	for _, m := range methods {
		if t, err := target.AgentKey(m, "ssh-agent:"+key); err == nil {
			acts = append(acts, tool.Action{Kind: tool.Network, Target: t})
		}
	}
	return one(acts...)
}

func commands(pattern string, env policy.Env) []policy.Call {
	var acts []tool.Action
	for _, many := range [][]string{nil, {"x"}, {"x", "y"}} {
		var argv []string
		for i, w := range strings.Split(pattern, " ") {
			switch {
			case w == "**" && i == 0:
				argv = append(argv, "true")
			case w == "**":
				argv = append(argv, many...)
			default:
				argv = append(argv, fill(strings.Trim(w, `'"`), "x"))
			}
		}
		acts = append(acts, tool.Action{Kind: tool.Command, Argv: argv, Dir: env.Workspace})
	}
	return one(acts...)
}

// calls makes calls of the tool that an entry names: with arguments that its
// constraints allow, with others, and with none.
func calls(e policy.Entry) []policy.Call {
	id := tool.ID(fill(e.Pattern, "x"))
	var out []policy.Call
	for _, source := range []string{"builtin", "mcp"} {
		if (source == "mcp") != strings.Contains(string(id), ":") {
			continue
		}
		t := &tool.Spec{ID: id, Source: source, Risk: tool.Low}
		for _, args := range e.Examples() {
			out = append(out, policy.Call{Tool: t, Args: args})
		}
		for _, risk := range []tool.Risk{tool.High, tool.Critical} {
			high := *t
			high.Risk = risk
			out = append(out, policy.Call{Tool: &high, Args: tool.Args{}})
		}
	}
	return out
}

func describe(c policy.Call) string {
	text, err := json.Marshal(c.Args)
	if err != nil || len(c.Args) == 0 {
		text = nil
	}
	out := "tools " + string(c.Tool.ID)
	if len(text) > 0 {
		out += " " + string(text)
	}
	if c.Tool.Risk > tool.Low {
		out += " (risk " + c.Tool.Risk.String() + ")"
	}
	return out
}
