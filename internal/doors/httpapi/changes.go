package httpapi

import (
	"context"
	"net/http"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/changes"
)

// Changes has the writes that runs hold, and undoes what runs wrote.
type Changes interface {
	// Changesets lists the changesets, the one of the newest run first.
	Changesets(ctx context.Context) ([]changes.Held, error)
	// Changeset gives a run's changeset: fault.NotFound, fault.Conflict while the run goes on.
	Changeset(ctx context.Context, run string, diffs bool) (changes.Described, error)
	// Apply carries changes over into the workspace. A digest is of the changes that were
	// shown; "": any.
	// Without paths it also carries out the held calls, as the decision says.
	Apply(ctx context.Context, who, run, digest string, d changes.Decision, paths []string) (changes.Described, error)
	Discard(ctx context.Context, who, run string) (changes.Described, error)
	Undo(ctx context.Context, who, run string, force []string) (changes.Undone, error)
}

// ChangesetList is a page of changesets, newest first.
type ChangesetList struct {
	Items []changes.Held `json:"items"`
	Next  string         `json:"next,omitempty"`
}

// Changeset is a run's changeset with the digest of its changes.
type Changeset struct {
	changes.Described
	Digest string `json:"digest" doc:"Of the changes: an apply that names it covers nothing else"`
}

var exampleChangeset = map[string]any{"run_id": sampleSession, "state": "review", "workspace": "/home/ann/project", "digest": "5f0c…",
	"changes": []any{map[string]any{"path": "src/main.go", "kind": "modified", "diff": "--- a/src/main.go\n"}}}

// person reports an error unless the caller's grant was issued to a person, or made for one of the
// person's browsers. Any other grant is that of a delegate, which must not accept its own work.
func person(who *Caller) error {
	own := who.Leaf == who.Root || who.Device != ""
	if !own || who.Name != who.Person || !strings.HasPrefix(who.Name, "user:") {
		return fault.New(fault.Denied, "only a grant that was issued to a person can do this").WithHint("use the command line, or the web UI")
	}
	return nil
}

func (s *Server) changes() {
	if s.o.Changes == nil || s.o.Runs == nil {
		return
	}
	s.listChangesets()
	type show struct {
		asked
		RunPath
		Diff bool `query:"diff" doc:"With differences of text files"`
	}
	route(s, operation{
		id: "getChangeset", method: http.MethodGet, path: "/v1/changes/{run_id}", tag: "changes", action: "runs.read", summary: "Get a run's held changes",
		text: "What a run wrote into a layer instead of its workspace, and the changes that cannot be applied.", errors: []int{404, 409}, answer: exampleChangeset,
	}, func(ctx context.Context, in *show) (*struct{ Body Changeset }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		d, err := s.o.Changes.Changeset(ctx, in.ID, in.Diff)
		return changeset(d, err)
	})
	s.decideChanges()
}

func changeset(d changes.Described, err error) (*struct{ Body Changeset }, error) {
	if err != nil {
		return nil, err
	}
	digest, err := d.Digest()
	return &struct{ Body Changeset }{Changeset{d, digest}}, err
}

func (s *Server) listChangesets() {
	type list struct {
		asked
		Page
	}
	route(s, operation{
		id: "listChangesets", method: http.MethodGet, path: "/v1/changes", tag: "changes", action: "runs.read", summary: "List held changes",
		text: "The runs that wrote into a layer, newest first.", answer: map[string]any{"items": []any{map[string]any{"run_id": sampleSession, "state": "review", "workspace": "/home/ann/project", "begun_at": "2026-11-21T12:00:00Z"}}},
	}, func(ctx context.Context, in *list) (*struct{ Body ChangesetList }, error) {
		at, err := in.place("changes")
		if err != nil {
			return nil, err
		}
		all, err := s.o.Changes.Changesets(ctx)
		if err != nil {
			return nil, err
		}
		out := ChangesetList{Items: []changes.Held{}}
		for _, c := range all {
			if at != "" && c.Run >= at {
				continue
			}
			if len(out.Items) == in.Limit {
				out.Next = cursor("changes", out.Items[len(out.Items)-1].Run)
				break
			}
			r, err := s.o.Runs.Run(ctx, c.Run)
			if err != nil {
				if fault.CodeOf(err) == fault.RunUnknown {
					continue
				}
				return nil, err
			}
			ok, err := s.reachesRun(ctx, &in.asked, r.ID.String())
			if err != nil {
				return nil, err
			}
			if ok {
				out.Items = append(out.Items, c)
			}
		}
		return &struct{ Body ChangesetList }{out}, nil
	})
}

