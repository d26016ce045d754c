package token_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/authority/grant/token"
	"github.com/remitrun/remit/internal/base/fault"
)

func TestTheCacheChecksTheTimeEachTime(t *testing.T) {
	s := three(t)
	c := token.NewCache(token.Trust{Ledger: ledgerID, Keys: []token.Key{{Public: public("ledger"), NotAfter: start.Add(90 * time.Minute)}}}, 1<<20)
	for _, tt := range []struct {
		at   time.Time
		want fault.Code
	}{
		{noon, 0}, {start.Add(91 * time.Minute), fault.GrantKey}, {start.Add(3 * time.Hour), fault.GrantKey}, {noon, 0},
	} {
		if _, err := c.Verify(s, token.Use{At: tt.at}); tt.want == 0 && err != nil || tt.want != 0 && fault.CodeOf(err) != tt.want {
			t.Errorf("at %s: got %v, want %v", tt.at, err, tt.want)
		}
	}
	if _, err := token.NewCache(trust, 1<<20).Verify(s, token.Use{At: start.Add(3 * time.Hour)}); fault.CodeOf(err) != fault.GrantExpired {
		t.Errorf("expired: %v", err)
	}
}

func TestTheCacheGivesTheSameClaims(t *testing.T) {
	c := token.NewCache(trust, 1<<20)
	s := three(t)
	first, err := c.Verify(s, token.Use{At: noon})
	if err != nil {
		t.Fatal(err)
	}
	again, err := c.Verify(strings.Clone(s), token.Use{At: noon})
	if err != nil || first != again {
		t.Errorf("verified anew: %v", err)
	}
	if shown, err := c.Authentic(s, noon); err != nil || shown != first {
		t.Errorf("shown: %v", err)
	}
}

func TestTheCacheForgetsWhatWasNotUsed(t *testing.T) {
	var tokens []string
	for i := range 4 {
		tokens = append(tokens, add(t, issue(t, root()), token.Block{Audience: fmt.Sprint("a", i)}))
	}
	use := func(c *token.Cache, i int) token.Claims {
		got, err := c.Verify(tokens[i], token.Use{At: noon, Audience: fmt.Sprint("a", i)})
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	c := token.NewCache(trust, len(tokens[0])*3)
	zero, one := use(c, 0), use(c, 1)
	use(c, 2)
	use(c, 0)
	use(c, 3) // pushes out 1
	if use(c, 0) != zero {
		t.Error("what was used last is forgotten")
	}
	if use(c, 1) == one {
		t.Error("more is kept than there is room for")
	}
	none := token.NewCache(trust, 10)
	if first := use(none, 0); first == use(none, 0) {
		t.Error("a token larger than the cache is kept")
	}
}

func TestTheCacheIsSafeForManyAtOnce(t *testing.T) {
	var tokens []string
	for i := range 8 {
		tokens = append(tokens, add(t, issue(t, root()), token.Block{Holder: fmt.Sprint("agent:", i)}))
	}
	c := token.NewCache(trust, len(tokens[0])*4)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 40 {
				n := (g + i) % len(tokens)
				got, err := c.Verify(tokens[n], token.Use{At: noon})
				if err != nil || got.Holder() != fmt.Sprint("agent:", n) {
					t.Errorf("%d: %v", n, err)
				}
			}
		})
	}
	wg.Wait()
}
