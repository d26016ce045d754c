package changes

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Held is a changeset in a list.
type Held struct {
	Run       string          `json:"run_id"`
	State     changeset.State `json:"state" enum:"active,review,applied,rejected,undone"`
	Workspace string          `json:"workspace"`
	Begun     time.Time       `json:"begun_at"`
}

// Described is a changeset as JSON has it.
type Described struct {
	Run       string            `json:"run_id"`
	State     changeset.State   `json:"state" enum:"active,review,applied,rejected,undone"`
	Workspace string            `json:"workspace"`
	Changes   []DescribedChange `json:"changes"`
	Calls     []HeldCall        `json:"calls,omitempty" nullable:"false" doc:"Calls that wait for review beside the files, or did. They are carried out after the files, in this order"`
}

// DescribedChange is a change as JSON has it.
type DescribedChange struct {
	changeset.Change
	Diff    string      `json:"diff,omitempty" doc:"Unified, of a text file"`
	Hunks   []diff.Hunk `json:"hunks,omitempty" nullable:"false" doc:"The same, line by line"`
	Omitted string      `json:"diff_omitted,omitempty" doc:"The reason for which the diff was left out"`
}

// Undone is the result of an undo.
type Undone struct {
	Run string `json:"run_id"`
	changeset.Back
}

// NewUndone describes the result of an undo of a run.
func NewUndone(run ledger.Run, back changeset.Back) Undone {
	if back.Restored == nil {
		back.Restored = []changeset.Change{}
	}
	return Undone{Run: run.ID.String(), Back: back}
}

// Digest identifies the changes that were shown.
func (d Described) Digest() (string, error) {
	plain := make([]changeset.Change, len(d.Changes))
	for i, c := range d.Changes {
		plain[i] = c.Change
	}
	var what any = plain
	if len(d.Calls) > 0 {
		what = []any{plain, d.Calls}
	}
	b, err := json.Marshal(what)
	if err != nil {
		return "", fault.Wrap(fault.Internal, err, "the changes cannot be encoded")
	}
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:]), nil
}

// Describe gives the changeset for JSON. Diffs are of changes that wait for review.
func (c Changeset) Describe(diffs bool) (Described, error) {
	out := Described{Run: c.Run.ID.String(), State: c.Set.State(), Workspace: c.Set.Workspace(), Changes: []DescribedChange{}, Calls: c.Calls}
	for _, one := range c.Changes {
		d := DescribedChange{Change: one}
		if diffs && out.State == changeset.Review {
			text, err := c.Set.Text(one)
			if err != nil {
				return out, err
			}
			d.Diff, d.Hunks, d.Omitted = text.Diff.Text, text.Diff.Hunks, text.Omitted
		}
		out.Changes = append(out.Changes, d)
	}
	return out, nil
}

// List gives all changesets, the one of the newest run first. A changeset that cannot be
// read is an error of Show.
func (s *Changes) List(ctx context.Context) ([]Held, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.recover(ctx, st); err != nil {
		return nil, err
	}
	runs, err := s.Folder().Runs()
	if err != nil {
		return nil, fault.Wrap(fault.StoreFailed, err, "the changesets cannot be listed")
	}
	out := []Held{}
	for _, run := range runs {
		if set, err := s.Folder().Load(run); err == nil {
			out = append(out, Held{Run: run, State: set.State(), Workspace: set.Workspace(), Begun: set.Begun()})
		}
	}
	slices.SortFunc(out, func(a, b Held) int { return cmp.Compare(b.Run, a.Run) }) // IDs have the time in them
	return out, nil
}