// decides checks that the caller may decide on a run's changes.
func (s *Server) decides(ctx context.Context, in *asked, run string) error {
	if err := person(in.who); err != nil {
		return err
	}
	_, err := s.run(ctx, in, run)
	return err
}

func (s *Server) decideChanges() {
	type apply struct {
		asked
		RunPath
		Body *struct {
			Paths  []string `json:"paths,omitempty" maxItems:"1000" nullable:"false" doc:"Relative to the workspace; changes at or beneath them are applied. Default: all"`
			Digest string   `json:"digest,omitempty" maxLength:"64" doc:"Of the changes that were shown: others are refused"`
			Again  []int    `json:"again,omitempty" maxItems:"1000" nullable:"false" doc:"Numbers of held calls to repeat, although an earlier attempt may have had its effect"`
			Skip   []int    `json:"skip,omitempty" maxItems:"1000" nullable:"false" doc:"Numbers of held calls to leave out for good"`
		} `nameHint:"ApplyChanges"`
	}
	route(s, operation{
		id: "applyChanges", several: true, method: http.MethodPost, path: "/v1/changes/{run_id}/apply", tag: "changes", action: "changes.write", summary: "Apply held changes",
		text: "All chosen changes are applied to the workspace, or none. Without paths, the held calls are then carried out in order, each decided anew, until one does not complete: the answer is then 409, and finished changes stay. Needs a grant that was issued to a person.", errors: []int{404, 409}, request: map[string]any{"paths": []any{"src"}}, answer: exampleChangeset,
	}, func(ctx context.Context, in *apply) (*struct{ Body Changeset }, error) {
		if err := s.decides(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		var paths []string
		digest, about := "", changes.Decision{}
		if in.Body != nil {
			paths, digest, about.Again, about.Skip = in.Body.Paths, in.Body.Digest, in.Body.Again, in.Body.Skip
		}
		d, err := s.o.Changes.Apply(ctx, in.who.Name, in.ID, digest, about, paths)
		return changeset(d, err)
	})
	route(s, operation{
		id: "discardChanges", method: http.MethodPost, path: "/v1/changes/{run_id}/discard", tag: "changes", action: "changes.write", summary: "Discard held changes",
		text: "For good. Needs a grant that was issued to a person.", errors: []int{404, 409}, answer: exampleChangeset,
	}, func(ctx context.Context, in *runIn) (*struct{ Body Changeset }, error) {
		if err := s.decides(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		d, err := s.o.Changes.Discard(ctx, in.who.Name, in.ID)
		return changeset(d, err)
	})
	type undo struct {
		asked
		RunPath
		Body *struct {
			Force []string `json:"force,omitempty" maxItems:"1000" nullable:"false" doc:"Paths that are put back even if they have changed since"`
		} `nameHint:"UndoRun"`
	}
	route(s, operation{
		id: "undoRun", several: true, method: http.MethodPost, path: "/v1/changes/{run_id}/undo", tag: "changes", action: "changes.write", summary: "Undo a run's writes",
		text:   "Puts back what the run's applied changes or its file tools wrote; nothing, if any of it has changed since. Needs a grant that was issued to a person.",
		errors: []int{404, 409}, request: map[string]any{}, answer: map[string]any{"run_id": sampleSession, "restored": []any{map[string]any{"path": "src/main.go", "kind": "modified"}}},
	}, func(ctx context.Context, in *undo) (*struct{ Body changes.Undone }, error) {
		if err := s.decides(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		var force []string
		if in.Body != nil {
			force = in.Body.Force
		}
		u, err := s.o.Changes.Undo(ctx, in.who.Name, in.ID, force)
		return &struct{ Body changes.Undone }{u}, err
	})
}
