package grant_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
)

func TestADescentComesBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var want []grant.Node
		for range rapid.IntRange(0, 4).Draw(t, "nodes") {
			n := grant.Node{ID: uuid.UUID(rapid.SliceOfN(rapid.Byte(), 16, 16).Draw(t, "id")), Holder: rapid.String().Draw(t, "holder"),
				Links: rapid.IntRange(0, 9).Draw(t, "links"), Budgets: drawBudgets(t, "budgets"), Kept: rapid.Bool().Draw(t, "kept")}
			if rapid.Bool().Draw(t, "ends") {
				n.Expires = time.Unix(rapid.Int64Range(1, 1<<33).Draw(t, "expires"), 5).UTC()
			}
			want = append(want, n)
		}
		b, err := grant.EncodeDescent(want)
		if err != nil {
			t.Fatal(err)
		}
		got, err := grant.DecodeDescent(b)
		if d := cmp.Diff(want, got, cmp.Comparer(func(a, b []grant.Node) bool { return len(a)+len(b) == 0 || cmp.Equal(a, b) })); err != nil || d != "" {
			t.Fatalf("%v: %s\n%s", err, b, d)
		}
	})
}

func TestBudgetsOfAnotherKindAreRefused(t *testing.T) {
	for _, text := range []string{``, `5`, `{"calls":-1}`, `{"calls":1.5}`, `{"more":1}`, `{"per_tool":[{"tool":"","calls":1}]}`, `{"calls":1}{}`, `{"depth":99999999}`} {
		var b grant.Budgets
		if err := b.UnmarshalJSON([]byte(text)); err == nil {
			t.Errorf("%s was read as %s", text, b)
		}
		if _, err := grant.DecodeDescent([]byte(`[{"budgets":` + text + `}]`)); !errors.Is(err, fault.GrantInvalid) {
			t.Errorf("%s in a descent: %v", text, err)
		}
	}
	var b grant.Budgets
	if err := json.Unmarshal([]byte(`{}`), &b); err != nil || !b.IsZero() {
		t.Errorf("%v, %s", err, b)
	}
}
