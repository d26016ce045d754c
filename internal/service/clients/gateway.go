package clients

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/tailscale/hujson"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/service/home"
)

// GatewayName is the name of Remit's own MCP server in the agents' configurations.
const GatewayName = "remit"

// Moved is a file of an agent in which MCP servers were replaced by Remit's gateway.
type Moved struct {
	Agent   string         `json:"agent"`
	Scope   Scope          `json:"scope"`
	File    string         `json:"file"`
	Folder  string         `json:"folder"`
	Names   []string       `json:"names"`
	Gateway map[string]any `json:"gateway"` // its entry
	Before  string         `json:"before"`  // the file's content
	After   string         `json:"after"`   // the digest of the written file
	Removed string         `json:"removed"` // the servers as they stood there: JSON by name, or TOML
}

// Key is the agent and the file.
func (m Moved) Key() string { return m.Agent + " " + m.File }

const movedFile = "agentservers.json"

func (s *Clients) moved() home.Collection[Moved] {
	return home.Collection[Moved]{
		Home: s.Home, File: movedFile, Article: "a", One: "moved MCP configuration", Again: "move the servers", Command: "remit agents",
	}
}

// serversPlace is the file in which an agent lists MCP servers; false: none is known.
func (a agent) serversPlace(scope Scope, s *Clients, folder string) (place, bool) {
	name, ok := a.servers[scope]
	switch {
	case !ok:
		return place{}, false
	case scope == Project:
		return place{folder, name}, true
	case scope == Managed:
		return place{s.Root, name}, true
	}
	if dir, _ := s.Home.Lookup(a.homeEnv); a.homeEnv != "" && filepath.IsAbs(dir) {
		if _, rest, below := strings.Cut(name, "/"); below {
			name = rest
		}
		return place{dir, name}, true
	}
	return place{s.Home.UserHome, name}, s.Home.UserHome != ""
}

// key is the table of a file's MCP servers.
func serversKey(file string) string {
	if filepath.Ext(file) == ".toml" {
		return "mcp_servers"
	}
	return "mcpServers"
}

// serversIn gives the servers in a configuration, by name; nil: none.
func serversIn(file string, src []byte) (map[string]any, error) {
	tree, err := treeOf(file, src)
	list, _ := tree[serversKey(file)].(map[string]any)
	return list, err
}

func treeOf(file string, src []byte) (map[string]any, error) {
	doc, err := open(file, src)
	if err != nil {
		return nil, fault.Wrap(fault.CodeOf(err), err, "%s: %s", file, fault.Message(err))
	}
	v, _ := doc.decoded()
	tree, _ := v.(map[string]any)
	return tree, nil
}

// Servers gives the file in which an agent lists MCP servers, and their names without
// Remit's gateway; "": there is no such file.
func (s *Clients) Servers(name string, scope Scope, folder string) (file string, names []string, err error) {
	a, err := find(name)
	if err != nil {
		return "", nil, err
	}
	at, ok := a.serversPlace(scope, s, folder)
	if !ok {
		return "", nil, nil
	}
	src, err := at.read()
	if err != nil || src == nil {
		return "", nil, err
	}
	list, err := serversIn(at.file(), src)
	for one := range maps.Keys(list) {
		if one != GatewayName {
			names = append(names, one)
		}
	}
	slices.Sort(names)
	return at.file(), names, err
}

// gatewayEntry is how an agent starts the gateway.
func (s *Clients) gatewayEntry(scope Scope, folder string) (map[string]any, error) {
	if err := s.checkExe(folder); err != nil {
		return nil, err
	}
	args := []any{"mcp", "serve"}
	if scope == Project {
		args = append(args, "-w", folder)
	}
	return map[string]any{"command": s.Exe, "args": args, "env": map[string]any{"REMIT_HOME": s.Home.Dir}}, nil
}

