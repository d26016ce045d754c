package cli

import (
	"context"
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/authority/policy/profile"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/clients"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/servers"
)

// initHelp is the help of remit init.
var initHelp = `Creates the ledger in $REMIT_HOME if there is none. Then it finds the agents on
this machine (` + strings.Join(clients.Names(), ", ") + `), shows the
planned changes, and makes them with --yes or when you agree: it writes a policy
for the workspace, trusts it, installs a hook in each agent's settings for this
workspace, and proves each hook with a canary: one call must be denied, another
one allowed. remit doctor keeps showing the result, and remit agents remove
takes a hook out.

MCP servers of the project are shown. If you agree (with --yes: --mcp) they are
imported, as by remit mcp import, and replaced in the agents' settings by
Remit's gateway, which decides and records their calls. A new policy asks about
their tools. remit agents remove puts them back.

A remit.yaml that is there already is kept if you trust it, and refused if not:
a repository cannot give itself rights.

The profile coding gets entries of network.ask for reading from the package
registries that your npm, pip, uv, Go and cargo use, as far as the project's
files show that it uses them; --registries looks for all of them. Your agent
asks you before a command reads from them. Settings of the project are not read,
because others can write to them.

Profiles: ` + strings.Join(profile.Names(), ", ") + `.

If the ledger's file is lost but its keys remain, Remit does not create a new
ledger by itself: restore the file from a backup. Without a backup,
--new-ledger starts over with a new origin and new keys. Grants of the old
ledger are then not accepted, and the old keys are moved to keys/retired. An
existing ledger is never replaced.

The exit status is 1 if a hook could not be installed and proved.
`

func (s *session) initCmd() *cobra.Command {
	var anew, yes, mcp, registries bool
	var dir, profileName string
	c := &cobra.Command{
		Use:   "init",
		Short: "Set up a project: a policy, and hooks in the agents that you have",
		Long:  initHelp,
		Example: `  remit init
  remit init --yes --profile read-only -w ~/project
  remit init --new-ledger`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			b, err := a.Init(cmd.Context(), anew)
			if err != nil {
				return err
			}
			if anew {
				return s.printNewLedger(b)
			}
			q := app.SetupRequest{Profile: profileName}
			if cmd.Flags().Changed("registries") {
				q.Registries = &registries
			}
			if q.Workspace, err = home.Workspace(dir); err != nil {
				return err
			}
			return s.setUp(cmd.Context(), a, b, q, yes, mcp)
		},
	}
	c.Flags().BoolVar(&anew, "new-ledger", false, "replace a lost ledger by a new one, with a new origin and new keys, and do nothing else")
	c.Flags().BoolVar(&yes, "yes", false, "do it without asking")
	c.Flags().BoolVar(&registries, "registries", false, "let commands read from package registries, by approval (default: those of the project's tools)")
	c.Flags().BoolVar(&mcp, "mcp", false, "with --yes, also move the project's MCP servers behind Remit's gateway")
	c.Flags().StringVar(&profileName, "profile", "", "ready policy to write, by `NAME` (default: "+profile.Default+")")
	c.Flags().StringVarP(&dir, "workspace", "w", "", "workspace `DIR` (default: the current folder)")
	return c
}

func (s *session) printNewLedger(b app.Begun) error {
	if s.json {
		return s.printJSON(map[string]any{"home": b.Home, "origin": b.Origin, "retired": b.Retired.Folder, "old_origin": b.Retired.Origin})
	}
	s.printf("%s new ledger created: %s\n  the old keys are in %s\n", s.paint(green, "✓"), show(b.Origin), show(b.Retired.Folder))
	return nil
}

