// Package servers keeps the MCP servers that a person added: their configuration, their logins,
// and the source of tools that each is. Start at [Servers.Add] and [Servers.Sources].
package servers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/secret"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/runs"
	"github.com/remitrun/remit/internal/service/secrets"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
	NewFolder(p permit.Permit, bytes int64, files int) (*sandbox.Folder, error)
}

// Servers are the MCP servers of one $REMIT_HOME.
type Servers struct {
	Home    *home.Home
	Secrets *secrets.Secrets
	Runs    *runs.Runs
	Box     Box
	BuiltIn func() []permit.Tool // the tools that are compiled in

	Offers Offers // what the servers offer besides tools
}

// MCPWithin says that an argument of a server's tools is a path or a URL.
type MCPWithin = mcpsource.Within

// Server is one MCP server as mcp.json has it.
type Server struct {
	Name    string            `json:"-"`
	URL     string            `json:"url,omitempty"`     // of a server elsewhere
	Command []string          `json:"command,omitempty"` // of a server that Remit starts
	Env     map[string]string `json:"env,omitempty"`
	// Secrets are variables whose values are stored secrets, by the variable. They hold if the
	// server has no policy of its own.
	Secrets map[string]string `json:"secrets,omitempty"`
	// Headers are headers of the requests to a server elsewhere whose values are stored
	// secrets, by the header. They hold if the server has no policy of its own.
	Headers map[string]string `json:"headers,omitempty"`
	// Package is the pinned package that the command names; nil: the command is a program
	// of this machine.
	Package *Package `json:"package,omitempty"`
	// Paths are folders that the command names and that the server may read and write, if
	// it has no policy of its own.
	Paths []string `json:"paths,omitempty"`
	// Folder is where the server starts, and the workspace of its policy. "": a
	// folder of its own.
	Folder string `json:"folder,omitempty"`
	// Policy bounds the server: its text, as it was when the server was added, so
	// that nobody widens it by writing to a file. "": its folder alone.
	Policy     string `json:"policy,omitempty"`
	PolicyFile string `json:"policy_file,omitempty"` // where that was read, for messages
	// Within says which arguments of its tools are paths or URLs: the rules of
	// whoever calls then decide them too, always.
	Within []MCPWithin `json:"within,omitempty"`
	// Asks are the requests that the server may send to its callers, where their policies allow
	// them too: of "elicitation", "sampling" and "roots".
	Asks []string `json:"asks,omitempty"`
	// Protocol is the revision of MCP that is spoken with the server; "": the newest
	// that both know.
	Protocol string `json:"protocol,omitempty"`
	// TokenURL is where tokens of a login are renewed; "": nobody has logged in.
	TokenURL string `json:"token_url,omitempty"`
	By       string `json:"by"` // who added it, and so approved its command
}

// Key is the server's name.
func (s Server) Key() string { return s.Name }

// mcpFile is mcp.json.
type mcpFile struct {
	Servers map[string]Server `json:"servers"`
}

var mcpName = regex.Lazy(`^[a-z0-9][a-z0-9_-]{0,39}$`)

// mcpLock is held while the list of servers or a login at one of them is changed.
const mcpLock = "mcp.lock"

func (m *Servers) added() home.Collection[Server] {
	return home.Collection[Server]{
		Home: m.Home, File: "mcp.json", Article: "an", One: "MCP server", Again: "add the servers", Command: "remit mcp", Unknown: fault.Usage,
		Decode: m.decode,
		Encode: func(list []Server) any {
			f := mcpFile{Servers: map[string]Server{}}
			for _, s := range list {
				f.Servers[s.Name] = s
			}
			return f
		},
	}
}

// decode reads mcp.json as strictly as every other file that grants authority.
func (m *Servers) decode(src []byte) ([]Server, error) {
	if _, err := canon.Decode(src); err != nil {
		return nil, err
	}
	var f mcpFile
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	if err := d.Decode(&f); err != nil {
		return nil, err
	}
	var list []Server
	for name, s := range f.Servers {
		s.Name = name
		if s.Package != nil {
			s.Package.folder = m.packageDir(s.Package.Lock)
		}
		if err := m.checkMCP(s); err != nil {
			return nil, err
		}
		list = append(list, s)
	}
	return list, nil
}

// List lists the servers that were added, by name.
func (m *Servers) List() ([]Server, error) { return m.added().List() }

// Find finds a server by its name.
func (m *Servers) Find(name string) (Server, error) { return m.added().Find(name) }

// Free reports a name under which no server can be added.
func (m *Servers) Free(name string, replace bool) error {
	if !mcpName.MatchString(name) {
		return badName(name)
	}
	if _, err := m.Find(name); err == nil && !replace {
		return taken(name)
	}
	return nil
}

func taken(name string) error {
	return fault.New(fault.Usage, "there is an MCP server %q already", name).WithHint("--replace puts this one in its place")
}

