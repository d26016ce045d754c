package runner

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// FileLabels knows the labels of data that files were given.
type FileLabels interface {
	// Look fills in the labels of the files that a call's actions name.
	Look(ctx context.Context, q LabelQuery) (LabelsFound, error)
	// Having lists the files with a label that a chain lets a call read, and that do not have
	// it by their path.
	Having(ctx context.Context, flows *policy.Flows, chain policy.Chain, label string) (policy.LabelledFiles, error)
	// Begin prepares to find what processes under a chain write from now on.
	Begin(chain policy.Chain) Writing
}

// Writing finds what a call wrote.
type Writing interface {
	// Folders are the folders below which processes can write.
	Folders() []string
	// Only says that processes changed no other files than these.
	Only(files []string)
	// Written calls f with each written file: one of paths, or changed in the folders. key is
	// that of its content; "": the file is too large, or is there no longer.
	Written(ctx context.Context, run *Run, paths []string, f func(path string, key ledger.LabelKey)) error
}

// LabelQuery asks for the labels of the files of a call.
type LabelQuery struct {
	Run     *Run
	Flows   *policy.Flows
	Chain   policy.Chain
	Actions []tool.Action // which get the labels
	Typed   []tool.Action // of typed commands
	Process bool          // the call starts processes
}

// LabelsFound holds labels of files that no action has, and found labels that are not recorded yet:
// of contents by the paths of their files, and of paths by their contents.
type LabelsFound struct {
	policy.RecordedLabels

	Found []ledger.FileLabel
}

// fileFlow holds the state of a call that concerns labels recorded for files.
type fileFlow struct {
	labels  []string           // of what the call writes; sorted
	found   []ledger.FileLabel // labels that are not recorded yet
	writing Writing            // of a call with labels that starts processes; nil: none
	paths   pathList           // that file tools wrote
}

// startsProcesses reports whether a call can do more than its actions say.
func (f *flight) startsProcesses() bool {
	return f.entry.Spec.Effects.Has(tool.SystemExec) || slices.ContainsFunc(f.actions, func(a tool.Action) bool { return a.Kind == tool.Command })
}

// recallLabels adds to a call the labels that were recorded for files, and notes them.
func (f *flight) recallLabels(ctx context.Context, call *policy.Call) error {
	seen := &f.flow.seen
	if f.run.Recall == nil && f.r.Files != nil {
		found, err := f.r.Files.Look(ctx, LabelQuery{Run: f.run, Flows: f.flow.flows, Chain: f.chain, Actions: f.actions,
			Typed: f.flow.flows.TypedFiles(f.actions), Process: f.startsProcesses()})
		if err != nil {
			return err
		}
		seen.Around, seen.Typed, f.flow.files.found = found.Around, found.Typed, found.Found
	}
	call.Recorded = policy.RecordedLabels{Around: seen.Around, Typed: seen.Typed}
	return nil
}

// reachable finds the files with a withheld label that the call could reach. If it cannot be
// kept from all of them, the call counts as one that names them.
func (f *flight) reachable(ctx context.Context, context policy.Labels) (map[string]policy.LabelledFiles, error) {
	flows, foreign := f.flow.flows, f.run.Env.Foreign
	if f.run.Recall == nil && f.r.Files != nil {
		out := map[string]policy.LabelledFiles{}
		for _, label := range flows.Names(flows.Withheld(context, f.flow.of, foreign)) {
			files, err := f.r.Files.Having(ctx, flows, f.chain, label)
			if err != nil {
				return nil, err
			}
			if files.Unknown {
				f.flow.seen.Reached = append(f.flow.seen.Reached, label)
				continue
			}
			out[label] = files
		}
		f.flow.of = f.flow.of.Reaching(flows.Set(f.flow.seen.Reached))
		return out, nil
	}
	f.flow.of = f.flow.of.Reaching(flows.Set(f.flow.seen.Reached))
	return nil, nil
}

// narrow narrows the call's chain by its labels.
func (f *flight) narrow(ctx context.Context, context policy.Labels) error {
	reach, err := f.reachable(ctx, context)
	if err != nil {
		return err
	}
	f.chain = f.flow.flows.Narrow(context, f.flow.of, f.run.Env.Foreign)
	for label, files := range reach {
		if f.chain, err = f.flow.flows.WithholdFiles(f.chain, label, files); err != nil {
			return err
		}
	}
	return nil
}

// traceWrites prepares to record the labels of what the call writes. Labels of a held run are
// recorded when its writes are applied; the run gets the labels of files that such a call names.
func (f *flight) traceWrites() {
	flow := f.flow
	writes := f.entry.Spec.Effects.Has(tool.FSWrite) || slices.ContainsFunc(f.actions, func(a tool.Action) bool { return a.Kind == tool.FileWrite })
	if f.run.Recall == nil {
		flow.seen.Held = f.run.Held != nil
	}
	if process := f.startsProcesses(); flow.seen.Held {
		if writes || process {
			flow.of.Result |= flow.of.Named | flow.flows.Set(flow.seen.Referred)
		}
		return
	} else if process && f.run.Client == "" && f.r.Files != nil {
		flow.files.writing = f.r.Files.Begin(f.chain)
	} else if !writes {
		return
	}
	flow.files.labels = f.dataLabels()
}

// data lists the labels of the data that the call can pass on, and the secrets that its processes are given.
func (f *flight) data() (out []string) {
	for _, label := range f.dataLabels() {
		out = append(out, "label "+label)
	}
	secrets, _ := f.chain.EnvSecrets(f.entry.Spec.ID) // an error fails the call where the secrets are added
	for _, s := range secrets {
		out = append(out, "secret "+s.Store)
	}
	return out
}

