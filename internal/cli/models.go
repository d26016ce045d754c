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
		Short: "List the providers of models, or tell what is known of a model",
		Long: `Lists the providers of language models: those that are there, and those of
models.providers in config.yaml, with the address of each and whether its key is
set. Of a MODEL (provider/model) it tells the limits and prices that are known; of
scripted:FILE, what is wrong with the file. No service is asked.
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
	c.Flags().StringVarP(&dir, "workspace", "w", "", "folder that the names of scripts are relative to (default: the current one)")
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
	s.table([]string{"PROVIDER", "ADDRESS", "KEY", ""}, rows)
	s.printf("\ndefault  %s\n", show(orDash(byDefault)))
	return nil
}

func keyState(p models.Provider) cell {
	switch {
	case p.Key == "":
		return cell{"no key is needed", ""}
	case p.KeySet:
		return cell{"is set", ""}
	}
	return cell{"is not set", yellow}
}

func (s *session) printModel(v models.Model) error {
	if s.json {
		return s.printJSON(v)
	}
	number := func(n int64) string {
		if n == 0 {
			return "not known"
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
	price := "not known: set it in models.prices of config.yaml"
	if p := v.Prices; p != nil {
		price = inDollars(p.Input) + " in, " + inDollars(p.Output) + " out, for a million tokens"
	}
	s.printf("price     %s\n", price)
	return nil
}

// inDollars prints millionths of a dollar.
func inDollars(n int64) string {
	return "$" + strconv.FormatFloat(float64(n)/1e6, 'f', -1, 64)
}