func badName(name string) error {
	return fault.New(fault.Usage, "%q is not a valid server name; expected lower-case letters, digits, _ and -, at most 40", name)
}

// Add adds a server, or with replace changes one. Nothing is started.
func (m *Servers) Add(s Server, replace bool) error {
	s.By = home.Person()
	if err := m.checkMCP(s); err != nil {
		return err
	}
	return m.added().Change("add", s.Name, func(list []Server) ([]Server, error) {
		was, there := home.Entry(list, s.Name)
		if there && !replace {
			return nil, taken(s.Name)
		}
		if there && was.URL != s.URL {
			if err := m.dropSecret(loginSecret(s.Name)); err != nil {
				return nil, err
			}
		}
		return home.With(list, s), m.dropUnused(was, s)
	}, nil)
}

// dropUnused removes the secrets of a server that its replacement does not have.
func (m *Servers) dropUnused(was, now Server) error {
	kept := append(slices.Collect(maps.Values(now.Secrets)), slices.Collect(maps.Values(now.Headers))...)
	for _, stored := range append(slices.Collect(maps.Values(was.Secrets)), slices.Collect(maps.Values(was.Headers))...) {
		if slices.Contains(kept, stored) {
			continue
		}
		if err := m.dropSecret(stored); err != nil {
			return err
		}
	}
	return nil
}

// Import adds a server of another client's file. Variables that are secret are moved to the store.
func (m *Servers) Import(i Imported, replace bool) error {
	if i.Err != nil {
		return i.Err
	}
	s := i.Server
	if err := errors.Join(m.Free(s.Name, replace), m.checkMCP(s)); err != nil {
		return err
	}
	if i.bundle != nil {
		if err := m.keepBundle(&s, i.bundle); err != nil {
			return err
		}
	}
	values := map[string]string{}
	plain := map[string]string{}
	s.Secrets = map[string]string{}
	for name, value := range s.Env {
		secretly := len(value) >= secret.MinValue && (redact.SecretName(name) || formats.Text(value) != value)
		if !secretly && !slices.Contains(i.secret, name) {
			plain[name] = value
			continue
		}
		stored := secrets.NameFor("mcp-env-", s.Name+"-"+strings.ToLower(name))
		if _, taken := values[stored]; taken {
			return fault.New(fault.Usage, "two of its variables differ only in upper and lower case: %s", name)
		}
		s.Secrets[name], values[stored] = stored, value
	}
	s.Env, s.Headers = plain, map[string]string{}
	for header, value := range i.Headers {
		stored := secrets.NameFor("mcp-header-", s.Name+"-"+strings.ToLower(header))
		if _, taken := values[stored]; taken || len(value) < secret.MinValue {
			return fault.New(fault.Usage, "its header %s cannot be stored as a secret: it is given twice, or has less than %d bytes", clip.Text(header, 60), secret.MinValue)
		}
		s.Headers[header], values[stored] = stored, value
	}
	if err := m.checkMCP(s); err != nil {
		return err
	}
	for _, stored := range slices.Sorted(maps.Keys(values)) {
		if _, err := m.Secrets.Set(stored, values[stored]); err != nil {
			return err
		}
	}
	return m.Add(s, replace)
}

// formats finds secrets by their format alone.
var formats = redact.New(nil)

// Remove deletes a server, its stored login and the secrets that its import stored. The server's
// folder is kept.
func (m *Servers) Remove(name string) error {
	return m.added().Change("remove", name, func(list []Server) ([]Server, error) {
		s, err := m.Find(name)
		if err != nil {
			return nil, err
		}
		if err := m.dropUnused(s, Server{}); err != nil {
			return nil, err
		}
		return home.Without(list, name), m.dropSecret(loginSecret(name))
	}, nil)
}

// checkMCP reports the first error in a server's configuration.
func (m *Servers) checkMCP(s Server) error {
	if !mcpName.MatchString(s.Name) {
		return badName(s.Name)
	}
	if err := errors.Join(s.checkReach(), s.Package.check()); err != nil {
		return err
	}
	if s.Folder != "" && !filepath.IsAbs(s.Folder) {
		return fault.New(fault.Usage, "the folder %q of the MCP server %q is not absolute", s.Folder, s.Name)
	}
	for _, w := range s.Within {
		if err := w.Check(); err != nil {
			return err
		}
	}
	if err := s.checkTalk(); err != nil {
		return err
	}
	p, err := s.policy()
	if err != nil {
		return err
	}
	bound, err := p.Bind(m.Home.Env(m.Folder(s)))
	if err != nil {
		return err
	}
	allowed := policy.Chain{bound}.Limits().Env
	for name := range s.Env {
		if !slices.Contains(allowed, name) {
			return fault.New(fault.Usage, "the variable %q is not in commands.env of the server's policy", name).
				WithHint("add it there: env: [%s]", name)
		}
	}
	return nil
}