// dataLabels returns the labels of the data that the call can pass on, sorted.
func (f *flight) dataLabels() []string {
	if f.flow == nil {
		return nil
	}
	labels := slices.Concat(f.run.Context.Labels(), f.flow.seen.Referred, f.flow.flows.Names(f.flow.of.Lineage(0)))
	slices.Sort(labels)
	return slices.Compact(labels)
}

// labelsBefore returns the entries that give labels to the files that the call is about to write,
// and to files that it reads whose labels were found. They are recorded with its first event.
func (f *flight) labelsBefore() ([]ledger.Entry, error) {
	if f.flow == nil || f.r.Files == nil {
		return nil, nil
	}
	changes, flow := slices.Clone(f.flow.files.found), &f.flow.files
	if len(flow.labels) > 0 {
		for _, a := range f.actions {
			if a.Kind == tool.FileWrite && (a.Argument == tool.NoArgument || f.run.Client != "") {
				changes = f.labelPath(changes, realPath(a))
			}
		}
		if flow.writing != nil {
			for _, folder := range flow.writing.Folders() {
				changes = append(changes, ledger.FileLabel{File: f.folderKey(folder), Labels: flow.labels})
			}
		}
	}
	return f.labelEvents(changes)
}

// realPath is the path of a file action without links, as far as it is known.
func realPath(a tool.Action) string {
	if a.Real != "" {
		return a.Real
	}
	return a.Path
}

// labelPath adds a change that gives a path the labels that it does not have by itself.
func (f *flight) labelPath(to []ledger.FileLabel, path string) []ledger.FileLabel {
	has := f.flow.flows.Names(f.flow.flows.Pattern(path))
	labels := slices.DeleteFunc(slices.Clone(f.flow.files.labels), func(l string) bool { return slices.Contains(has, l) })
	if len(labels) == 0 {
		return to
	}
	return append(to, ledger.FileLabel{File: ledger.PathKey(path), Labels: labels})
}

// folderKey names a folder while the call writes there.
func (f *flight) folderKey(folder string) ledger.LabelKey {
	return ledger.FolderKey(fmt.Sprintf("%d.%d", f.run.Seq, f.c.Index), folder)
}

// keeper tells which files the call's tools write.
func (f *flight) keeper() permit.Keeper {
	if f.flow == nil || len(f.flow.files.labels) == 0 {
		return f.run.Keep
	}
	return labelKeeper{f.run.Keep, &f.flow.files.paths}
}

// labelsAfter are the entries that give labels to what the call wrote. Where not everything
// can be looked at, the folders in which it wrote keep the labels.
func (f *flight) labelsAfter(ctx context.Context) ([]ledger.Entry, error) {
	if f.flow == nil || f.r.Files == nil || f.handedOver || len(f.flow.files.labels) == 0 {
		return nil, nil
	}
	flow := &f.flow.files
	var changes []ledger.FileLabel
	w := flow.writing
	if w == nil {
		w = f.r.Files.Begin(nil)
	} else if files, known := f.permit.Changed(); known {
		w.Only(files)
	}
	ctx, stop := context.WithTimeout(ctx, recordTimeout/2) // the outcome must be recorded in the rest
	defer stop()
	err := w.Written(ctx, f.run, flow.paths.list(), func(path string, content ledger.LabelKey) {
		changes = f.labelPath(changes, path)
		if content != "" {
			changes = append(changes, ledger.FileLabel{File: content, Labels: flow.labels})
		}
	})
	if err == nil {
		for _, folder := range w.Folders() {
			changes = append(changes, ledger.FileLabel{File: f.folderKey(folder), Clear: true})
		}
	}
	return f.labelEvents(changes)
}

// labelsOfOutcome are the entries that are recorded with the call's outcome.
func (f *flight) labelsOfOutcome(ctx context.Context) ([]ledger.Entry, error) {
	if f.intent > 0 {
		return f.labelsAfter(ctx)
	}
	if !f.permit.Minted() {
		return nil, nil
	}
	return f.labelsBefore()
}

// atOnce is how many files one event gives labels.
const atOnce = 1000

// labelEvents makes events of changes.
func (f *flight) labelEvents(changes []ledger.FileLabel) ([]ledger.Entry, error) {
	var out []ledger.Entry
	for part := range slices.Chunk(changes, atOnce) {
		doc, err := json.Marshal(ledger.FileLabels{Changes: part})
		if err != nil {
			return nil, fault.Wrap(fault.Internal, err, "the labels of files cannot be encoded")
		}
		out = append(out, ledger.Entry{Payload: ledger.Payload{ledger.PartDoc: doc},
			Event: ledger.Event{Kind: ledger.FilesLabelled, At: f.r.now().UnixMicro(), Run: f.run.Seq, Call: uint32(f.c.Index)}})
	}
	return out, nil
}

// pathList collects paths. It is safe for concurrent use.
type pathList struct {
	mu    sync.Mutex
	paths map[string]bool
}

func (p *pathList) add(path string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.paths == nil {
		p.paths = map[string]bool{}
	}
	p.paths[path] = true
}

func (p *pathList) list() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for path := range p.paths {
		out = append(out, path)
	}
	slices.Sort(out)
	return out
}

// labelKeeper notes which files are written, and passes each write to another keeper.
type labelKeeper struct {
	keep  permit.Keeper // nil: none
	paths *pathList
}

// Before implements permit.Keeper.
func (k labelKeeper) Before(real string, dir int, name string) error {
	k.paths.add(real)
	if k.keep == nil {
		return nil
	}
	return k.keep.Before(real, dir, name)
}

// After implements permit.Keeper.
func (k labelKeeper) After(real string, dir int, name string) error {
	if k.keep == nil {
		return nil
	}
	return k.keep.After(real, dir, name)
}
