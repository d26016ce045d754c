package cli

import (
	"strconv"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/models"
)

// modelsJSON is the list of providers as --json prints it.
type modelsJSON struct {
	Default   string            `json:"default,omitempty"`
	Providers []models.Provider `json:"providers"`
}

func (s *session) modelsCmd() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "models [MODEL]",
		Short: "List model providers, or describe a model",
		Long: `Lists the built-in providers of language models and those in models.providers
of config.yaml, with their address and whether the key is set. For MODEL
(provider/model) it shows the known limits and prices; for scripted:FILE,
errors in the file. No provider is contacted.
`,
		Example: `  remit models
  remit models anthropic/claude-sonnet-4-5
  remit models scripted:answers.yaml`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return s.printModels(a.Models.Providers())
			}
			ws, err := home.Workspace(dir)
			if err != nil {
				return err
			}
			v, err := a.Models.Find(args[0], ws)
			if err != nil {
				return err
			}
			return s.printModel(v)
		},
	}
	c.Flags().StringVarP(&dir, "workspace", "w", "", "`DIR` for relative script files (default: the current folder)")
	return c
}

func (s *session) printModels(list []models.Provider, byDefault string) error {
	if s.json {
		return s.printJSON(modelsJSON{byDefault, list})
	}
	rows := make([][]cell, len(list))
	for i, p := range list {
		rows[i] = []cell{{show(p.Name), bold}, {show(orDash(p.URL)), ""}, {show(orDash(p.Key)), ""}, keyState(p)}
	}
	s.table([]string{"PROVIDER", "ADDRESS", "KEY VARIABLE", "KEY"}, rows)
	s.printf("\ndefault  %s\n", show(orDash(byDefault)))
	return nil
}

func keyState(p models.Provider) cell {
	switch {
	case p.Key == "":
		return cell{"not needed", ""}
	case p.KeySet:
		return cell{"set", ""}
	}
	return cell{"not set", yellow}
}

func (s *session) printModel(v models.Model) error {
	if s.json {
		return s.printJSON(v)
	}
	number := func(n int64) string {
		if n == 0 {
			return "unknown"
		}
		return strconv.FormatInt(n, 10) + " tokens"
	}
	s.printf("%s\n\n", s.paint(bold, show(v.ID)))
	if v.Turns > 0 {
		s.printf("turns     %d\n", v.Turns)
		return nil
	}
	state := keyState(v.Provider)
	s.printf("address   %s\nkey       %s, %s\ncontext   %s\nanswer    %s\n", show(v.Provider.URL), show(orDash(v.Provider.Key)),
		s.paint(state.colour, state.text), number(v.Context), number(v.MaxOutput))
	price := "unknown; set it in models.prices of config.yaml"
	if p := v.Prices; p != nil {
		price = inDollars(p.Input) + " in, " + inDollars(p.Output) + " out, per million tokens"
	}
	s.printf("price     %s\n", price)
	return nil
}

// inDollars prints millionths of a dollar.
func inDollars(n int64) string {
	return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)
}
