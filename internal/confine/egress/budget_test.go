package egress_test

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/confine/egress"
)

// What a call was given of its budgets bounds each way by itself, over all of
// its connections, and the permit knows in the end what really passed.
func TestBudgetsBoundEachWay(t *testing.T) {
	const most, much = 100_000, 1_000_000
	for name, tt := range map[string]struct {
		terms    permit.Terms
		down, up int // bytes that are tried
		refused  bool
	}{
		"nothing is limited":      {permit.Terms{}, much, much, false},
		"in, and little comes in": {permit.Terms{BytesIn: most}, 1000, much, false},
		"in":                      {permit.Terms{BytesIn: most}, much, 1000, true},
		"out, and little goes":    {permit.Terms{BytesOut: most}, much, 1000, false},
		"out":                     {permit.Terms{BytesOut: most}, 1000, much, true},
	} {
		t.Run(name, func(t *testing.T) {
			at, got := sink(t)
			like := allowing(t, `{allow: ["tcp://`+at+`"]}`)
			tt.terms.Chain, tt.terms.Limits = like.Chain(), like.Limits()
			p := permit.Mint(tt.terms)
			b := serve(t, nil, egress.Options{Permit: p})
			received := 0
			for range 2 { // what is left holds for the second as well
				c, _ := b.connect(t, at)
				if c == nil {
					continue
				}
				fmt.Fprintf(c, "%d\n", tt.down)
				done := make(chan int64)
				go func() {
					n, _ := io.Copy(io.Discard, c)
					done <- n
				}()
				_, _ = c.Write(make([]byte, tt.up))
				if half, ok := c.(interface{ CloseWrite() error }); ok {
					_ = half.CloseWrite()
				} else if tcp, ok := c.(*net.TCPConn); ok {
					_ = tcp.CloseWrite()
				}
				received += int(<-done)
				c.Close()
			}
			b.Close()
			in, out := p.Traffic()
			if in < int64(received) || out < int64(got()) {
				t.Errorf("the permit says %d in, %d out; %d and %d came", in, out, received, got())
			}
			list := refusals(b)
			if !tt.refused {
				if len(list) > 0 || received != 2*tt.down {
					t.Errorf("%d in, %d out, refused %q", received, got(), list)
				}
				return
			}
			if tt.terms.BytesIn > 0 && (received > most || in > most) || tt.terms.BytesOut > 0 && (got() > most || out > most) {
				t.Errorf("%d in, %d out; the permit says %d and %d", received, got(), in, out)
			}
			if len(list) == 0 || !strings.HasPrefix(list[0], "budget: ") {
				t.Errorf("refused %q", list)
			}
		})
	}
}
