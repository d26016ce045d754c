package changes

import (
	"context"

	"github.com/remitrun/remit/internal/base/fault"
)

// Reviewer shows and decides changesets for people other than the operator of $REMIT_HOME.
type Reviewer struct{ *Changes }

// Changesets lists the changesets, the one of the newest run first.
func (r Reviewer) Changesets(ctx context.Context) ([]Held, error) { return r.List(ctx) }

// Changeset gives a run's changeset.
func (r Reviewer) Changeset(ctx context.Context, run string, diffs bool) (Described, error) {
	c, err := r.Show(ctx, run)
	return describe(c, diffs, err)
}

func describe(c Changeset, diffs bool, err error) (Described, error) {
	if err != nil {
		return Described{}, err
	}
	return c.Describe(diffs)
}

// Apply applies changes in a person's name. A digest is of the changes that were shown.
func (r Reviewer) Apply(ctx context.Context, who, run, digest string, d Decision, paths []string) (Described, error) {
	if digest != "" {
		now, err := r.Changeset(ctx, run, false)
		if err != nil {
			return now, err
		}
		if is, err := now.Digest(); err != nil || is != digest {
			return now, fault.New(fault.Conflict, "the changes of run %s differ from the ones shown; nothing was applied", run).WithHint("read the changes again")
		}
	}
	c, err := r.Changes.Apply(ctx, who, run, d, paths...)
	return describe(c, false, err)
}

// Discard throws a run's changes away in a person's name.
func (r Reviewer) Discard(ctx context.Context, who, run string) (Described, error) {
	c, err := r.Changes.Discard(ctx, who, run)
	return describe(c, false, err)
}

// Undo puts back what a run wrote, in a person's name.
func (r Reviewer) Undo(ctx context.Context, who, run string, force []string) (Undone, error) {
	of, back, err := r.Changes.Undo(ctx, who, run, force...)
	return NewUndone(of, back), err
}
