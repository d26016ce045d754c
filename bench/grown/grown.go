// Package grown makes large ledgers quickly. It appends the events of whole runs in
// batches through the store, so that hashes, tags, signatures and derived tables are
// those of any other ledger, and `remit verify` finds no problem. Start at [Make].
package grown

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store/sqlite"
)

// Size is how much a ledger holds.
type Size struct {
	Calls     int // in all
	RunLength int // calls of each run; the last one may be shorter
}

// Rare events in a ledger: every so many calls.
const (
	failedEvery  = 500
	deniedEvery  = 700
	refusedEvery = 900
	slowEvery    = 1100
	largeEvery   = 250 // its output is kept as a blob
	largeOutput  = 8 << 10
)

// callEvery is the time between two calls.
const callEvery = time.Second

// tools are the tools that are called in turns.
var tools = [...]tool.ID{"fs.read", "fs.write", "shell.run", "http.get", "mcp.github.search", "mcp.github.create_issue", "ext.notes.add"}

// Make adds finished runs to the ledger in the folder home, which may be new. The newest
// call is of the present time.
func Make(ctx context.Context, home string, s Size) (err error) {
	st, err := sqlite.Open(ctx, sqlite.Options{Home: home, Durability: sqlite.Process})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	began := time.Now().Add(-time.Duration(s.Calls) * callEvery)
	for first := 0; first < s.Calls; first += s.RunLength {
		if err := addRun(ctx, st, began, first, min(s.RunLength, s.Calls-first)); err != nil {
			return err
		}
	}
	return nil
}

// addRun appends a run with n calls, of which the first has this number in the ledger.
func addRun(ctx context.Context, st *sqlite.Store, began time.Time, first, n int) error {
	id, err := uuid.NewV7()
	if err != nil {
		return err
	}
	at := func(call int) int64 { return began.Add(time.Duration(call) * callEvery).UnixMicro() }
	run, err := st.Append(ctx, ledger.Entry{
		Event:   ledger.Event{Kind: ledger.RunStarted, At: at(first), ID: id[:], Mode: ledger.Live, Name: fmt.Sprintf("run-%d", first), Principal: "user:bench", Workspace: "/w", Total: uint32(n)},
		Payload: ledger.Payload{ledger.PartPlan: []byte("version: 1")},
	})
	if err != nil {
		return err
	}
	entries := make([]ledger.Entry, 0, 2*n+1)
	for i := range n {
		entries = append(entries, call(run, i+1, first+i, at(first+i))...)
	}
	entries = append(entries, ledger.Entry{Event: ledger.Event{Kind: ledger.RunFinished, At: at(first + n), Run: run, Status: tool.Completed}})
	_, err = st.Append(ctx, entries...)
	return err
}

// call makes the events of a call. number counts through the whole ledger.
func call(run ledger.Seq, index, number int, at int64) []ledger.Entry {
	id := tools[number%len(tools)]
	first := ledger.Event{
		Kind: ledger.CallIntent, At: at, Run: run, Call: uint32(index), Tool: id, Digest: bytes.Repeat([]byte{7}, 32), Effect: policy.Allow,
		Rule: `tools.allow[3] "*"`, Line: 12, Risk: tool.Medium, Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{11, 140},
	}
	args := fmt.Appendf(nil, `{"path":"out/%d.txt","text":"some text of call %d"}`, number, number)
	if number%deniedEvery == deniedEvery-1 {
		first.Kind, first.Effect, first.Status, first.Code, first.Effects = ledger.CallDone, policy.Deny, tool.StatusDenied, fault.Denied, 0
		return []ledger.Entry{{Event: first, Payload: ledger.Payload{ledger.PartArgs: args, ledger.PartError: []byte("denied by the policy")}}}
	}
	end := ledger.Event{Kind: ledger.CallOutcome, At: at + 900, Run: run, Call: uint32(index), Status: tool.Completed, Effects: tool.EffectSet(tool.FSWrite), Timeline: []int64{11, 140, 480, 610}}
	result := ledger.Payload{
		ledger.PartOutput:   []byte(`{"bytes_written":19,"created":true}`),
		ledger.PartHappened: fmt.Appendf(nil, `{"effects":[{"effect":"fs.write","on":"/w/out/%d.txt","bytes":19}]}`, number),
	}
	switch {
	case number%failedEvery == failedEvery-1:
		end.Status, end.Code = tool.Failed, fault.ToolFailed
		result = ledger.Payload{ledger.PartError: []byte("the service did not answer")}
	case number%refusedEvery == refusedEvery-1:
		end.Refused = 1
	case number%slowEvery == slowEvery-1:
		end.Timeline[3] = ledger.SlowCall.Microseconds()
	case number%largeEvery == largeEvery-1:
		result[ledger.PartOutput] = bytes.Repeat(fmt.Appendf(nil, "%d ", number), largeOutput/8)
	}
	return []ledger.Entry{{Event: first, Payload: ledger.Payload{ledger.PartArgs: args}}, {Event: end, Payload: result}}
}
