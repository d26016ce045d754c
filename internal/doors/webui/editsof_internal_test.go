package webui

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
)

// An edit is shown as a difference only if it has exactly the fields that the difference shows.
// Of everything else, all of the JSON is shown.
func TestEditsShowWhatRuns(t *testing.T) {
	names := []string{"old", "new", "Old", "OLD", "New", "NEW", "oLd", "neW", "old_string", "new_string", "all", "ne\u017f", "o\u212ad"}
	for _, a := range names {
		for _, b := range names {
			for _, c := range append(names, "") {
				one := map[string]string{a: "text of " + a, b: "text of " + b}
				if c != "" {
					one[c] = "text of " + c
				}
				raw, err := json.Marshal(map[string]any{"edits": []any{one, map[string]string{"old": "x", "new": "y"}}})
				if err != nil {
					t.Fatal(err)
				}
				shown := fmt.Sprintf("%+v", valuesOf(raw))
				for name, text := range one {
					if !strings.Contains(shown, text) {
						t.Errorf("%s hides %q: %s", raw, name, shown)
					}
				}
			}
		}
	}
	for _, odd := range []string{`{"old":null,"new":"y"}`, `{"old":"x"}`, `{"old":"x","new":1}`, `{"old":"x","new":["y"]}`, `{}`, `null`, `"x"`} {
		if list := valuesOf(json.RawMessage(`{"edits":[` + odd + `]}`)); len(list) != 1 || list[0].Name != "edits" || list[0].Diff != nil {
			t.Errorf("%s is shown as %+v", odd, list)
		}
	}
	if list := valuesOf(json.RawMessage(`{"edits":[{"old":"x","new":"y"}]}`)); len(list) != 1 || len(list[0].Diff) != 2 {
		t.Errorf("an honest edit is shown as %+v", list)
	}
}
