package store_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
)

// The texts of marks are kept in ledgers: they stay as they are, also where a kind or a
// status is shown by another name.
func TestMarksAreAFormat(t *testing.T) {
	var got []string
	for k := ledger.RunStarted; k <= ledger.Operated; k++ {
		got = append(got, string(store.KindMark(k)))
	}
	for s := tool.Completed; s <= tool.StatusInterrupted; s++ {
		got = append(got, string(store.StatusMark(s)))
	}
	e := ledger.Event{Kind: ledger.CallOutcome, Status: tool.Failed, Refused: 1, Timeline: []int64{0, 0, 0, ledger.SlowCall.Microseconds()}}
	for _, m := range store.Marks(nil, &e, store.Called{Tool: "ext:a:get", Bounded: true})[2:] {
		got = append(got, string(m))
	}
	want := []string{
		"kind:run started", "kind:call intent", "kind:call outcome", "kind:call done", "kind:run finished", "kind:changeset",
		"kind:grant issued", "kind:grant standing", "kind:question asked", "kind:question voted", "kind:violation", "kind:question closed",
		"kind:agent saved", "kind:session saved", "kind:message added", "kind:file saved", "kind:operator action",
		"status:completed", "status:denied", "status:failed", "status:timeout", "status:cancelled", "status:skipped", "status:interrupted",
		"tool:ext:a:get", "refused", "slow", "bounded", "extension:a",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}