// setUp shows the plan and, if the person agrees, carries it out.
func (s *session) setUp(ctx context.Context, a *app.App, b app.Begun, q app.SetupRequest, yes, mcp bool) error {
	plan, err := a.PlanSetup(ctx, q)
	if err != nil && yes {
		return err
	}
	if !s.json {
		s.printf("%s the ledger is ready: %s\n", s.paint(green, "✓"), show(b.Origin))
	}
	if err == nil && !yes {
		s.printPlan(plan, q)
		if yes, err = s.agrees(ctx, "do it"); yes && err == nil && len(movable(plan)) > 0 {
			mcp, err = s.agrees(ctx, "also move the project's MCP servers behind Remit's gateway")
		}
	}
	if err != nil && !s.json { // the ledger was made, which was asked for too
		s.printf("\n")
		s.complainAs(s.paintErr(yellow, "! the project is not set up:"), err)
		return nil
	}
	var done []app.AgentSetup
	var moved []movedServers
	if yes && mcp {
		moved = s.importServers(ctx, a, plan)
		for _, one := range moved {
			q.Moved = append(q.Moved, slices.Sorted(maps.Values(one.names))...)
		}
		slices.Sort(q.Moved)
		q.Moved = slices.Compact(q.Moved)
	}
	if yes {
		if done, err = a.SetUp(ctx, q, plan); err != nil {
			return err
		}
		s.moveServers(a, q, moved)
	}
	if s.json {
		return s.printSetupJSON(b, plan, done, moved, yes, err)
	}
	if !yes {
		s.printf("\nnothing was changed; to do it: remit init --yes\n")
		return nil
	}
	return s.printSetup(plan, done, moved)
}

// agrees asks the person, if there is a terminal.
func (s *session) agrees(ctx context.Context, question string) (bool, error) {
	in, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) || !isTerminal(s.Out) {
		return false, nil
	}
	s.printf("\n")
	return s.askYesOrNo(ctx, in, question)
}

func (s *session) printPlan(plan app.Setup, q app.SetupRequest) {
	if s.json {
		return
	}
	s.printf("\nfor %s:\n", show(q.Workspace))
	if plan.New {
		s.item("•", "write remit.yaml and trust it. Profile "+plan.Profile.Name+": "+plan.Profile.About)
	} else {
		s.item("•", "keep remit.yaml, which you trust")
	}
	if plan.New && len(plan.Tools) > 0 {
		s.item("•", toolsLine(plan))
	}
	if plan.New && len(plan.Caches) > 0 {
		s.item("•", cachesLine(plan))
	}
	for _, r := range plan.Registries {
		s.item("•", registriesLine(r, plan.New))
	}
	if plan.Copies != "" && len(plan.Agents) > 0 {
		s.item("•", copiesLine(plan.Copies))
	}
	for _, f := range plan.Agents {
		s.item("•", "install a hook for "+f.Title+" ("+f.At+") and prove it")
	}
	if len(plan.Agents) == 0 {
		s.item("•", "no agent was found: looked for "+strings.Join(clients.Names(), ", "))
	}
	for _, f := range plan.Unhooked {
		s.item("!", unhookedLine(f))
	}
	s.printServers(plan)
}

// unhookedLine tells how to confine an agent that has no hook.
func unhookedLine(f clients.Found) string {
	return f.Title + " (" + f.At + ") has no hook: start it with remit exec -- " + f.Name
}

// copiesLine tells where the programs of a cache are copied to.
func copiesLine(folder string) string {
	return "copy remit and remit-hook to " + folder + ", in place of any there: agents start them later, and npx may delete its cache"
}

// toolsLine tells in which further folders commands find programs.
func toolsLine(plan app.Setup) string {
	var dirs []string
	for _, f := range plan.Tools {
		dirs = append(dirs, f.Dir)
	}
	return "commands find your programs in " + strings.Join(dirs, ", ") + " too (commands.path)"
}

// cachesLine tells which caches of the person commands read.
func cachesLine(plan app.Setup) string {
	var dirs []string
	for _, c := range plan.Caches {
		dirs = append(dirs, c.Dir)
	}
	return "commands read the packages that you have in " + strings.Join(dirs, ", ") + " (files.read)"
}

// registriesLine tells which registries of a package manager a policy gets.
func registriesLine(r servers.OwnRegistries, added bool) string {
	line := "ask before commands read from "
	if !added {
		line = "remit.yaml is kept; to ask before commands read from these, add to network.ask: "
	}
	switch {
	case len(r.Origins) == 0:
		return r.Manager + ": no registry is added: " + r.Problem
	case r.Problem != "":
		return line + strings.Join(r.Origins, ", ") + " (" + r.Manager + "; " + r.Problem + ")"
	}
	return line + strings.Join(r.Origins, ", ") + " (" + r.Manager + ")"
}

