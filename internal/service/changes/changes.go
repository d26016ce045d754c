// Package changes keeps the writes of runs: held changesets that a person reviews, applies or
// discards, and the log that undoes writes. Start at [Changes.Begin].
package changes

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/changeset"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/settings"
)

// Box lays a held layer over the workspace of commands: linux.Box.
type Box interface {
	Overlay(lower, upper, work string) (int, error)
}

// Changes are the changesets of one $REMIT_HOME.
type Changes struct {
	Home *home.Home
	Box  Box

	// Carry carries out held calls, in a run of its own. A call that does not complete ends it
	// without an error: the record says so.
	Carry func(ctx context.Context, q Carried) error

	Now func() time.Time // the clock; nil: time.Now

	mu         sync.Mutex
	unrecorded []changeset.Recovered // interrupted changes that were finished, while the ledger could not record it

	looked bool      // Recover has looked for interrupted changes
	deaths uint64    // of processes, when it last looked
	swept  time.Time // when it last asked whether old data is to be removed
}

func (s *Changes) now() time.Time {
	if s.Now != nil {
		return s.Now()
	}
	return time.Now()
}

func retention(c settings.Changes) changeset.Retention {
	return changeset.Retention{Age: c.Age(), Bytes: c.KeepBytes}
}

// Writes is where the calls of a run write: held layers, or the workspace with a log of
// the former contents.
type Writes struct {
	Hold *changeset.Hold // nil: nothing is held

	set *changeset.Set
	log *changeset.Log
}

// Folder is where changesets and undo logs are kept.
func (s *Changes) Folder() changeset.Home {
	h := changeset.In(s.Home.Dir)
	if s.Home.Settings.Durability == "process" {
		h = h.Volatile()
	}
	return h
}

// Summary says how many changesets wait for review, how much undo data is kept, and the
// limits of it.
func (s *Changes) Summary() (string, error) {
	k, err := s.Folder().Kept()
	if err != nil {
		return "", err
	}
	set := s.Home.Settings.Changes
	limits := "kept for ever"
	if set.KeepDays > 0 {
		limits = fmt.Sprintf("kept %d days", set.KeepDays)
	}
	if set.KeepBytes > 0 {
		limits += fmt.Sprintf(", at most %d MiB", set.KeepBytes>>20)
	}
	return fmt.Sprintf("changesets to review: %d; finished runs with undo data: %d (%d MiB; %s; see changes in config.yaml)", k.Waiting, k.Over, k.Bytes>>20, limits), nil
}

// Begin decides whether the writes of a run are held, which hold asks for or its policies
// do, and prepares the run for that.
func (s *Changes) Begin(in *runner.Info, workspace string, hold bool) (*Writes, error) {
	id := in.ID.String()
	if !hold && !in.Grant.Chain().Limits().Hold {
		w := &Writes{log: s.Folder().Log(id)}
		in.Keep = w.log
		return w, nil
	}
	set, err := s.Folder().Begin(id, workspace)
	if err != nil {
		return nil, err
	}
	w := &Writes{set: set, Hold: set.Hold(s.Box.Overlay)}
	w.Hold.Bound(sandbox.HeldBytes(in.Grant.Chain().Limits()))
	_, leave, err := w.Hold.Enter(context.Background()) // a run without a hold is not begun
	if err != nil {
		return nil, errors.Join(err, w.Drop())
	}
	leave()
	in.Held = w.Hold
	return w, nil
}

// Recorded records that the writes of a run are held from now on.
func (w *Writes) Recorded(ctx context.Context, st store.Store, run *runner.Run) error {
	if w.set == nil {
		return nil
	}
	return record(ctx, st, run.Seq, ledger.Event{Change: ledger.ChangesHeld}, nil)
}

// record records a step of a changeset's life.
func record(ctx context.Context, st store.Store, run ledger.Seq, ev ledger.Event, what any) error {
	return recordPart(ctx, st, run, ev, ledger.PartChanges, what)
}

func recordPart(ctx context.Context, st store.Store, run ledger.Seq, ev ledger.Event, part string, what any) error {
	ev.Kind, ev.Run, ev.At = ledger.Changeset, run, time.Now().UnixMicro()
	e := ledger.Entry{Event: ev, Durable: true}
	if what != nil {
		b, err := json.Marshal(what)
		if err != nil {
			return fault.Wrap(fault.Internal, err, "the changes cannot be encoded")
		}
		e.Payload = ledger.Payload{part: b}
	}
	after, stop := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
	defer stop()
	_, err := st.Append(after, e)
	return err
}

// Drop deletes everything prepared for a run that did not begin.
func (w *Writes) Drop() error {
	if w == nil || w.set == nil {
		return nil
	}
	w.Hold.Close()
	return w.set.Drop()
}

