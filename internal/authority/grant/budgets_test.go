package grant_test

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/fault"
)

func number(n int) *int { return &n }

func TestBudgetsInWords(t *testing.T) {
	tests := []struct {
		b    grant.Budgets
		want string
	}{
		{grant.Budgets{}, "no further limits"},
		{grant.Budgets{Calls: 1, Tokens: 1}, "1 call, 1 model token"},
		{grant.Budgets{Children: number(0), Depth: number(0)}, "no children, depth 0"},
		{grant.Budgets{BytesIn: 5 << 20, BytesOut: 1500}, "5 MiB in, 1500 bytes out"},
		{grant.Budgets{Calls: 200, PerTool: []grant.ToolBudget{{"http.*", 20}, {"shell.run", 0}}, Money: 1_500_000, Time: 5 * time.Minute},
			`200 calls, 20 calls of "http.*", no calls of "shell.run", 1.50 USD, 5m0s of time`},
		{grant.Budgets{Money: 125}, "0.000125 USD"},
		{grant.Budgets{Money: 3_000_000}, "3.00 USD"},
	}
	for _, tt := range tests {
		if got := tt.b.String(); got != tt.want {
			t.Errorf("got %q, want %q", got, tt.want)
		}
	}
}

func TestBudgetsThatMakeNoSense(t *testing.T) {
	tests := map[string]grant.Budgets{
		"calls":       {Calls: -1},
		"tokens":      {Tokens: grant.MaxCount + 1},
		"money":       {Money: -1},
		"time":        {Time: -time.Second},
		"children":    {Children: number(-1)},
		"depth":       {Depth: number(grant.MaxChildren + 1)},
		"tokens_out":  {TokensOut: -1},
		"per_kind[0]": {PerKind: []grant.KindBudget{{"api", 1}}},
		"per_kind[1]": {PerKind: []grant.KindBudget{{"network", 1}, {"network", 2}}},
		"per_tool":    {PerTool: make([]grant.ToolBudget, grant.MaxPerTool+1)},
	}
	for field, b := range tests {
		err := b.Check()
		if !errors.Is(err, fault.Usage) || !strings.Contains(err.Error(), field+":") {
			t.Errorf("%s: %v", field, err)
		}
	}
	for name, list := range map[string][]grant.ToolBudget{
		"no pattern": {{"", 1}}, "a space": {{"a b", 1}}, "negative": {{"a", -1}},
		"twice": {{"a", 1}, {"a", 2}}, "out of order": {{"b", 1}, {"a", 2}},
	} {
		if err := (grant.Budgets{PerTool: list}).Check(); !errors.Is(err, fault.Usage) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := (grant.Budgets{}).Check(); err != nil {
		t.Error(err)
	}
}

// drawBudgets draws valid budgets, often with equal numbers.
func drawBudgets(t *rapid.T, label string) grant.Budgets {
	n := rapid.Int64Range(0, 3)
	b := grant.Budgets{Calls: n.Draw(t, label), BytesIn: n.Draw(t, label), BytesOut: n.Draw(t, label), Tokens: n.Draw(t, label),
		Money: n.Draw(t, label), Time: time.Duration(n.Draw(t, label)), TokensIn: n.Draw(t, label), TokensOut: n.Draw(t, label)}
	for _, kind := range []string{"commands", "files.write"} {
		if v := rapid.Int64Range(-1, 2).Draw(t, label); v >= 0 {
			b.PerKind = append(b.PerKind, grant.KindBudget{Kind: kind, Calls: v})
		}
	}
	if v := rapid.IntRange(-1, 2).Draw(t, label); v >= 0 {
		b.Children = &v
	}
	if v := rapid.IntRange(-1, 2).Draw(t, label); v >= 0 {
		b.Depth = &v
	}
	for _, tool := range []string{"fs.*", "http.get", "shell.run"} {
		if v := rapid.Int64Range(-1, 2).Draw(t, label); v >= 0 {
			b.PerTool = append(b.PerTool, grant.ToolBudget{Tool: tool, Calls: v})
		}
	}
	return b
}

func TestMinIsALowerBoundWhateverTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := drawBudgets(t, "a"), drawBudgets(t, "b"), drawBudgets(t, "c")
		same := func(what string, x, y grant.Budgets) {
			if x.String() != y.String() {
				t.Fatalf("%s: %s, and %s", what, x, y)
			}
		}
		ab := a.Min(b)
		same("order", ab, b.Min(a))
		same("grouping", ab.Min(c), a.Min(b.Min(c)))
		same("twice", ab, ab.Min(a))
		same("no limits", a, a.Min(grant.Budgets{}))
		if err := ab.Check(); err != nil {
			t.Fatal(err)
		}
		if ab.IsZero() != (a.IsZero() && b.IsZero()) {
			t.Fatalf("%s and %s give %s", a, b, ab)
		}
		if a.Calls != 0 && (ab.Calls == 0 || ab.Calls > a.Calls) || a.Depth != nil && (ab.Depth == nil || *ab.Depth > *a.Depth) {
			t.Fatalf("%s widens %s", ab, a)
		}
		most := map[string]int64{}
		for _, l := range ab.Limits() {
			most[l.What] = l.Most
		}
		for _, l := range a.Limits() {
			if m, ok := most[l.What]; !ok || m > l.Most {
				t.Fatalf("%s widens %s of %s", ab, l.What, a)
			}
		}
	})
}

func TestMinSharesNothing(t *testing.T) {
	a := grant.Budgets{Depth: number(1), PerTool: []grant.ToolBudget{{"a", 1}}}
	got := a.Min(grant.Budgets{})
	*a.Depth, a.PerTool[0].Calls = 5, 5
	if want := (grant.Budgets{Depth: number(1), PerTool: []grant.ToolBudget{{"a", 1}}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestMootLimits(t *testing.T) {
	has := grant.Budgets{Calls: 10, Money: 1_500_000, Depth: number(1), PerTool: []grant.ToolBudget{{"http.*", 5}}}
	for name, tt := range map[string]struct {
		own, before grant.Budgets
		want        []string
	}{
		"more":             {grant.Budgets{Calls: 20}, has, []string{"20 calls"}},
		"as many":          {grant.Budgets{Calls: 10}, has, []string{"10 calls"}},
		"less":             {grant.Budgets{Calls: 9}, has, nil},
		"of another kind":  {grant.Budgets{Tokens: 5}, has, nil},
		"no limits before": {grant.Budgets{Calls: 5}, grant.Budgets{}, nil},
		"no limits at all": {grant.Budgets{}, has, nil},
		"one of two":       {grant.Budgets{Calls: 9, Depth: number(2)}, has, []string{"depth 2"}},
		"of some tools":    {grant.Budgets{PerTool: []grant.ToolBudget{{"http.*", 5}, {"http.get", 6}}}, has, []string{`5 calls of "http.*"`}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := tt.own.Moot(tt.before); !slices.Equal(got, tt.want) {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}
