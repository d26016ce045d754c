package remit

import (
	"context"

	"github.com/remitrun/remit/internal/service/changes"
)

// Changes holds the held writes of a run: see [Options.Changeset].
type Changes struct {
	Run       string
	State     string // "review", "applied", "rejected" or "undone"
	Workspace string
	Changes   []Change // sorted by path
	// Calls are the held calls of the run, in order: [Runtime.Apply] carries those that wait
	// out, after the files.
	Calls []HeldCall
}

// HeldCall is a call that waits for review, or did: the policy says hold.
type HeldCall struct {
	Number int    // its place among the calls of the run
	Tool   string // its ID
	Args   []byte // JSON, with what looks like a secret masked; untrusted
	State  string // "waiting", "done", "failed", "unknown", "skipped" or "discarded"
	Error  string // of the last attempt that did not succeed
}

// Change is one path that a held run changed, or an undo put back.
type Change struct {
	Path string // relative to the workspace; of an undo of file tools absolute
	Kind string // "added", "modified", "deleted", or "mode": only permissions or extended attributes
	// Refused says why the change is never applied, Conflict how the workspace
	// has changed underneath; both are empty where neither is so.
	Refused, Conflict string
	// Diff shows how a text file changes, as a unified diff. It is untrusted: a
	// terminal must not be given it as it is.
	Diff string
	// Omitted says why there is no diff although a file's content changes.
	Omitted string
}

// Undone is the result of an undo.
type Undone struct {
	Restored []Change
	Kept     []string // folders that stay because something else is in them
}

// Changes reviews what a held run wrote, with diffs of text files. run is its
// ID, or the beginning of one (at least 4 characters). A run that held nothing
// is an error of the code [NotFound].
func (rt *Runtime) Changes(ctx context.Context, run string) (Changes, error) {
	set, err := rt.app.Changes.Show(ctx, run)
	if err != nil {
		return Changes{}, err
	}
	out := Changes{Run: set.Run.ID.String(), State: string(set.Set.State()), Workspace: set.Set.Workspace()}
	for _, c := range set.Changes {
		one := Change{Path: c.Path, Kind: string(c.Kind), Refused: c.Refused, Conflict: c.Conflict}
		if out.State == "review" {
			text, err := set.Set.Text(c)
			if err != nil {
				return out, err
			}
			one.Diff, one.Omitted = text.Diff.Text, text.Omitted
		}
		out.Changes = append(out.Changes, one)
	}
	for _, h := range set.Calls {
		out.Calls = append(out.Calls, HeldCall{Number: h.Number, Tool: string(h.Tool), Args: h.Args, State: string(h.State), Error: h.Error})
	}
	return out, nil
}

// Apply carries a held run's changes over into its workspace, all of the chosen ones or none: those
// at or beneath the paths, relative to the workspace, or without paths all that the run's policies
// allow. It is an error of the code [Conflict] if the workspace changed underneath. It returns the
// applied changes. Without paths, the held calls that wait are then carried out in order. The first
// that does not complete is a [Conflict]; earlier calls stay done.
func (rt *Runtime) Apply(ctx context.Context, run string, paths ...string) ([]Change, error) {
	set, err := rt.app.Changes.Apply(ctx, "", run, changes.Decision{}, paths...)
	if err != nil {
		return nil, err
	}
	out := make([]Change, len(set.Changes))
	for i, c := range set.Changes {
		out[i] = Change{Path: c.Path, Kind: string(c.Kind)}
	}
	return out, nil
}

// Discard throws a held run's changes away.
func (rt *Runtime) Discard(ctx context.Context, run string) error {
	_, err := rt.app.Changes.Discard(ctx, "", run)
	return err
}

// Undo puts back what a run wrote: by its applied changes, or by its file tools
// where it was not held. If one of the paths has changed since, nothing is put
// back and the error has the code [Conflict], unless the path is in force.
func (rt *Runtime) Undo(ctx context.Context, run string, force ...string) (Undone, error) {
	_, back, err := rt.app.Changes.Undo(ctx, "", run, force...)
	out := Undone{Kept: back.Kept}
	for _, c := range back.Restored {
		out.Restored = append(out.Restored, Change{Path: c.Path, Kind: string(c.Kind)})
	}
	return out, err
}