// MoveServers replaces servers in an agent's configuration by Remit's gateway. The rest of the file
// stays as it is. [Clients.RestoreServers] undoes it.
func (s *Clients) MoveServers(name string, scope Scope, folder string, names []string) (Moved, error) {
	out := Moved{Agent: name, Scope: scope, Folder: folder, Names: slices.Sorted(slices.Values(names))}
	a, err := find(name)
	if err != nil {
		return out, err
	}
	at, ok := a.serversPlace(scope, s, folder)
	if !ok {
		return out, fault.New(fault.Usage, "%s has no %s configuration of MCP servers that is known", a.title, scope)
	}
	if out.Gateway, err = s.gatewayEntry(scope, folder); err != nil {
		return out, err
	}
	out.File = at.file()
	return out, s.moved().Change("move-servers", out.Key(), func(list []Moved) ([]Moved, error) {
		now, err := at.read()
		if err != nil {
			return nil, err
		}
		clean := now
		if was, known := home.Entry(list, out.Key()); known {
			if clean, err = was.restoreServers(now); err != nil {
				return nil, err
			}
			for _, one := range was.Names {
				if !slices.Contains(out.Names, one) {
					out.Names = append(out.Names, one)
				}
			}
		}
		text, err := out.replace(clean)
		if err != nil {
			return nil, err
		}
		// The list comes first: a file that was changed and is not known could not be restored.
		if err := s.Home.Write(movedFile, home.With(list, out)); err != nil {
			return nil, err
		}
		s.step("listed " + out.File)
		if _, err := at.write(now, text, scope.mode()); err != nil {
			return nil, errors.Join(err, s.Home.Write(movedFile, list))
		}
		s.step("wrote " + out.File)
		return home.With(list, out), nil
	}, nil)
}

// replace gives a configuration with the gateway in the place of the servers.
func (m *Moved) replace(src []byte) ([]byte, error) {
	list, err := serversIn(m.File, src)
	if err != nil {
		return nil, err
	}
	if _, taken := list[GatewayName]; taken {
		return nil, fault.New(fault.Conflict, "%s has an MCP server %q that Remit did not write", m.File, GatewayName).WithHint("rename or remove it, then run the command again")
	}
	m.Names = slices.DeleteFunc(m.Names, func(name string) bool { return list[name] == nil })
	slices.Sort(m.Names)
	m.Before = string(src)
	edit := m.replaceJSON
	if filepath.Ext(m.File) == ".toml" {
		edit = m.replaceTOML
	}
	text, err := edit(src)
	if err != nil {
		return nil, err
	}
	m.After = digest(text)
	return text, m.checkEdit(src, text, func(list map[string]any) {
		for _, name := range m.Names {
			delete(list, name)
		}
		list[GatewayName] = m.Gateway
	})
}

// checkEdit refuses an edit that changed anything else than change does.
func (m *Moved) checkEdit(was, now []byte, change func(list map[string]any)) error {
	before, err1 := treeOf(m.File, was)
	after, err2 := treeOf(m.File, now)
	if err1 == nil && err2 == nil {
		list, ok := before[serversKey(m.File)].(map[string]any)
		if !ok {
			list = map[string]any{}
		}
		change(list)
		before[serversKey(m.File)] = list
		if got, _ := after[serversKey(m.File)].(map[string]any); got == nil && len(list) == 0 {
			after[serversKey(m.File)] = list
		}
	}
	if err1 != nil || err2 != nil || !reflect.DeepEqual(before, after) {
		return fault.New(fault.Usage, "%s is written in a form that cannot be edited", m.File).WithHint("edit its %s by hand", serversKey(m.File))
	}
	return nil
}

func (m *Moved) replaceJSON(src []byte) ([]byte, error) {
	doc, err := parse(src)
	if err != nil {
		return nil, err
	}
	removed := map[string]any{}
	at := member(&doc.root, serversKey(m.File))
	if at == nil {
		return nil, fault.New(fault.Usage, "%s has no MCP servers", m.File)
	}
	for _, name := range m.Names {
		removed[name] = decode(*member(at, name))
		dropMember(at.Value.(*hujson.Object), name)
	}
	text, err := json.Marshal(removed)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "a server cannot be encoded")
	}
	m.Removed = string(text)
	if _, err := addMember(at, GatewayName, m.Gateway, 2); err != nil {
		return nil, err
	}
	return doc.bytes(), nil
}