// End ends the writing, and gives the held changes.
func (w *Writes) End(ctx context.Context, st store.Store, run *runner.Run) ([]changeset.Change, error) {
	if w.set == nil {
		return nil, w.log.Close()
	}
	w.Hold.Close()
	if run.Waiting() > 0 {
		w.set.Await()
	}
	list, err := w.set.Review(ctx, mayWrite(run.Grant.Chain(), run.Env.Workspace))
	if err != nil {
		return nil, err
	}
	return list, record(ctx, st, run.Seq, ledger.Event{Change: ledger.ChangesReview}, list)
}

// mayWrite re-decides paths of a workspace under a run's policies. Their questions are answered by
// the person that applies the change. A folder on the way to an allowed path may be made unless a
// deny entry names it, as for file tools.
func mayWrite(chain policy.Chain, workspace string) changeset.Decide {
	leads := repository.New("", workspace)
	return func(p string, use changeset.Use) error {
		abs := path.Join(workspace, p)
		kind := tool.FileWrite
		if use == changeset.ToDelete {
			kind = tool.FileDelete
		}
		lead := leads.Lead(abs)
		if lead == "" && repository.Begins(abs) { // the names beside it may be carried over as well
			lead = abs
		}
		d := chain.DecideAction(tool.Action{Kind: kind, Path: abs, Real: abs, Lead: lead})
		if d.Effect != policy.Deny {
			return nil
		}
		denied := fault.New(fault.Denied, "%s", d.Reason)
		if use != changeset.ToPass || len(chain) == 0 || lead != "" {
			return denied
		}
		for _, r := range d.Refusals {
			if r.Effect == policy.Deny && (r.Rule == nil || r.Rule.Pattern != "") {
				return denied
			}
		}
		return nil
	}
}

// Changeset is a run's changeset as it is looked at.
type Changeset struct {
	Run     ledger.Run
	Set     *changeset.Set
	Changes []changeset.Change
	Calls   []HeldCall // the calls that wait for review, or did

	store     store.Store
	recording *replay.Recording
	decide    changeset.Decide
}

// Show gives what a run holds: a run by its ID or the beginning of it.
func (s *Changes) Show(ctx context.Context, id string) (Changeset, error) {
	c, err := s.changeset(ctx, id)
	if err != nil {
		return c, err
	}
	c.Changes, err = c.Set.Changes(ctx, c.decide)
	return c, err
}

// ended finds a run that is over.
func (s *Changes) ended(ctx context.Context, id string) (store.Store, ledger.Run, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return nil, ledger.Run{}, err
	}
	if err := s.recover(ctx, st); err != nil { // also calls interrupted a moment ago
		return nil, ledger.Run{}, err
	}
	run, err := st.Run(ctx, id)
	if err == nil && run.Status == ledger.Running {
		err = fault.New(fault.Conflict, "run %s goes on", run.ID).WithHint("wait until it is over")
	}
	return st, run, err
}

func (s *Changes) changeset(ctx context.Context, id string) (c Changeset, err error) {
	if c.store, c.Run, err = s.ended(ctx, id); err != nil {
		return c, err
	}
	if c.Set, err = s.Folder().Load(c.Run.ID.String()); err != nil {
		return c, err
	}
	if c.recording, err = replay.Open(ctx, c.store, c.Run); err != nil {
		return c, err
	}
	g, err := c.recording.Grant()
	if err != nil {
		return c, err
	}
	c.decide = mayWrite(g.Chain(), c.Set.Workspace())
	if g.Chain().MayHold() {
		if c.Calls, err = s.listHeldCalls(ctx, c.store, c.Run); err != nil {
			return c, err
		}
	}
	if c.Set.State() != changeset.Active {
		return c, nil
	}
	if len(c.Calls) > 0 {
		c.Set.Await()
	}
	list, err := c.Set.Review(ctx, c.decide) // the run's process died before it could
	if err != nil {
		return c, err
	}
	return c, c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesReview}, list)
}

func (c *Changeset) recordEvent(ctx context.Context, ev ledger.Event, what any) error {
	return record(ctx, c.store, c.Run.Seq, ev, what)
}

// decider is who decides, for the record; "": the operator of $REMIT_HOME.
func (s *Changes) decider(who string) string { return cmp.Or(who, "user:"+s.Home.User) }

// Apply carries a run's changes over into its workspace: those at or beneath the paths, relative to
// the workspace, or all. Without paths it then carries out the held calls in order, until one does
// not complete. It returns the changeset with the results.
func (s *Changes) Apply(ctx context.Context, who, id string, d Decision, paths ...string) (Changeset, error) {
	c, err := s.changeset(ctx, id)
	if err != nil {
		return c, err
	}
	if len(c.Calls) > 0 && len(paths) == 0 {
		if _, err := c.carried(ctx, d); err != nil { // before any file is touched
			return c, err
		}
	} else if len(d.Again)+len(d.Skip) > 0 {
		return c, fault.New(fault.Usage, "there are no held calls to repeat or to leave out").WithHint("leave out --again and --skip")
	}
	if c, err = s.applyFiles(ctx, c, who, paths); err != nil || len(paths) > 0 {
		return c, err
	}
	err = s.carry(ctx, &c, s.decider(who), d)
	return c, err
}

