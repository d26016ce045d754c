package runner

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Hook is called around calls, for the operator. It can refuse a call before it runs, and add
// notes to the record. It cannot allow, change or repeat a call.
type Hook interface {
	// Handle returns a note for the record; "": none. Where the stage is HookBefore, an error
	// refuses the call. It must return when ctx ends.
	Handle(ctx context.Context, e HookEvent) (note string, err error)
}

// HookStage is where a call is.
type HookStage string

// The stages at which a hook is called.
const (
	HookAsked  HookStage = "asked"  // a person is about to be asked for approval
	HookBefore HookStage = "before" // the call was allowed and is about to run
	HookAfter  HookStage = "after"  // the call ran
	HookDenied HookStage = "denied" // the call was refused
)

// HookEvent describes a call to a hook.
type HookEvent struct {
	Stage   HookStage
	Run     uuid.UUID
	Session uuid.UUID // of an agent; zero: none
	Holder  string    // of the run's grant
	Index   int
	Step    string
	Tool    tool.ID
	Risk    tool.Risk
	Args    []byte      // as recorded: canonical JSON; nil if the call was refused before they were encoded
	Status  tool.Status // of HookAfter and HookDenied
	Err     error       // of HookAfter and HookDenied: why the call did not complete
	Reason  string      // of HookAsked: why approval is needed
}

const (
	hookTime = 10 * time.Second // of one call of a hook
	maxNote  = 4 << 10          // bytes of a note
)

// callBefore calls the hook before the call runs. Whatever goes wrong in the hook refuses the
// call. A replay takes the result from the record.
func (f *flight) callBefore(ctx context.Context) error {
	if f.r.Hook == nil && f.run.Recall == nil {
		return nil
	}
	err := f.gate(ctx, HookGate, func(ctx context.Context) error {
		err := f.callHook(ctx, HookEvent{Stage: HookBefore})
		if err == nil {
			return nil
		}
		return fault.Wrap(fault.HookRefused, err, "a hook refused the call: %s", clip.Text(f.r.masked(fault.Message(err)), maxNote))
	})
	if err != nil {
		f.refuse("hook", err)
	}
	return err
}

// tellHook calls the hook where it can only add a note. A failure becomes the note.
func (f *flight) tellHook(ctx context.Context, e HookEvent) {
	if err := f.callHook(ctx, e); err != nil {
		f.addNote(e.Stage, "the hook failed: "+fault.Message(err))
	}
}

// tellEnd calls the hook with how the call ended.
func (f *flight) tellEnd(ctx context.Context, o *Outcome) {
	e := HookEvent{Stage: HookDenied, Status: o.Status, Err: o.Err}
	switch {
	case f.permit.Minted():
		e.Stage = HookAfter
	case o.Status != tool.StatusDenied || f.noCall:
		return
	}
	f.tellHook(context.WithoutCancel(ctx), e)
}

// callHook calls the hook within its time, and keeps its note.
func (f *flight) callHook(ctx context.Context, e HookEvent) error {
	if f.r.Hook == nil || f.run.Mode != ledger.Live {
		return nil
	}
	e.Run, e.Session, e.Holder = f.run.ID, f.run.Session, f.run.Grant.Holder()
	e.Index, e.Step, e.Tool = f.c.Index, f.c.Step, f.c.Tool
	e.Args = bytes.Clone(f.args) // the hook may write in it, also after it was given up
	if f.entry.Spec != nil {
		e.Risk = f.entry.Spec.Risk
	}
	ctx, cancel := context.WithTimeoutCause(ctx, hookTime, fault.New(fault.ToolTimeout, "the hook did not answer within %s", hookTime))
	defer cancel()
	type answer struct {
		note string
		err  error
	}
	ch := make(chan answer, 1) // buffered: a hook that was given up can still end
	hook := f.r.Hook
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = fault.Wrap(fault.ToolPanicked, fmt.Errorf("%v", p), "the hook crashed")
			}
			ch <- a
		}()
		a.note, a.err = hook.Handle(ctx, e)
	}()
	select {
	case a := <-ch:
		f.addNote(e.Stage, a.note)
		return a.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// addNote keeps a hook's note for the record.
func (f *flight) addNote(at HookStage, note string) {
	if note == "" {
		return
	}
	if f.notes == nil {
		f.notes = map[HookStage]string{}
	}
	f.notes[at] = clip.Text(f.r.masked(strings.ToValidUTF8(note, "\uFFFD")), maxNote)
}

// takeNotes adds the notes to a payload, each once.
func (f *flight) takeNotes(pay ledger.Payload) {
	for at, note := range f.notes {
		pay[ledger.PartNote+string(at)] = []byte(note)
	}
	clear(f.notes)
}
