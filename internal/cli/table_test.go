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
