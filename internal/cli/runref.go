package cli

import (
	"context"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
)

// maxBack is the maximum N of @N.
const maxBack = 1000

// takeRuns lets all commands whose usage line has RUN also accept last and @N.
func (s *session) takeRuns(c *cobra.Command) {
	for _, sub := range c.Commands() {
		s.takeRuns(sub)
	}
	first, last := runOperands(c.Use)
	if first < 0 || c.RunE == nil {
		return
	}
	run, resolve := c.RunE, s.runID
	if c.Name() == "undo" {
		resolve = s.changedRunID
	}
	c.RunE = func(cmd *cobra.Command, words []string) error {
		words = slices.Clone(words)
		for i := first; i < min(last, len(words)); i++ {
			id, err := resolve(cmd.Context(), words[i])
			if err != nil {
				return err
			}
			words[i] = id
		}
		return run(cmd, words)
	}
}

// runOperands returns which operands a usage line calls RUN: from first (-1 if none)
// up to, but not including, last.
func runOperands(use string) (first, last int) {
	for i, w := range strings.Fields(use)[1:] {
		name := strings.Trim(w, "[]")
		switch {
		case name == "RUN...":
			return i, 1 << 30
		case name == "RUN" || strings.HasPrefix(name, "RUN|"):
			return i, i + 1
		}
	}
	return -1, 0
}

// runID resolves last and @N to the ID of a run: @1, the same as last, is the first
// run that remit runs lists. Other words are returned unchanged.
func (s *session) runID(ctx context.Context, word string) (string, error) {
	place, at := strings.CutPrefix(word, "@")
	switch {
	case word == "last":
		place = "1"
	case !at:
		return word, nil
	}
	n, err := strconv.ParseUint(place, 10, 16)
	if err != nil || n < 1 || n > maxBack || place[0] == '0' || place[0] == '+' {
		return "", fault.New(fault.Usage, "%q is not a valid run; expected @1 to @%d, counted from the newest", word, maxBack).
			WithHint("remit runs lists them in this order")
	}
	_, st, err := s.reader(ctx)
	if err != nil {
		return "", err
	}
	runs, err := st.Runs(ctx, store.RunFilter{Limit: int(n), Without: helperTools()})
	if err != nil {
		return "", err
	}
	if uint64(len(runs)) < n {
		return "", fault.New(fault.RunUnknown, "run %s does not exist: the ledger has %s", word, counted(len(runs), "run")).
			WithHint("remit runs lists them")
	}
	return runs[n-1].ID.String(), nil
}

// changedRunID is runID for an undo: its last is the newest run that changed files.
func (s *session) changedRunID(ctx context.Context, word string) (string, error) {
	if word != "last" {
		return s.runID(ctx, word)
	}
	a, st, err := s.reader(ctx)
	if err != nil {
		return "", err
	}
	folder, err := home.Workspace("")
	if err != nil {
		return "", err
	}
	return a.Changes.Last(ctx, st, folder)
}
