package cli

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/service/modules"
	"github.com/remitrun/remit/internal/tools/executor/wasm"
)

func (s *session) wasmCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "wasm",
		Short: "Add tools from WebAssembly modules",
		Long: `Each function of an added module is a tool with the ID wasm:NAME:FUNCTION. A
module can use only folders, variables, the time and random numbers, as its
manifest requests them and the policy allows them. It has no network and cannot
start processes.
`,
		Example: `  remit wasm add text text.wasm
  remit wasm show text`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	c.AddCommand(s.wasmAddCmd(), s.wasmListCmd(), s.wasmShowCmd(), s.wasmRemoveCmd())
	return c
}

func (s *session) wasmAddCmd() *cobra.Command {
	var q modules.Addition
	c := &cobra.Command{
		Use:   "add NAME FILE",
		Short: "Add a WebAssembly module's functions (WASI preview 1) as tools",
		Long: `The manifest lists the functions and what they need. Without --manifest it is
the file beside the module with the same name and the extension .yaml, .yml or
.json. Remit keeps copies of both files; to take over later changes, add the
module again with --replace. Modules may import only functions of WASI preview
1.
`,
		Example: `  remit wasm add text text.wasm
  remit wasm add text build/text.wasm --manifest text.yaml --replace`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			q.Name, q.File = args[0], args[1]
			a, err := s.open()
			if err != nil {
				return err
			}
			one, err := a.Modules.Add(cmd.Context(), q)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(one)
			}
			s.printf("%s %s: %d tools, wasm:%s:…, defined by %s\n", s.paint(green, "✓"), one.Name, one.Tools, one.Name, show(one.ManifestFrom))
			return nil
		},
	}
	c.Flags().StringVar(&q.Manifest, "manifest", "", "manifest `FILE` (default: the file beside the module)")
	c.Flags().BoolVar(&q.Replace, "replace", false, "replace the module of this name")
	return c
}

func (s *session) wasmListCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "list",
		Short:   "List the added modules",
		Example: "  remit wasm list",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			list, err := a.Modules.List()
			if err != nil {
				return err
			}
			if s.json {
				if list == nil {
					list = []modules.Module{}
				}
				return s.printJSON(list)
			}
			var rows [][]cell
			for _, one := range list {
				rows = append(rows, []cell{{one.Name, bold}, {fmt.Sprint(one.Tools), ""}, {fmt.Sprintf("%d KiB", (one.Size+1023)/1024), ""}, {orDash(one.Release), ""}, {one.From, ""}})
			}
			s.tableOr("no modules; add one with remit wasm add NAME FILE", []string{"MODULE", "TOOLS", "SIZE", "RELEASE", "FROM"}, rows)
			return nil
		},
	}
}

func (s *session) wasmShowCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "show NAME",
		Short:   "Show a module's tools and their permissions",
		Example: "  remit wasm show text",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			one, err := a.Modules.Find(args[0])
			if err != nil {
				return err
			}
			man, err := a.Modules.Manifest(one)
			if err != nil {
				return err
			}
			return s.printModule(one, man)
		},
	}
}

// functionJSON is a function of a module as --json prints it.
type functionJSON struct {
	ID          string          `json:"id"`
	Title       string          `json:"title"`
	Description string          `json:"description"`
	Wants       wantsJSON       `json:"wants"`
	Memory      int64           `json:"memory_bytes"`
	Timeout     string          `json:"timeout"`
	Input       json.RawMessage `json:"input"`
	Output      json.RawMessage `json:"output,omitempty"`
}

// wantsJSON lists the permissions that a function requests. A place is a folder, or
// "argument NAME".
type wantsJSON struct {
	Read   []string `json:"files_read"`
	Write  []string `json:"files_write"`
	Env    []string `json:"env"`
	Clock  bool     `json:"clock"`
	Random bool     `json:"random"`
}

func wantsOf(w wasm.Wants) wantsJSON {
	out := wantsJSON{Read: []string{}, Write: []string{}, Env: append([]string{}, w.Env...), Clock: w.Clock, Random: w.Random}
	for _, p := range w.Read {
		out.Read = append(out.Read, p.String())
	}
	for _, p := range w.Write {
		out.Write = append(out.Write, p.String())
	}
	return out
}

func (s *session) printModule(one modules.Module, man *wasm.Manifest) error {
	if s.json {
		list := make([]functionJSON, len(man.Functions))
		for i, f := range man.Functions {
			list[i] = functionJSON{"wasm:" + one.Name + ":" + f.Name, f.Title, f.Description, wantsOf(f.Wants), f.Memory, f.Timeout.String(), f.Input, f.Output}
		}
		return s.printJSON(struct {
			modules.Module

			Functions []functionJSON `json:"functions"`
		}{one, list})
	}
	s.printf("%s  %s\n", s.paint(bold, one.Name), show(man.Release))
	if man.Description != "" {
		s.printf("%s\n", show(man.Description))
	}
	s.printf("\nfrom      %s, %d KiB\nmanifest  %s\nmodule    sha256:%s\nadded     %s\n\n", show(one.From), (one.Size+1023)/1024, show(one.ManifestFrom), show(one.Digest), one.Added.Local().Format(time.DateTime))
	var rows [][]cell
	for _, f := range man.Functions {
		rows = append(rows, []cell{{"wasm:" + one.Name + ":" + f.Name, bold}, {f.Wants.String(), wantsColour(f.Wants)}, {fmt.Sprintf("%d MiB", (f.Memory+1<<20-1)>>20), ""}, {f.Timeout.String(), ""}})
	}
	s.table([]string{"TOOL", "PERMISSIONS", "MEMORY", "TIMEOUT"}, rows)
	return nil
}

func wantsColour(w wasm.Wants) colour {
	if len(w.Write) > 0 {
		return yellow
	}
	return ""
}

func (s *session) wasmRemoveCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "remove NAME",
		Short:   "Remove a module and its tools",
		Example: "  remit wasm remove text",
		Args:    cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Modules.Remove(args[0]); err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]any{"removed": args[0]})
			}
			s.printf("%s %s removed\n", s.paint(green, "✓"), args[0])
			return nil
		},
	}
}
