package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/doors/keeper"
	"github.com/remitrun/remit/internal/doors/port"
	"github.com/remitrun/remit/internal/service/home"
)

// portRequest is the request of remit port.
type portRequest struct {
	session string // the beginning of its ID
	at      uint16 // of this machine; 0: a free port
}

func (s *session) portCmd() *cobra.Command {
	var q portRequest
	c := &cobra.Command{
		Use:   "port [PORT]",
		Short: "Show a server of an agent's session in your browser",
		Long: `Makes a server that an agent has started in the sandbox of its session
reachable for your browser, until you press Ctrl-C. The address has a random
name; requests under other names are refused. The pages are the agent's: they
cannot read data of your other sites. Do not trust them.

Without PORT it lists the servers. It finds the sessions of agents with Remit's
hook; for a whole agent, start it with remit exec --publish PORT.
`,
		Example: `  remit port
  remit port 3000
  remit port 5173 --session 1f3a --at 8080`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := home.FromEnv(s.environ)
			if err != nil {
				return err
			}
			list, err := s.openSessions(cmd.Context(), cfg.Dir, q.session)
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return s.listPorts(list)
			}
			n, err := strconv.ParseUint(args[0], 10, 16)
			if err != nil || n == 0 {
				return fault.New(fault.Usage, "%q is not a port: it is a number from 1 to 65535", args[0])
			}
			return s.servePort(cmd.Context(), cfg.Dir, list, uint16(n), q)
		},
	}
	c.Flags().StringVar(&q.session, "session", "", "use the session whose `ID` begins so")
	c.Flags().Uint16Var(&q.at, "at", 0, "serve at this `PORT` of 127.0.0.1 (default: a free one)")
	return c
}

// openSessions lists the sessions that have a sandbox, those of this folder first.
func (s *session) openSessions(ctx context.Context, dir, id string) ([]sandbox.OpenSession, error) {
	ctx, stop := hookDeadline(ctx)
	defer stop()
	list, err := keeper.Sessions(ctx, dir)
	if err != nil && !errors.Is(err, fault.NotFound) {
		return nil, err
	}
	if err != nil {
		return nil, fault.Wrap(fault.NotFound, err, "no session of an agent has a sandbox: %s", fault.Message(err)).
			ForOperator("an agent with Remit's hook gets one with its first command; for a whole agent: remit exec --publish PORT -- AGENT")
	}
	if id != "" {
		list = slices.DeleteFunc(list, func(o sandbox.OpenSession) bool { return !strings.HasPrefix(o.ID, id) })
		if len(list) == 0 {
			return nil, fault.New(fault.NotFound, "no session whose ID begins with %q has a sandbox", id).ForOperator("remit port lists them")
		}
	}
	here := func(o sandbox.OpenSession) int {
		if o.Workspace == s.dir {
			return 0
		}
		return 1
	}
	slices.SortStableFunc(list, func(a, b sandbox.OpenSession) int { return here(a) - here(b) })
	return list, nil
}

func (s *session) listPorts(list []sandbox.OpenSession) error {
	if s.json {
		type row struct {
			Session   string   `json:"session"`
			Workspace string   `json:"workspace"`
			Ports     []uint16 `json:"ports"`
		}
		rows := make([]row, len(list))
		for i, o := range list {
			rows[i] = row{o.ID, o.Workspace, append([]uint16{}, o.Ports...)}
		}
		return s.printJSON(map[string]any{"items": rows})
	}
	var rows [][]cell
	for _, o := range list {
		for _, p := range o.Ports {
			rows = append(rows, []cell{{text: strconv.Itoa(int(p))}, {text: show(o.ID)}, {text: show(o.Workspace)}})
		}
	}
	s.tableOr("no agent has a server running", []string{"PORT", "ID", "WORKSPACE"}, rows)
	return nil
}

// servePort serves the first session that has a server at the port.
func (s *session) servePort(ctx context.Context, dir string, list []sandbox.OpenSession, inside uint16, q portRequest) error {
	i := slices.IndexFunc(list, func(o sandbox.OpenSession) bool { return slices.Contains(o.Ports, inside) })
	if i < 0 {
		return noServer(list, inside)
	}
	in := list[i]
	d, err := port.New(q.at, inside, keeper.Dialer(dir, in, inside))
	if err != nil {
		return err
	}
	if s.json {
		if err := s.printJSON(map[string]any{"url": d.URL(), "session": in.ID, "workspace": in.Workspace, "port": inside}); err != nil {
			return err
		}
	} else {
		s.printf("%s\n  shows the server at port %d of session %s in %s, until you press Ctrl-C\n", d.URL(), inside, show(in.ID), show(in.Workspace))
	}
	return d.Serve(ctx)
}

// noServer says which servers there are instead.
func noServer(list []sandbox.OpenSession, inside uint16) error {
	var there []string
	for _, o := range list {
		for _, p := range o.Ports {
			there = append(there, fmt.Sprintf("%d (session %s)", p, o.ID))
		}
	}
	err := fault.New(fault.NotFound, "no server of an agent listens at port %d", inside)
	if len(there) == 0 {
		return err.WithHint("no agent has a server running")
	}
	return err.WithHint("servers that can be shown: %s", strings.Join(there, ", "))
}
