package cli

import (
	"context"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/servers"
)

func (s *session) mcpImportCmd() *cobra.Command {
	var q mcpImporting
	c := &cobra.Command{
		Use:   "import FILE",
		Short: "Add the MCP servers of another client's configuration file",
		Long: `FILE is the configuration of Claude Desktop, Claude Code (.mcp.json), Cursor,
VS Code, Zed, Gemini, Windsurf or OpenCode (JSON), Codex (config.toml), Goose
or Continue (YAML). Each server gets the default policy: its own folder, no
network, and the variables in FILE. Most servers need more: find out with remit
mcp test, and allow it with remit mcp add --replace -p. Headers, and variables
that are secret, go to the secret store. A server that cannot be added, and a
setting that is not used, is named with the reason.

Inputs of FILE are asked for on a terminal, as are the variables of your
environment that a server wants. --input and --input-env answer them.
`,
		Example: `  remit mcp import ~/project/.mcp.json
  remit mcp import ~/.codex/config.toml`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return s.mcpImport(cmd.Context(), args[0], q) },
	}
	c.Flags().BoolVar(&q.replace, "replace", false, "replace servers of the same names")
	c.Flags().BoolVar(&q.cwd, "cwd", false, "let servers start in the folder that FILE names, and read and write it")
	c.Flags().BoolVar(&q.yes, "yes", false, "accept packages with install scripts, which are not run, without asking")
	q.addFlags(c)
	return c
}

func (s *session) mcpImport(ctx context.Context, file string, q mcpImporting) error {
	a, err := s.open()
	if err != nil {
		return err
	}
	found, err := servers.ReadClientFile(file)
	if err != nil {
		return err
	}
	if err := q.answers(s); err != nil {
		return err
	}
	type reason struct {
		Server string `json:"server"`
		What   string `json:"what"`
	}
	added, left, dropped := []string{}, []string{}, []reason{}
	for _, i := range found {
		if q.cwd {
			i.Dropped = slices.DeleteFunc(i.Dropped, func(what string) bool { return strings.HasPrefix(what, "cwd:") })
		}
		if err := s.mcpImportOne(ctx, a, i, &q); err != nil {
			left = append(left, i.Label)
			dropped = append(dropped, reason{i.Label, fault.Message(err)})
			s.errorf("%s %s was not added: %s\n", s.paintErr(yellow, "!"), show(i.Label), show(fault.Message(err)))
			continue
		}
		added = append(added, i.Server.Name)
		s.say("%s %s added\n", s.paint(green, "✓"), i.Server.Name)
		for _, what := range i.Dropped {
			dropped = append(dropped, reason{i.Label, what})
			s.say("  not imported: %s\n", show(what))
		}
	}
	if s.json {
		return s.printJSON(map[string]any{"added": added, "left_out": left, "dropped": dropped})
	}
	if len(added) == 0 {
		return exit(fault.Usage.Exit())
	}
	return nil
}

// mcpImporting says how servers of another client's file are added.
type mcpImporting struct {
	replace, cwd, yes   bool
	inputs, environment []string          // --input and --input-env
	values              map[string]string // the answers for inputs so far, by ID
}

func (q *mcpImporting) addFlags(c *cobra.Command) {
	c.Flags().StringArrayVar(&q.inputs, "input", nil, "answer an input, as `ID=VALUE` (repeatable); not for secrets")
	c.Flags().StringArrayVar(&q.environment, "input-env", nil, "answer an input by a variable of your environment, as `ID=VARIABLE`, or VARIABLE for the input of this ID (repeatable)")
}

// answers reads the flags for inputs.
func (q *mcpImporting) answers(s *session) error {
	given, err := pairsOf("--input", q.inputs)
	if err != nil {
		return err
	}
	q.values = given
	for _, one := range q.environment {
		id, name, ok := strings.Cut(one, "=")
		if !ok {
			name = id
		}
		v, set := s.lookup(name)
		if !set || id == "" {
			return fault.New(fault.Usage, "--input-env %q: the variable is not set", one)
		}
		q.values[id] = v
	}
	return nil
}

// mcpImportOne adds one server.
func (s *session) mcpImportOne(ctx context.Context, a *app.App, i servers.Imported, q *mcpImporting) error {
	replace, values := q.replace, q.values
	if i.Err != nil {
		return i.Err
	}
	if err := a.Servers.Free(i.Server.Name, replace); err != nil {
		return err
	}
	for _, in := range i.Inputs {
		if value, known := values[in.ID]; known {
			if err := in.Check(value); err != nil {
				return err
			}
			continue
		}
		value, err := s.askInput(ctx, in)
		if err != nil {
			return err
		}
		values[in.ID] = value
	}
	i.Fill(values)
	if q.cwd {
		if err := i.UseFolder(); err != nil {
			return err
		}
	}
	if err := s.mcpPin(ctx, a, &i.Server, mcpAdding{replace: replace, imported: true, yes: q.yes}); err != nil {
		return err
	}
	return a.Servers.Import(i, replace)
}

// askInput asks the person for an input.
func (s *session) askInput(ctx context.Context, in servers.Input) (string, error) {
	terminal, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) {
		if in.Default != "" {
			return in.Default, in.Check(in.Default)
		}
		return "", fault.New(fault.Usage, "it needs the input %q, and no terminal is attached to ask for it; answer it with --input or --input-env", in.ID)
	}
	s.errorf("%s\n", show(in.Description))
	if in.Secret {
		return s.readSecret(show(in.ID))
	}
	if len(in.Options) > 0 {
		s.errorf("one of: %s\n", show(strings.Join(in.Options, ", ")))
	}
	if in.Default != "" {
		s.errorf("value of %s [%s]: ", show(in.ID), show(in.Default))
	} else {
		s.errorf("value of %s: ", show(in.ID))
	}
	value, err := readAnswer(ctx, terminal)
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the value of %q cannot be read", in.ID)
	}
	if value == "" {
		value = in.Default
	}
	return value, in.Check(value)
}
