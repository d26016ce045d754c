package app

import (
	"cmp"
	"context"
	"os"
	"path/filepath"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/servers"
)

// clientsOf wires the agents of this machine.
func (a *App) clientsOf() *clients.Clients {
	exe, _ := os.Executable() // "": an installation says that the path is not known
	c := &clients.Clients{Home: a.Home, Logins: a.Secrets.Logins, Root: "/", Exe: exe, Hook: clients.HookBeside(exe), Run: runLine, Policy: a.Policies.Missing}
	c.UseCopies(filepath.Join(a.Home.Env("").Home, ".local/bin"))
	return c
}

// SetupRequest says how to set up a workspace.
type SetupRequest struct {
	Workspace string
	Profile   string // "": the trusted remit.yaml, or else the default profile
	// Registries: the person's package registries may be read, by approval. Nil: those of the project.
	Registries *bool
	// Moved are the MCP servers, as Remit calls them, that agents will use by the gateway. A new
	// policy asks about their tools.
	Moved []string
}

// Setup is how a workspace is set up, or will be.
type Setup struct {
	Policy   string // the file
	Profile  profile.Profile
	New      bool   // the policy is written from the profile; else it is there and trusted
	Copies   string // the folder to which the programs are copied from a cache; "": they stay where they are
	written  bool   // New, and the file is there already
	Agents   []clients.Found
	Unhooked []clients.Found // they can run in the sandbox as a whole
	// Registries are the package registries that were looked for and found. Source is the policy with them and with the folders of Tools.
	Registries []servers.OwnRegistries
	Source     string
	// Tools are folders of the person with programs, which the policy adds to commands.path.
	Tools   []sandbox.ToolFolder
	Caches  []sandbox.PackageCache // folders of the person with packages, which commands may read
	Servers []AgentServers         // MCP servers that the agents start by themselves
}

// AgentServers are the MCP servers in one agent's configuration.
type AgentServers struct {
	Agent, Title string
	Scope        clients.Scope
	File         string
	Names        []string
}

// AgentSetup is the result for one agent.
type AgentSetup struct {
	clients.State
	Err error // why the hook was not installed
}

// PlanSetup tells what [App.SetUp] would do. It refuses a remit.yaml that nobody trusted: a
// repository can bring one.
func (a *App) PlanSetup(ctx context.Context, q SetupRequest) (Setup, error) {
	name := cmp.Or(q.Profile, profile.Default)
	from, err := a.Policies.Holder(q.Workspace)
	out := Setup{Policy: filepath.Join(from, "remit.yaml"), Copies: a.Clients.CopiesTo(), Agents: a.Clients.Found(), Unhooked: a.Clients.Unhooked()}
	if err != nil {
		return out, err
	}
	if out.Profile, err = profile.Find(name); err != nil {
		return out, err
	}
	out.Servers = a.planServers(q, out.Agents)
	if q.Workspace == "/" || q.Workspace == a.Home.Env("").Home {
		return out, fault.New(fault.Usage, "%s is not a project: an agent would work on all of it", q.Workspace).
			WithHint("run remit init in the folder of a project, or name one with -w")
	}
	src, trusted, err := a.Policies.Own(from)
	if err == nil {
		err = a.fillIn(ctx, q, &out, servers.Managers(q.Registries, !trusted && out.Profile.Name == profile.Default, q.Workspace))
	}
	switch {
	case err != nil:
		return out, err
	case src == nil:
		out.New = true
	case !trusted && string(src) == out.Source:
		out.New, out.written = true, true // by a process that ended before it trusted it: the same would be written now
	case !trusted:
		return out, fault.New(fault.Conflict, "%s is there already, and you have not trusted it as it is now", out.Policy).
			WithHint("read it, then run remit policy trust; or remove it. Then run remit init again")
	case q.Profile != "" && !strings.HasPrefix(string(src), out.Source) && string(src) != out.Profile.Source:
		return out, fault.New(fault.Conflict, "%s is there already, and is not the profile %s", out.Policy, q.Profile).
			WithHint("leave --profile out to keep the policy, or remove the file")
	}
	return out, nil
}

