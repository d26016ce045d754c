package cli

import (
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/workers"
)

func (s *session) workerCmd() *cobra.Command {
	var q workers.RunRequest
	var token string
	c := &cobra.Command{
		Use:   "worker",
		Short: "Run commands of a node on this machine",
		Long: `Connects to a node (remit serve --workers) and runs the commands whose policies
say where: remote. Each command comes with a permit token that is valid for
seconds, and runs in this machine's sandbox. The worker has no database, no
policies and no secrets; it needs no open port. Its key, its certificate and its
cache are in $REMIT_HOME/worker.

The token file is needed the first time. It is used up by joining.
`,
		Example: `  remit worker token --name build-1 --label gpu > join.token   # on the node
  remit worker --join https://node.example:8643 --token join.token`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			b, err := readSmall(token)
			if err != nil {
				if _, serr := os.Stat(token); !os.IsNotExist(serr) || token == "" {
					return err
				}
			}
			q.Token, q.Told = strings.TrimSpace(string(b)), s.workerTold
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			q.Home = a.Home
			return workers.Run(cmd.Context(), q)
		},
	}
	c.Flags().StringVar(&q.URL, "join", "", "address of the node, as `https://HOST:PORT`")
	c.Flags().StringVar(&token, "token", "", "`FILE` with a join token of the node")
	for _, name := range []string{"join", "token"} {
		if err := c.MarkFlagRequired(name); err != nil {
			panic(err) // the flag is above
		}
	}
	c.AddCommand(s.workerTokenCmd())
	return c
}

// workerTold prints the events of a worker.
func (s *session) workerTold(event, detail string) {
	if s.json {
		if err := s.printJSON(map[string]any{"event": event, "detail": detail}); err != nil {
			s.errorf("%v\n", err)
		}
		return
	}
	sign := map[string]string{"joined": "✓", "connected": "✓", "renewed": "✓", "renewal failed": "!", "away": "!", "runs": "→", "ended": "←"}[event]
	s.printf("%s %s %s\n", sign, event, show(detail))
}

func (s *session) workerTokenCmd() *cobra.Command {
	var t workers.TokenTerms
	c := &cobra.Command{
		Use:   "token",
		Short: "Make a join token for one worker",
		Long: `Prints a token with which one worker can join the nodes of this $REMIT_HOME,
once and until it expires. The worker gets the name and the labels of the token.
Policies choose workers by labels.
`,
		Example: `  remit worker token --name build-1 --label gpu --label eu > join.token`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if t.Name == "" {
				return fault.New(fault.Usage, "the worker needs a name").WithHint("give --name, as --name build-1")
			}
			a, err := s.openAsPerson("admit workers")
			if err != nil {
				return err
			}
			token, err := a.Workers.Token(t)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"token": token, "name": t.Name, "labels": append([]string{}, t.Labels...), "expires": time.Now().Add(t.Life).UTC().Truncate(time.Second)})
			}
			s.printf("%s\n", token)
			return nil
		},
	}
	c.Flags().StringVar(&t.Name, "name", "", "`NAME` of the worker")
	c.Flags().StringArrayVar(&t.Labels, "label", nil, "`LABEL` of the worker (repeatable)")
	durationVar(c, &t.Life, "expires", time.Hour, "how long the token can be used")
	return c
}

func (s *session) workersCmd() *cobra.Command {
	list := func(*cobra.Command, []string) error {
		a, err := s.open()
		if err != nil {
			return err
		}
		all, err := a.Workers.List()
		if err != nil {
			return err
		}
		return s.printWorkers(all)
	}
	c := &cobra.Command{
		Use:   "workers",
		Short: "List and remove the workers of this node",
		Long: `Lists the workers that joined. A worker is connected, away, or removed. Several
nodes each know the workers that connected to them.
`,
		Example: `  remit workers list
  remit workers remove build-1`,
		Args: cobra.NoArgs,
		RunE: list,
	}
	c.AddCommand(&cobra.Command{Use: "list", Short: "List the workers", Example: "  remit workers list", Args: cobra.NoArgs, RunE: list},
		&cobra.Command{Use: "remove NAME", Short: "Refuse a worker from now on", Example: "  remit workers remove build-1", Args: cobra.ExactArgs(1),
			Long: `Refuses a worker from now on. If it is connected, its connection ends within a
second; the outcome of a command that it runs is then unknown.
`,
			RunE: func(_ *cobra.Command, args []string) error {
				a, err := s.openAsPerson("remove workers")
				if err != nil {
					return err
				}
				if err := a.Workers.Remove(args[0]); err != nil {
					return err
				}
				if s.json {
					return s.printJSON(map[string]any{"removed": args[0]})
				}
				s.printf("%s removed worker %s\n", s.paint(green, "✓"), show(args[0]))
				return nil
			}})
	return c
}

func (s *session) printWorkers(all []workers.Worker) error {
	now := time.Now()
	if s.json {
		items := []map[string]any{}
		for _, w := range all {
			items = append(items, map[string]any{"name": w.Name, "labels": append([]string{}, w.Labels...), "state": w.State(now), "key": w.Key, "joined_at": w.Joined, "until": w.Until})
		}
		return s.printJSON(map[string]any{"items": items})
	}
	rows := make([][]cell, len(all))
	for i, w := range all {
		state := w.State(now)
		paint := map[string]colour{"connected": green, "removed": dim}[state]
		seen := "-"
		if !w.Seen.IsZero() {
			seen = when(w.Seen, now)
		}
		rows[i] = []cell{{text: w.Name}, {state, paint}, {text: strings.Join(w.Labels, ", ")}, {text: seen}, {text: w.Until.Local().Format(time.DateOnly)}}
	}
	s.tableOr("no worker has joined; remit worker token makes a join token", []string{"NAME", "STATE", "LABELS", "SEEN", "UNTIL"}, rows)
	return nil
}
