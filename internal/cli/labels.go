package cli

import (
	"path/filepath"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/filelabels"
	"github.com/remitrun/remit/internal/service/home"
)

func (s *session) labelsCmd() *cobra.Command {
	var q filelabels.Query
	c := &cobra.Command{
		Use:   "labels [PATH]",
		Short: "List the recorded labels of files",
		Long: `A call whose context has labels gives them to the files that it writes, by their
path and by their content. Files also have the labels of the policy's patterns,
which are not listed. With PATH, lists the file, or the files in the folder.
`,
		Example: `  remit labels
  remit labels out --label web
  remit labels clear out/notes.md`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 {
				path, err := filepath.Abs(args[0])
				if err != nil {
					return err
				}
				q.Below = path
			}
			_, st, err := s.reader(cmd.Context())
			if err != nil {
				return err
			}
			list, next, err := filelabels.List(cmd.Context(), st, q)
			if err != nil {
				return err
			}
			return s.printLabels(list, next != store.LabelPlace{})
		},
	}
	c.Flags().StringVar(&q.Label, "label", "", "only files with this `LABEL`")
	c.Flags().BoolVar(&q.Contents, "contents", false, "also list contents: every file with one of them has the label")
	c.Flags().IntVar(&q.Limit, "limit", 500, "at most `N` labels; 0: all")
	c.AddCommand(s.labelsClearCmd())
	return c
}

func (s *session) printLabels(list []filelabels.Item, more bool) error {
	if s.json {
		return s.printJSON(map[string]any{"items": append([]filelabels.Item{}, list...), "more": more})
	}
	if len(list) == 0 {
		s.printf("no file has labels of data written to it\n")
		return nil
	}
	rows := make([][]cell, len(list))
	for i, l := range list {
		name := l.Path
		switch {
		case l.Folder:
			name = filepath.Join(l.Path, "**")
		case l.Path == "":
			name = "sha256:" + l.SHA256
		}
		run := l.Run
		if l.Call > 0 {
			run += " call " + strconv.Itoa(l.Call)
		}
		rows[i] = []cell{{text: l.Label}, {text: l.Since.Local().Format(time.DateTime)}, {text: run}, {text: name}}
	}
	s.tableWhole([]string{"LABEL", "SINCE", "RUN", "FILE"}, rows)
	if more {
		s.printf("there are more: --limit 0 lists all\n")
	}
	return nil
}

func (s *session) labelsClearCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "clear PATH...",
		Short: "Remove labels of files, after a person has looked at them",
		Long: `Removes the labels that were recorded for each file, or for the files in the
folder, and for the present content of the file. The ledger records the person.
A label by a pattern of the policy stays.
`,
		Example: "  remit labels clear out/notes.md",
		Args:    cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			st, err := a.Store(cmd.Context())
			if err != nil {
				return err
			}
			cleared := []map[string]any{}
			for _, arg := range args {
				path, err := filepath.Abs(arg)
				if err != nil {
					return err
				}
				n, err := filelabels.Clear(cmd.Context(), st, path, home.Person())
				if err != nil {
					return err
				}
				cleared = append(cleared, map[string]any{"path": path, "labels": n})
				if !s.json {
					s.printf("%s %s: %s cleared\n", s.paint(green, "✓"), show(arg), counted(n, "label"))
				}
			}
			if s.json {
				return s.printJSON(map[string]any{"cleared": cleared})
			}
			return nil
		},
	}
}
