package cli

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// On a narrow terminal IDs are whole and names can be told apart; no line wraps.
func TestTablesFitNarrowTerminals(t *testing.T) {
	tests := map[string]struct {
		head    []string
		natural []int
		whole   bool
		want    map[int][]int // by the terminal's width
	}{
		"runs": {strings.Fields("RUN STATUS STARTED TOOK CALLS NAME"), []int{18, 11, 15, 6, 13, 20}, false,
			map[int][]int{100: {18, 11, 15, 6, 13, 20}, 80: {18, 11, 15, 0, 13, 15}, 60: {18, 11, 0, 0, 13, 12}}},
		"runs with denied and failed calls": {strings.Fields("RUN STATUS STARTED TOOK CALLS NAME"), []int{18, 8, 15, 6, 23, 55}, false,
			map[int][]int{60: {18, 8, 0, 0, 14, 14}}},
		"grants": {strings.Fields("GRANT STATUS HOLDER PARENT ISSUED EXPIRES BUDGETS"), []int{18, 7, 16, 18, 15, 19, 40}, false,
			map[int][]int{100: {18, 7, 16, 18, 0, 19, 12}, 80: {18, 7, 16, 18, 0, 0, 13}, 60: {18, 7, 11, 18, 0, 0, 0}}},
		"approvals": {strings.Fields("APPROVAL STATE ASKED HOLDER TOOL RISK REASON"), []int{18, 7, 15, 30, 10, 8, 60}, false,
			map[int][]int{80: {18, 7, 0, 17, 10, 8, 10}, 60: {18, 7, 0, 19, 10, 0, 0}}},
		"sessions": {strings.Fields("SESSION STATUS CREATED MESSAGES RUN AGENT TITLE"), []int{18, 7, 15, 8, 18, 12, 40}, false,
			map[int][]int{80: {18, 7, 0, 0, 18, 12, 17}, 60: {18, 7, 0, 0, 18, 0, 11}}},
		"steps": {strings.Fields("# STATUS TOOL STEP TOOK REASON"), []int{1, 11, 10, 24, 6, 90}, true,
			map[int][]int{100: {1, 11, 10, 24, 6, 38}, 80: {1, 11, 10, 24, 6, 0}, 60: {1, 11, 10, 24, 6, 0}}},
	}
	for name, tt := range tests {
		for room, want := range tt.want {
			t.Run(fmt.Sprintf("%s in %d columns", name, room), func(t *testing.T) {
				if got := fit(tt.head, tt.natural, room, tt.whole); !slices.Equal(got, want) {
					t.Errorf("got %v, want %v", got, want)
				}
			})
		}
	}
}

// IDs are printed whole on any width, names are wrapped, and text is cut.
func TestTablesCutNoIDs(t *testing.T) {
	const id = "api:warehouse:list_all_orders_of_a_customer"
	tests := map[string]struct {
		head   []string
		row    []string
		widths []int
		room   int
		want   string
	}{
		"text is cut":             {[]string{"TOOL", "DESCRIPTION"}, []string{"fs.read", "Read a whole file"}, []int{7, 11}, 20, "fs.read  Read a who…\n"},
		"a name is wrapped":       {[]string{"RUN", "NAME"}, []string{"01a2", "fix the greeting"}, []int{4, 10}, 16, "01a2  fix the\n      greeting\n"},
		"a long ID":               {[]string{"TOOL", "RISK"}, []string{id, "low"}, []int{10, 4}, 30, id + "\n            low\n"},
		"a long ID alone":         {[]string{"SEQ", "TOOL"}, []string{"1", id}, []int{3, 10}, 30, "1    " + id + "\n"},
		"a column does not fit":   {[]string{"SEQ", "EVENT", "TOOL"}, []string{"1", "run_finished", "fs.read"}, []int{3, 12, 7}, 20, "1    run_finished\n    fs.read\n"},
		"what is left out":        {[]string{"RUN", "TOOK", "TOOL"}, []string{"01a2", "3 ms", "fs.read"}, []int{4, 0, 7}, 20, "01a2  fs.read\n"},
		"an empty cell at a fold": {[]string{"SEQ", "EVENT", "TOOL"}, []string{"1", "run_finished", ""}, []int{3, 12, 7}, 20, "1    run_finished\n"},
	}
	for name, tt := range tests {
		var out strings.Builder
		s := &session{Streams: Streams{Out: &out}, lookup: func(string) (string, bool) { return "", false }}
		row := make([]cell, len(tt.row))
		for i, text := range tt.row {
			row[i].text = text
		}
		s.tableRow(tt.head, row, tt.widths, tt.room)
		if out.String() != tt.want {
			t.Errorf("%s: got\n%swant\n%s", name, out.String(), tt.want)
		}
	}
}
