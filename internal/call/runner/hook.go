package runner

import (
	"bytes"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Hook is called around calls. It can refuse a call before it runs, and add notes to the
// record. It cannot allow, change or repeat a call.
type Hook struct {
	Name   string                                 // in notes and refusals; "": it has none
	Stages []HookStage                            // at which it is called; nil: at all
	Match  func(tool.ID) bool                     // the tools around whose calls it is called; nil: all
	Chain  func(policy.Env) (policy.Chain, error) // bounds a program that the hook runs; nil: it runs none
	// Handle returns a note for the record; "": none. Where the stage is HookBefore, an error
	// refuses the call. It must return when ctx ends.
	Handle func(ctx context.Context, e HookEvent) (note string, err error)
}

// appliesTo reports whether the hook is called at a stage of a call of a tool.
func (h *Hook) appliesTo(at HookStage, id tool.ID) bool {
	return (h.Stages == nil || slices.Contains(h.Stages, at)) && (h.Match == nil || h.Match(id))
}

// called names the hook in messages.
func (h *Hook) called() string {
	if h.Name == "" {
		return "the hook"
	}
	return fmt.Sprintf("the hook %q", h.Name)
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
	Env     tool.Env    // of the call
	// Permit is for the program of a hook that has a Chain, and ends with Handle. It permits
	// everything that the chain allows, and nothing of the call's.
	Permit permit.Permit
}

const (
	hookTime = 10 * time.Second // of one call of a hook
	maxNote  = 4 << 10          // bytes of a note
)

// callBefore calls the hooks before the call runs. Whatever goes wrong in a hook refuses the
// call. A replay takes the result from the record.
func (f *flight) callBefore(ctx context.Context) error {
	if len(f.r.Hooks) == 0 && f.run.Recall == nil {
		return nil
	}
	err := f.gate(ctx, HookGate, func(ctx context.Context) error {
		return f.callHooks(ctx, HookEvent{Stage: HookBefore}, func(h *Hook, err error) error {
			who := "a hook"
			if h.Name != "" {
				who = h.called()
			}
			return fault.Wrap(fault.HookRefused, err, "%s refused the call: %s", who, clip.Text(f.r.masked(fault.Message(err)), maxNote))
		})
	})
	if err != nil {
		f.refuse("hook", err)
	}
	return err
}

// tellHooks calls the hooks where they can only add notes. A failure becomes a note.
func (f *flight) tellHooks(ctx context.Context, e HookEvent) {
	_ = f.callHooks(ctx, e, func(h *Hook, err error) error { // never an error
		f.addNote(e.Stage, h.called()+" failed: "+fault.Message(err))
		return nil
	})
}

// tellEnd calls the hooks with how the call ended.
func (f *flight) tellEnd(ctx context.Context, o *Outcome) {
	e := HookEvent{Stage: HookDenied, Status: o.Status, Err: o.Err}
	switch {
	case f.permit.Minted():
		e.Stage = HookAfter
	case o.Status != tool.StatusDenied || f.noCall:
		return
	}
	f.tellHooks(context.WithoutCancel(ctx), e)
}

// callHooks calls the hooks that want an event, in order, until failed returns an error.
func (f *flight) callHooks(ctx context.Context, e HookEvent, failed func(*Hook, error) error) error {
	if f.run.Mode != ledger.Live {
		return nil
	}
	e.Run, e.Session, e.Holder = f.run.ID, f.run.Session, f.run.Grant.Holder()
	e.Index, e.Step, e.Tool, e.Env = f.c.Index, f.c.Step, f.c.Tool, f.run.Env
	if f.entry.Spec != nil {
		e.Risk = f.entry.Spec.Risk
	}
	for i := range f.r.Hooks {
		h := &f.r.Hooks[i]
		if !h.appliesTo(e.Stage, e.Tool) {
			continue
		}
		e.Args = bytes.Clone(f.args) // the hook may write in it, also after it was given up
		note, err := f.callHook(ctx, h, e)
		if note != "" && h.Name != "" {
			note = h.Name + ": " + note
		}
		f.addNote(e.Stage, note)
		if err == nil {
			continue
		}
		if err = failed(h, err); err != nil {
			return err
		}
	}
	return nil
}

// callHook calls one hook within its time.
func (f *flight) callHook(ctx context.Context, h *Hook, e HookEvent) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, hookTime, fault.New(fault.ToolTimeout, "the hook did not answer within %s", hookTime))
	defer cancel()
	if h.Chain != nil {
		chain, err := h.Chain(f.run.Bound)
		if err != nil {
			return "", err
		}
		e.Permit = permit.Mint(permit.Terms{Tool: e.Tool, Chain: chain, Env: f.run.Env, Limits: chain.Limits()})
		defer e.Permit.End()
	}
	type answer struct {
		note string
		err  error
	}
	ch := make(chan answer, 1) // buffered: a hook that was given up can still end
	go func() {
		var a answer
		defer func() {
			if p := recover(); p != nil {
				a.err = fault.Wrap(fault.ToolPanicked, fmt.Errorf("%v", p), "the hook crashed")
			}
			ch <- a
		}()
		a.note, a.err = h.Handle(ctx, e)
	}()
	select {
	case a := <-ch:
		return a.note, a.err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
}

// addNote keeps a hook's note for the record, after those of other hooks.
func (f *flight) addNote(at HookStage, note string) {
	if note == "" {
		return
	}
	if f.notes == nil {
		f.notes = map[HookStage]string{}
	}
	if was := f.notes[at]; was != "" {
		note = was + "\n" + note
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