// checkReach reports a fault in the command or address of a server.
func (s Server) checkReach() error {
	if s.URL == "" {
		if len(s.Headers) > 0 {
			return fault.New(fault.Usage, "the MCP server %q is started here: it has no headers", s.Name)
		}
		if len(s.Command) == 0 || s.Command[0] == "" {
			return fault.New(fault.Usage, "the command of the MCP server %q is missing", s.Name)
		}
		return nil
	}
	if s.Policy != "" && len(s.Headers) > 0 {
		return fault.New(fault.Usage, "the MCP server %q has a policy of its own, which must name the secrets of its headers", s.Name)
	}
	if len(s.Command) > 0 || len(s.Env)+len(s.Secrets) > 0 || s.Folder != "" || s.Package != nil {
		return fault.New(fault.Usage, "the MCP server %q is elsewhere: it has no command, variables or folder here", s.Name)
	}
	to, err := target.Parse("POST", s.URL)
	if err == nil && (to.Scheme != "https" && to.Scheme != "http" || strings.ContainsAny(s.URL, "?#")) {
		err = fault.New(fault.Usage, "only http and https without a query")
	}
	if err != nil {
		return fault.New(fault.Usage, "the URL of the MCP server %q cannot be used: %s", s.Name, fault.Message(err))
	}
	return nil
}

// serverAsks are the requests that a server may be allowed to send to its callers.
var serverAsks = []string{"elicitation", "sampling", "roots"}

// checkTalk reports a fault in the settings of a server's protocol.
func (s Server) checkTalk() error {
	for i, what := range s.Asks {
		if !slices.Contains(serverAsks, what) || slices.Contains(s.Asks[:i], what) {
			return fault.New(fault.Usage, "%q is not elicitation, sampling or roots, once each", what)
		}
	}
	if s.Protocol != "" && !slices.Contains(mcpsource.Protocols(), s.Protocol) {
		return fault.New(fault.Usage, "%q is not a supported MCP version", s.Protocol).WithHint("one of %s", strings.Join(mcpsource.Protocols(), ", "))
	}
	return nil
}

func (s Server) asks() policy.MCP {
	return policy.MCP{Elicitation: slices.Contains(s.Asks, "elicitation"), Sampling: slices.Contains(s.Asks, "sampling"), Roots: slices.Contains(s.Asks, "roots")}
}

// Folder is where a server starts. A folder of its own is beside Remit's home
// and not in it, as nothing confined ever sees that.
func (m *Servers) Folder(s Server) string {
	if s.Folder != "" {
		return s.Folder
	}
	return filepath.Join(m.Home.Dir+"-mcp", s.Name)
}

// policy is what bounds the server.
func (s Server) policy() (*policy.Policy, error) {
	if s.Policy != "" {
		p, err := policy.Parse(s.PolicyFile, []byte(s.Policy))
		if err != nil {
			return nil, err
		}
		return s.readPaths(p)
	}
	p, err := policy.Parse("(default policy of MCP server "+s.Name+")", []byte(s.DefaultPolicy()))
	if err != nil {
		return nil, err
	}
	return s.readPaths(p)
}

// DefaultPolicy is the policy of a server that was added without one: its folder and Paths, no
// network, and of the environment only variables given with --env.
func (s Server) DefaultPolicy() string {
	if s.URL != "" {
		allow := fmt.Sprintf("%q", s.URL)
		for i, header := range slices.Sorted(maps.Keys(s.Headers)) {
			if i == 0 {
				allow = ""
			} else {
				allow += ", "
			}
			allow += fmt.Sprintf("{url: %q, secret: {header: %q, store: %q}}", s.URL, header, s.Headers[header])
		}
		if s.TokenURL != "" {
			allow += fmt.Sprintf(", %q", "POST "+s.TokenURL)
		}
		return fmt.Sprintf("version: 1\nname: %q\nnetwork:\n  allow: [%s]\n  max_bytes: 32MiB\n  timeout: 5m\n", "mcp "+s.Name, allow)
	}
	names := make([]string, 0, len(s.Env))
	for name := range s.Env {
		names = append(names, fmt.Sprintf("%q", name))
	}
	slices.Sort(names)
	files := `"**"`
	for _, dir := range s.Paths {
		files += fmt.Sprintf(", %q, %q", glob.Escape(dir), glob.Escape(dir)+"/**")
	}
	text := fmt.Sprintf("version: 1\nname: %q\nfiles:\n  read: {allow: [%s]}\n  write: {allow: [%s]}\ncommands: {env: [%s]}\n",
		"mcp "+s.Name, files, files, strings.Join(names, ", "))
	if len(s.Secrets) > 0 {
		text += "secrets:\n"
	}
	for _, name := range slices.Sorted(maps.Keys(s.Secrets)) {
		text += fmt.Sprintf("  - {name: %q, tools: [%s], env: %q}\n", s.Secrets[name], mcpServerID, name)
	}
	return text
}
