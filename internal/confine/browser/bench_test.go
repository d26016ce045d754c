package browser_test

import (
	"context"
	"testing"

	"github.com/remitrun/remit/internal/confine/browser"
)

// BenchmarkPage measures a page that is opened and read: in a browser that is started for it,
// and in one that is there.
func BenchmarkPage(b *testing.B) {
	w := newWorld(b)
	w.page("/{$}", shop)
	open := func(scope string) {
		if _, err := w.call(scope, func(ctx context.Context, p *browser.Page) error {
			if err := p.Open(ctx, w.url+"/"); err != nil {
				return err
			}
			_, _, err := p.Snapshot(ctx)
			return err
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.Run("cold", func(b *testing.B) {
		for b.Loop() {
			open("bench")
			b.StopTimer()
			browsers.End("bench")
			b.StartTimer()
		}
	})
	b.Run("warm", func(b *testing.B) {
		open("bench")
		for b.Loop() {
			open("bench")
		}
		browsers.End("bench")
	})
}
