package cli

import (
	"context"
	"os"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/servers"
)

// mcpImportOne adds one server. Values are the answers for inputs so far, by ID.
func (s *session) mcpImportOne(ctx context.Context, a *app.App, i servers.Imported, replace bool, values map[string]string) error {
	if i.Err != nil {
		return i.Err
	}
	if err := a.Servers.Free(i.Server.Name, replace); err != nil {
		return err
	}
	for _, in := range i.Inputs {
		if _, known := values[in.ID]; known {
			continue
		}
		value, err := s.askInput(ctx, in)
		if err != nil {
			return err
		}
		values[in.ID] = value
	}
	i.Fill(values)
	if err := s.mcpPin(ctx, a, &i.Server, mcpAdding{replace: replace, imported: true}); err != nil {
		return err
	}
	return a.Servers.Import(i, replace)
}

// askInput asks the person for an input.
func (s *session) askInput(ctx context.Context, in servers.Input) (string, error) {
	terminal, ok := s.In.(*os.File)
	if s.json || !ok || !isTerminal(s.In) {
		return "", fault.New(fault.Usage, "it needs the input %q, and no terminal is attached to ask for it", in.ID)
	}
	s.errorf("%s\n", show(in.Description))
	if in.Secret {
		return s.readSecret(show(in.ID))
	}
	s.errorf("value of %s: ", show(in.ID))
	value, err := readAnswer(ctx, terminal)
	if err != nil {
		return "", fault.Wrap(fault.Usage, err, "the value of %q cannot be read", in.ID)
	}
	return value, nil
}