var tomlServer = regex.Lazy(`^\s*\[\s*mcp_servers\s*\.\s*("[^"\\]*"|'[^']*'|[A-Za-z0-9_-]+)\s*[.\]]`)

// cutTOML takes the tables of servers out of a file. What comes with multi-line texts or other forms is
// noticed when the result is compared.
func cutTOML(src []byte, names []string) (kept, cut []byte) {
	inside := false
	for line := range bytes.Lines(src) {
		if bytes.HasPrefix(bytes.TrimLeft(line, " \t"), []byte("[")) {
			found := tomlServer.FindStringSubmatch(string(line))
			inside = found != nil && slices.Contains(names, strings.Trim(found[1], `"'`))
		}
		if inside {
			cut = append(cut, line...)
		} else {
			kept = append(kept, line...)
		}
	}
	return kept, cut
}

func (m *Moved) replaceTOML(src []byte) ([]byte, error) {
	kept, cut := cutTOML(src, m.Names)
	m.Removed = string(cut)
	entry, err := tomlEntry(m.Gateway)
	return withBlock(kept, entry), err
}

// tomlEntry writes the gateway's entry as TOML.
func tomlEntry(entry map[string]any) (string, error) {
	text := func(v any) string {
		b, err := json.Marshal(v) // a basic string of TOML is written like one of JSON
		if err != nil {
			return `""`
		}
		return string(b)
	}
	env, _ := entry["env"].(map[string]any)
	args, _ := entry["args"].([]any)
	words := make([]string, len(args))
	for i, w := range args {
		words[i] = text(w)
	}
	return fmt.Sprintf("[mcp_servers.%s]\ncommand = %s\nargs = [%s]\nenv = { REMIT_HOME = %s }\n", GatewayName, text(entry["command"]), strings.Join(words, ", "), text(env["REMIT_HOME"])), nil
}

func withBlock(src []byte, block string) []byte {
	out := bytes.Clone(src)
	if len(out) > 0 && !bytes.HasSuffix(out, []byte("\n")) {
		out = append(out, '\n')
	}
	return append(out, block...)
}

// restoreServers gives a configuration with its servers again, and without the gateway. Where the file is
// unchanged since, the result is the former file, to the byte.
func (m Moved) restoreServers(now []byte) ([]byte, error) {
	if now == nil || digest(now) == m.After {
		return []byte(m.Before), nil
	}
	list, err := serversIn(m.File, now)
	if err != nil {
		return nil, err
	}
	if _, there := list[GatewayName]; !there { // it was never written, or its owner took it out
		return now, nil
	}
	if !reflect.DeepEqual(list[GatewayName], any(m.Gateway)) {
		return nil, fault.New(fault.Conflict, "the MCP server %q in %s was changed", GatewayName, m.File).WithHint("remove it there by hand")
	}
	text, missing, err := m.restore(now, list)
	if err != nil {
		return nil, err
	}
	return text, m.checkEdit(now, text, func(list map[string]any) {
		delete(list, GatewayName)
		maps.Copy(list, missing)
	})
}

// restore puts the servers back that are missing, into a file that was changed since.
func (m Moved) restore(now []byte, list map[string]any) (text []byte, missing map[string]any, err error) {
	if filepath.Ext(m.File) == ".toml" {
		if missing, err = serversIn(m.File, []byte(m.Removed)); err != nil {
			return nil, nil, err
		}
		kept, _ := cutTOML(now, []string{GatewayName})
		return withBlock(kept, m.Removed), missing, nil
	}
	if err := json.Unmarshal([]byte(m.Removed), &missing); err != nil {
		return nil, nil, fault.Wrap(fault.StoreCorrupt, err, "the servers of %s cannot be read", m.File)
	}
	doc, err := parse(now)
	if err != nil {
		return nil, nil, err
	}
	at := member(&doc.root, serversKey(m.File))
	dropMember(at.Value.(*hujson.Object), GatewayName)
	for _, name := range slices.Sorted(maps.Keys(missing)) {
		if _, there := list[name]; there {
			delete(missing, name)
			continue
		}
		if _, err := addMember(at, name, missing[name], 2); err != nil {
			return nil, nil, err
		}
	}
	return doc.bytes(), missing, nil
}

