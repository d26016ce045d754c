package approval_test

import (
	"slices"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

func TestHistoryInWords(t *testing.T) {
	day := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	pattern := &approval.Pattern{Tool: "fs.write", Digest: "d", Actions: []approval.ActionPattern{{Kind: "file.write", In: "/w/"}}}
	body := approval.Body{Tool: "fs.write", Touches: []string{"write /w/a"}, Pattern: pattern}
	other := *pattern
	other.Digest = "another version of the tool"
	no := store.Approval{State: store.Refused, Asked: day, Needs: 1}
	used := store.Approval{State: store.Used, Asked: day.AddDate(0, 0, -1), Needs: 1}
	unused := store.Approval{State: store.Lapsed, Asked: day, Needs: 2, Votes: []store.Vote{{By: "user:a", Yes: true}, {By: "user:b", Yes: true}}}
	half := store.Approval{State: store.Lapsed, Asked: day, Needs: 2, Votes: []store.Vote{{By: "user:a", Yes: true}}}
	type earlier struct {
		q store.Approval
		b approval.Body
	}
	tests := map[string]struct {
		earlier []earlier
		covers  *approval.Covered
		want    []string
	}{
		"nothing recorded": {nil, &approval.Covered{}, []string{
			"never asked before for the same tool and target", "this session pattern would have covered no recorded call"}},
		"the same call, answered in every way": {[]earlier{{no, body}, {used, body}, {unused, body}, {half, body}}, nil, []string{
			"asked 4 times before for the same tool and target: 2 approved, 1 refused, 1 not answered, last on 2026-11-20"}},
		"another target of the same pattern": {[]earlier{{used, approval.Body{Tool: "fs.write", Touches: []string{"write /w/b"}, Pattern: pattern}}}, &approval.Covered{Calls: 14, Refused: 2}, []string{
			"never asked before for the same tool and target",
			"asked once before for calls of the same session pattern: 1 approved, 0 refused, last on 2026-11-19",
			"asked once before for the same tool: 1 approved, 0 refused, last on 2026-11-19",
			"this session pattern would have covered 14 recorded calls, 2 of which were refused"}},
		"a changed tool, another tool and a proposal": {[]earlier{
			{no, approval.Body{Tool: "fs.write", Touches: []string{"write /w/b"}, Pattern: &other}},
			{no, approval.Body{Tool: "fs.delete", Touches: body.Touches}},
			{no, approval.Body{Tool: "fs.write", Touches: body.Touches, Edits: []approval.Edit{{File: "p.yaml"}}}},
		}, &approval.Covered{Calls: 1, Refused: 1}, []string{
			"never asked before for the same tool and target",
			"asked once before for the same tool: 0 approved, 1 refused, last on 2026-11-20",
			"this session pattern would have covered 1 recorded call, 1 of which was refused"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			h := approval.History{Covers: tt.covers}
			for _, e := range tt.earlier {
				h.Weigh(body, e.q, e.b)
			}
			if got := h.Lines(); !slices.Equal(got, tt.want) {
				t.Errorf("got %q\nwant %q", got, tt.want)
			}
		})
	}
}