func (s *Changes) applyFiles(ctx context.Context, c Changeset, who string, paths []string) (Changeset, error) {
	var err error
	if paths, err = inWorkspace(c.Set.Workspace(), paths); err != nil {
		return c, err
	}
	who = s.decider(who)
	if err := c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesApplying, Principal: who}, nil); err != nil {
		return c, err
	}
	if err := c.label(ctx, paths); err != nil {
		return c, errors.Join(err, c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesFailed, Principal: who, Code: fault.CodeOf(err)}, nil))
	}
	c.Changes, err = c.Set.Apply(ctx, c.decide, paths...)
	if err != nil {
		return c, errors.Join(err, c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesFailed, Principal: who, Code: fault.CodeOf(err)}, nil))
	}
	return c, c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesApplied, Principal: who}, c.Changes)
}

// inWorkspace makes paths relative to the workspace.
func inWorkspace(workspace string, paths []string) ([]string, error) {
	out := make([]string, len(paths))
	for i, p := range paths {
		rel := filepath.Clean(p)
		if filepath.IsAbs(p) {
			var err error
			if rel, err = filepath.Rel(workspace, p); err != nil {
				return nil, fault.New(fault.Usage, "%q is not in the workspace", p)
			}
		}
		if p == "" || rel == ".." || strings.HasPrefix(rel, "../") {
			return nil, fault.New(fault.Usage, "%q is not in the workspace", p).WithHint("paths are relative to %q", workspace)
		}
		out[i] = rel
	}
	return out, nil
}

// Discard throws a run's changes away.
func (s *Changes) Discard(ctx context.Context, who, id string) (Changeset, error) {
	c, err := s.changeset(ctx, id)
	if err != nil && c.Set != nil && c.Set.State() == changeset.Active { // it cannot be looked at any more
		err = c.Set.Interrupted()
	}
	if err != nil {
		return c, err
	}
	return c, c.Set.Discard(func() error {
		return c.recordEvent(ctx, ledger.Event{Change: ledger.ChangesDiscarded, Principal: s.decider(who)}, nil)
	})
}

// Undo puts back what a run wrote, by an applied changeset or by its file
// tools. Paths in force are put back also if they have changed since.
func (s *Changes) Undo(ctx context.Context, who, id string, force ...string) (ledger.Run, changeset.Back, error) {
	st, run, err := s.ended(ctx, id)
	if err != nil {
		return run, changeset.Back{}, err
	}
	home, who := s.Folder(), s.decider(who)
	if _, err := home.Load(run.ID.String()); errors.Is(err, fault.NotFound) {
		for i, f := range force {
			if !filepath.IsAbs(f) {
				force[i] = filepath.Join(run.Workspace, f)
			}
		}
	} else if force, err = inWorkspace(run.Workspace, force); err != nil {
		return run, changeset.Back{}, err
	}
	tell := func(ev ledger.Event, what any) error {
		ev.Principal = who
		return record(ctx, st, run.Seq, ev, what)
	}
	if err := tell(ledger.Event{Change: ledger.ChangesUndoing}, nil); err != nil {
		return run, changeset.Back{}, err
	}
	back, err := home.Undo(run.ID.String(), force...)
	if err != nil {
		return run, back, errors.Join(err, tell(ledger.Event{Change: ledger.ChangesFailed, Code: fault.CodeOf(err)}, nil))
	}
	return run, back, tell(ledger.Event{Change: ledger.ChangesUndone}, back)
}

// maxSearched is how many runs Last looks at.
const maxSearched = 1000

// Last finds the newest run with changes that can be undone, in the workspace that a folder is in. fault.NotFound: it has
// none.
func (s *Changes) Last(ctx context.Context, st store.Store, folder string) (id string, err error) {
	filter := store.RunFilter{Mode: ledger.Live, Limit: 100}
	for range maxSearched / filter.Limit {
		runs, err := st.Runs(ctx, filter)
		if err != nil {
			return "", err
		}
		for _, r := range runs {
			if r.Status != ledger.Running && sandbox.Within(folder, r.Workspace) && s.Folder().Undoable(r.ID.String()) {
				return r.ID.String(), nil
			}
		}
		if len(runs) < filter.Limit {
			break
		}
		filter.Before = runs[len(runs)-1].Seq
	}
	return "", fault.New(fault.NotFound, "no run in %q changed files that can be restored", folder).
		ForOperator("remit runs lists the runs of all folders; then: remit undo RUN")
}

// sweepEvery is the interval at which Recover asks whether a day has passed since old data
// was removed.
const sweepEvery = time.Hour

// unbegun is the age from which on a changeset without a run was left by a
// crash: it is made just before its run is recorded.
const unbegun = time.Hour