// setupAgentJSON is an agent as --json prints it.
type setupAgentJSON struct {
	Name      string   `json:"name"`
	Installed bool     `json:"installed"`
	Proved    bool     `json:"proved"`
	Held      bool     `json:"held"` // installed, proved, and nothing known works against it
	Confined  bool     `json:"confined"`
	Scope     string   `json:"scope,omitempty"`
	File      string   `json:"file,omitempty"`
	Proof     string   `json:"proof,omitempty"`
	Problems  []string `json:"problems"`
	Limits    []string `json:"limits"`
	Next      string   `json:"next,omitempty"`
}

func agentJSON(st clients.State, err error) setupAgentJSON {
	out := setupAgentJSON{
		Name: st.Agent, Installed: st.Present, Proved: st.Proof != nil && st.Proof.OK, Held: st.Held(), Confined: st.Confine, Scope: string(st.Scope),
		File: st.File, Problems: append([]string{}, st.Problems...), Limits: append([]string{}, st.Limits...), Next: st.Next,
	}
	if st.Proof != nil {
		out.Proof = st.Proof.Detail
	}
	if err != nil {
		out.Problems = append(out.Problems, fault.Message(err))
	}
	return out
}

func (s *session) printSetupJSON(b app.Begun, plan app.Setup, done []app.AgentSetup, moved []movedServers, did bool, problem error) error {
	agents := []setupAgentJSON{}
	for _, one := range done {
		agents = append(agents, agentJSON(one.State, one.Err))
	}
	if !did {
		for _, f := range plan.Agents {
			agents = append(agents, agentJSON(clients.State{Installed: clients.Installed{Agent: f.Name}}, nil))
		}
	}
	out := map[string]any{"home": b.Home, "origin": b.Origin, "policy": plan.Policy, "done": did, "agents": agents, "mcp_servers": serversJSON(plan, moved)}
	if plan.Registries != nil {
		out["registries"] = plan.Registries
	}
	if plan.Copies != "" {
		out["copies"] = plan.Copies
	}
	if problem != nil {
		out["problem"] = fault.Message(problem)
	}
	if plan.New {
		tools := []string{}
		for _, f := range plan.Tools {
			tools = append(tools, f.Dir)
		}
		caches := []string{}
		for _, c := range plan.Caches {
			caches = append(caches, c.Dir)
		}
		out["profile"], out["path"], out["caches"] = plan.Profile.Name, tools, caches
	}
	if err := s.printJSON(out); err != nil {
		return err
	}
	return allHeld(done).orNil()
}

// allHeld is 1 if a hook could not be installed and proved.
func allHeld(done []app.AgentSetup) exit {
	for _, one := range done {
		if one.Err != nil || !one.Held() {
			return 1
		}
	}
	return 0
}

func (s *session) printSetup(plan app.Setup, done []app.AgentSetup, moved []movedServers) error {
	state := "kept"
	if plan.New {
		state = "profile " + plan.Profile.Name + ", trusted"
	}
	s.printf("%s policy: %s (%s)\n", s.paint(green, "✓"), show(plan.Policy), state)
	if plan.New && len(plan.Tools) > 0 {
		s.printf("  %s\n", show(toolsLine(plan)))
	}
	if plan.New && len(plan.Caches) > 0 {
		s.printf("  %s\n", show(cachesLine(plan)))
	}
	for _, r := range plan.Registries {
		s.printf("  %s\n", show(registriesLine(r, plan.New)))
	}
	if plan.Copies != "" && len(done) > 0 {
		s.printf("  %s\n", show(copiesLine(plan.Copies)))
	}
	for _, one := range done {
		if one.Err != nil {
			s.printf("%s %s: the hook was not installed\n", s.paint(red, "✗"), one.Title)
			s.complain(one.Err)
			continue
		}
		s.printState(one.State)
	}
	s.printMoved(plan, moved)
	for _, f := range plan.Unhooked {
		s.printf("%s %s\n", s.paint(yellow, "!"), show(unhookedLine(f)))
	}
	if len(done) == 0 {
		s.printf("no agent was found; remit agents install AGENT installs a hook all the same\n")
		return nil
	}
	s.printf("\nstart your agent in that folder: started elsewhere, it does not use these hooks\n")
	for _, line := range []string{
		"remit runs                    the agents' calls (empty: the hook is not used)",
		"remit agents status           whether the hooks still hold",
		"remit agents remove AGENT     takes a hook out",
	} {
		s.printf("  %s\n", line)
	}
	return allHeld(done).orNil()
}