// RestoreServers puts the servers back that were moved. It reports the file, and whether there was
// something to restore.
func (s *Clients) RestoreServers(name string, scope Scope, folder string) (file string, was bool, err error) {
	a, err := find(name)
	if err != nil {
		return "", false, err
	}
	at, ok := a.serversPlace(scope, s, folder)
	if !ok {
		return "", false, nil
	}
	key := Moved{Agent: name, File: at.file()}.Key()
	list, err := s.moved().List()
	if _, known := home.Entry(list, key); err != nil || !known {
		return at.file(), false, err
	}
	return at.file(), true, s.moved().Change("restore-servers", key, func(list []Moved) ([]Moved, error) {
		one, known := home.Entry(list, key)
		if !known {
			return list, nil
		}
		now, err := at.read()
		if err != nil {
			return nil, err
		}
		text, err := one.restoreServers(now)
		if err == nil && string(text) != string(now) {
			_, err = at.write(now, text, scope.mode())
		}
		s.step("restored " + one.File)
		return home.Without(list, key), err
	}, nil)
}

var notInName = regex.Lazy(`[^A-Za-z0-9_-]`)

// OwnGateway reports whether what an agent that works in these folders calls the MCP server "remit" can only be
// Remit's own gateway: each of the agent's files that has a server of that name has exactly the entry that
// Remit wrote there, at least one has it, and no other server's tools could be named like its own. Agents name
// a tool mcp__SERVER__TOOL, so a server called remit__x could pass for it.
func (s *Clients) OwnGateway(name string, dirs ...string) bool {
	a, err := find(name)
	if err != nil {
		return false
	}
	list, err := s.moved().List()
	if err != nil {
		return false
	}
	ours := map[string]Moved{}
	folders := slices.Clone(dirs)
	for _, one := range list {
		if one.Agent != name {
			continue
		}
		ours[one.File] = one
		for _, dir := range dirs {
			folders = append(folders, foldersBetween(one, dir)...)
		}
	}
	slices.Sort(folders)
	folders = slices.Compact(folders)
	found := false
	for _, folder := range folders {
		for _, scope := range []Scope{Project, User, Managed} {
			at, ok := a.serversPlace(scope, s, folder)
			if !ok {
				continue
			}
			has, fine := s.gatewayIn(at, ours, folders)
			if !fine {
				return false
			}
			found = found || has
		}
	}
	return found
}

// foldersBetween lists the folders from dir up to the project whose servers were moved; nil: dir is not in it.
func foldersBetween(one Moved, dir string) (out []string) {
	in, err := filepath.Rel(one.Folder, dir)
	if one.Scope != Project || err != nil || !filepath.IsLocal(in) {
		return nil
	}
	for at := dir; len(at) >= len(one.Folder); at = filepath.Dir(at) {
		out = append(out, at)
		if at == one.Folder || at == filepath.Dir(at) {
			break
		}
	}
	return out
}

// gatewayIn looks for the gateway in one file; fine is false where another server could pass for it.
func (s *Clients) gatewayIn(at place, ours map[string]Moved, folders []string) (has, fine bool) {
	src, err := at.read()
	if err != nil {
		return false, false
	}
	if src == nil {
		return false, true
	}
	tree, err := treeOf(at.file(), src)
	if err != nil {
		return false, false
	}
	top, _ := tree[serversKey(at.file())].(map[string]any)
	lists := []map[string]any{top}
	projects, _ := tree["projects"].(map[string]any) // Claude Code lists servers of projects in the user's file
	for _, folder := range folders {
		one, _ := projects[folder].(map[string]any)
		own, _ := one["mcpServers"].(map[string]any)
		lists = append(lists, own)
	}
	for i, list := range lists {
		for name, entry := range list {
			plain := notInName.ReplaceAllString(name, "_")
			one, known := ours[at.file()]
			switch {
			case plain == GatewayName && i == 0 && name == GatewayName && known && reflect.DeepEqual(entry, any(one.Gateway)):
				has = true
			case plain == GatewayName || strings.HasPrefix(plain, GatewayName+"_"):
				return false, false
			}
		}
	}
	return has, true
}
