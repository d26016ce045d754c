package grant_test

import (
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
)

// TestAmountsOfEvents: events hold amounts as a list; what was written by earlier versions
// is read as it was.
func TestAmountsOfEvents(t *testing.T) {
	a := grant.Amounts{Calls: 1, BytesIn: 2, BytesOut: 3, Tokens: 9, Money: 5, Time: 6 * time.Microsecond, Children: 7, TokensIn: 4, TokensOut: 5,
		Kinds: grant.KindsOf([]tool.Action{{Kind: tool.FileRead}, {Kind: tool.FileRead}, {Kind: tool.Model}})}
	if got := grant.AmountsOf(a.List()); got != a {
		t.Errorf("%+v, want %+v", got, a)
	}
	if got := grant.AmountsOf([]int64{1, 2, 3, 9, 5, 6, 7}); got != (grant.Amounts{Calls: 1, BytesIn: 2, BytesOut: 3, Tokens: 9, Money: 5, Time: 6 * time.Microsecond, Children: 7}) {
		t.Errorf("%+v", got)
	}
	for what, want := range map[string]int64{"tokens_in": 4, "tokens_out": 5, "kind:files.read": 1, "kind:models": 1, "kind:network": 0, "kind:unknown": 1} {
		if got := grant.Charged(what, "x", a); got != want {
			t.Errorf("%s is charged %d, want %d", what, got, want)
		}
	}
	if sum := a.Add(a); sum.Kinds.Of(tool.FileRead) != 2 || sum.TokensOut != 10 {
		t.Errorf("%+v", sum)
	}
}
