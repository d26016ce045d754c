package gateway_test

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/doors/gateway"
)

func TestNames(t *testing.T) {
	for id, want := range map[tool.ID]string{
		"fs.read":                "fs_read",
		"time.now":               "time_now",
		"mcp:github:get_issue":   "mcp__github__get_issue",
		"mcp:everything:get-sum": "mcp__everything__get-sum",
		"api:petstore:pets.list": "api__petstore__pets_x2e_list",
		"ext:git:status":         "ext__git__status",
		"my_tool":                "my_x5f_tool",
		"mcp:a_:_b":              "mcp_x3a_a_x5f__x3a__x5f_b",
		"a.x2e.b":                "a_x2e_x2e_x2e_b",
	} {
		if got := gateway.NameOf(id); got != want {
			t.Errorf("%s is called %s, want %s", id, got, want)
		}
	}
	long := tool.ID("mcp:server:" + string(make([]byte, 0)) + "a_very_long_name_of_a_tool_that_nobody_would_ever_want_to_type_by_hand")
	other := long + "2"
	if a, b := gateway.NameOf(long), gateway.NameOf(other); a == b || len(a) != gateway.MaxName {
		t.Errorf("%s and %s", a, b)
	}
}

var clientName = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// TestNamesCanBeReadBack: no two tools have one name, as every name that is not
// cut can be read back, and clients take every name.
func TestNamesCanBeReadBack(t *testing.T) {
	check := func(t interface{ Fatalf(string, ...any) }, s string) {
		id, err := tool.ParseID(s)
		if err != nil {
			return
		}
		name := gateway.NameOf(id)
		if !clientName.MatchString(name) {
			t.Fatalf("%s is called %q, which clients refuse", id, name)
		}
		if len(name) == gateway.MaxName {
			return // it may be cut
		}
		if back, ok := gateway.IDOf(name); !ok || back != id {
			t.Fatalf("%s is called %s, which is read as %s", id, name, back)
		}
	}
	for _, s := range []string{"fs.read", "mcp:github:get_issue", "a__b", "a_x2e_b", "a:_b", "a_:b", "a._b", "_", "a:b.c@d/e-f", "x_x5f_", "a:::b", "a_x2E_"} {
		check(t, s)
	}
	rapid.Check(t, func(t *rapid.T) {
		check(t, rapid.StringOfN(rapid.SampledFrom([]rune("abex25f3AZ09_.:@/-")), 1, 40, -1).Draw(t, "id"))
	})
}

// No two names of a list differ only in case or signs, each fits, and a tool keeps its name in the next
// list.
func TestNamesOfOneListDiffer(t *testing.T) {
	if got := gateway.NamesOf(nil, []tool.ID{"mcp:o:a.b", "mcp:o:a_b", "mcp:o:UP", "mcp:o:up"}); !slices.Equal(got[:3], []string{"mcp__o__a_x2e_b", "mcp__o__a_b", "mcp__o__UP"}) ||
		!strings.HasPrefix(got[3], "mcp__o__up_h") {
		t.Errorf("got %q", got)
	}
	rapid.Check(t, func(t *rapid.T) {
		leaf := rapid.StringOfN(rapid.SampledFrom([]rune("aAbB_-./:")), 1, 5, -1)
		long := strings.Repeat("n", rapid.SampledFrom([]int{0, 50, 120}).Draw(t, "length"))
		ids := []tool.ID{}
		for _, l := range rapid.SliceOfNDistinct(leaf, 1, 12, rapid.ID[string]).Draw(t, "tools") {
			if id, err := tool.ParseID("mcp:o:" + long + l); err == nil {
				ids = append(ids, id)
			}
		}
		names, listed, seen := gateway.NamesOf(nil, ids), map[string]tool.ID{}, map[string]tool.ID{}
		for i, name := range names {
			plain := strings.ToLower(strings.NewReplacer("_", "", "-", "").Replace(name))
			if was, ok := seen[plain]; ok {
				t.Fatalf("%s and %s are both called %s, but for case and signs", was, ids[i], name)
			}
			if !clientName.MatchString(name) {
				t.Fatalf("%s is called %q", ids[i], name)
			}
			seen[plain], listed[name] = ids[i], ids[i]
		}
		back := slices.Clone(ids)
		slices.Reverse(back)
		again := gateway.NamesOf(listed, back)
		slices.Reverse(again)
		if !slices.Equal(names, again) {
			t.Fatalf("%v are called %v, and then %v", ids, names, again)
		}
	})
}