// fillIn makes the policy of a profile, for this person and machine, with the registries of package managers.
func (a *App) fillIn(ctx context.Context, q SetupRequest, out *Setup, managers []string) (err error) {
	out.Source = out.Profile.Source
	home := a.Home.Env("").Home
	for _, f := range sandbox.ToolFolders(home, q.Workspace, a.Home.SearchPath()) {
		own := f.Dir == q.Workspace || strings.HasPrefix(f.Dir, q.Workspace+"/")
		if !own && out.add(profile.AddPrograms(out.Source, f.Dir, f.Root, home)) {
			out.Tools = append(out.Tools, f)
		}
	}
	if len(managers) > 0 {
		out.Registries = a.Servers.OwnRegistries(ctx, managers)
		out.Source, err = withRegistries(out.Profile.Name, out.Source, out.Registries)
	}
	for _, c := range sandbox.PackageCaches(q.Workspace, home, a.Home.Lookup) {
		if out.add(profile.AddReadable(out.Source, c.Dir, home)) {
			out.Caches = append(out.Caches, c)
		}
	}
	return err
}

// add changes the policy, unless the result is none: a name can be one that no policy can have.
func (s *Setup) add(source string, ok bool) bool {
	if !ok {
		return false
	}
	if _, err := policy.Parse(s.Profile.Name, []byte(source)); err != nil {
		return false
	}
	s.Source = source
	return true
}

// withRegistries adds entries of network.ask to a profile: a person is asked before a command
// may read from a package registry.
func withRegistries(name, source string, list []servers.OwnRegistries) (string, error) {
	var entries []profile.Entry
	for _, r := range list {
		for _, e := range r.Entries {
			entries = append(entries, profile.Entry{Pattern: e, About: r.Manager})
		}
	}
	src, ok := profile.AddQuestions(source, "Package registries of your own settings: you are asked before a command reads from one.", entries)
	if !ok {
		return "", fault.New(fault.Usage, "the profile %s has a network section of its own", name).
			WithHint("leave --registries out, and add the entries that it would show to remit.yaml: remit init --registries --profile coding")
	}
	_, err := policy.Parse(name, []byte(src))
	return src, err
}

// planServers finds the MCP servers of the agents, without Remit's own. A file that cannot be read is
// left to the agent: the hook decides the calls of its servers.
func (a *App) planServers(q SetupRequest, found []clients.Found) (out []AgentServers) {
	for _, f := range found {
		for _, scope := range []clients.Scope{clients.Project, clients.User} {
			file, names, err := a.Clients.Servers(f.Name, scope, q.Workspace)
			if err == nil && len(names) > 0 {
				out = append(out, AgentServers{f.Name, f.Title, scope, file, names})
			}
		}
	}
	return out
}

// policyText is the policy that is written: the profile, and a question for each tool of the moved servers. A profile with
// a section tools asks about them already, and gets the line that allows them.
func (s Setup) policyText(moved []string) string {
	if len(moved) == 0 {
		return s.Source
	}
	list := `["mcp:` + strings.Join(moved, `:*", "mcp:`) + `:*"]`
	const about = "\n# MCP servers that the agents use by Remit's gateway.\n"
	if p, err := policy.Parse("remit.yaml", []byte(s.Source)); err == nil && p.Mentions("tools") {
		return s.Source + about + "# You are asked about their tools. To allow them, write above: tools: {unlisted: ask, allow: " + list + "}\n"
	}
	return s.Source + about + "tools: {ask: " + list + "}\n"
}

// SetUp writes and trusts the policy, installs the hooks of all agents that were found, and
// proves each. An agent that fails does not keep the others from being set up.
func (a *App) SetUp(ctx context.Context, q SetupRequest, plan Setup) ([]AgentSetup, error) {
	if plan.written {
		if _, _, err := a.Policies.Trust(q.Workspace, runner.DigestOf([]byte(plan.Source)).String()); err != nil {
			return nil, err
		}
	} else if plan.New {
		if err := a.Policies.Create(q.Workspace, plan.policyText(q.Moved)); err != nil {
			return nil, err
		}
	}
	var out []AgentSetup
	for _, found := range plan.Agents {
		st, err := a.InstallHook(ctx, clients.Request{Agent: found.Name, Scope: clients.Project, Folder: q.Workspace})
		if st.Title == "" {
			st.Agent, st.Title = found.Name, found.Title
		}
		out = append(out, AgentSetup{st, err})
	}
	return out, nil
}

// InstallHook installs the hook of one agent, proves it, and tells how it stands.
func (a *App) InstallHook(ctx context.Context, q clients.Request) (clients.State, error) {
	one, _, err := a.Clients.Install(q)
	if err != nil {
		return clients.State{}, err
	}
	if _, err := a.Clients.Prove(ctx, one); err != nil {
		return clients.State{}, err
	}
	return a.Clients.Find(one.Key())
}
