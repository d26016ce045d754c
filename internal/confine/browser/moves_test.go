package browser_test

import (
	"context"
	"runtime"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/confine/browser"
)

const (
	movedEvent = `{"method":"Page.frameNavigated","sessionId":"S","params":{"frame":{"id":"F","url":"http://a.example/new"}}}`
	oldTree    = `{"nodes":[{"nodeId":"1","role":{"value":"button"},"name":{"value":"Old"},"backendDOMNodeId":7}]}`
	newTree    = `{"nodes":[{"nodeId":"1","role":{"value":"button"},"name":{"value":"New"},"backendDOMNodeId":7}]}`
)

// mover is a browser whose page loads another document while it carries out a command. All
// documents have the same numbers, as those of two processes can.
type mover struct {
	during string // the command
	count  map[string]int
	moved  bool
}

func (x *mover) answer(method string, send func(string)) string {
	x.count[method]++
	tree := oldTree
	if x.moved {
		tree = newTree
	}
	if method == x.during && !x.moved {
		x.moved = true
		send(movedEvent)
	}
	switch method {
	case "Accessibility.getFullAXTree":
		return tree
	case "DOM.resolveNode":
		return `{"object":{"objectId":"element"}}`
	case "DOM.getContentQuads":
		return `{"quads":[[0,0,2,0,2,2,0,2]]}`
	}
	return ""
}

func TestASnapshotIsOfOneDocument(t *testing.T) {
	for _, during := range []string{"Accessibility.getFullAXTree", "Page.createIsolatedWorld", "Runtime.evaluate", "Runtime.callFunctionOn"} {
		x := &mover{during: during, count: map[string]int{}}
		f := &fake{t: t, answer: x.answer}
		var text string
		err := f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) (err error) {
			text, _, err = p.Snapshot(ctx)
			return err
		})
		if err != nil || text != "button e1 \"New\"\n" {
			t.Errorf("the page moved during %s: %q, %v", during, text, err)
		}
		if x.count["Page.createIsolatedWorld"] != 2 {
			t.Errorf("the page moved during %s: %d worlds were made for two documents", during, x.count["Page.createIsolatedWorld"])
		}
	}
}

func TestAnActionIsInTheDocumentOfItsSnapshot(t *testing.T) {
	for _, during := range []string{"DOM.resolveNode", "DOM.scrollIntoViewIfNeeded", "DOM.getContentQuads"} {
		x := &mover{count: map[string]int{}}
		f := &fake{t: t, answer: x.answer}
		err := f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) error {
			if _, _, err := p.Snapshot(ctx); err != nil {
				return err
			}
			x.during = during
			return p.Click(ctx, 1)
		})
		if err == nil || !strings.Contains(err.Error(), "no element e1 any more") || x.count["Input.dispatchMouseEvent"] > 1 {
			t.Errorf("the page moved during %s: %v, and %d events of the mouse", during, err, x.count["Input.dispatchMouseEvent"])
		}
	}
}

func TestAPageThatNeverRestsHasNoSnapshot(t *testing.T) {
	f := &fake{t: t, answer: func(method string, send func(string)) string {
		if method == "Accessibility.getFullAXTree" {
			send(movedEvent)
		}
		return ""
	}}
	err := f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) error {
		_, _, err := p.Snapshot(ctx)
		return err
	})
	if err == nil || !strings.Contains(err.Error(), "one document after the other") {
		t.Errorf("got %v", err)
	}
}

func TestLargeAnswersAreNotKept(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	const size = 256 << 20
	piece := strings.Repeat("x", 1<<20)
	f := &fake{t: t}
	f.large = func(method string, write func(string)) bool {
		if method != "Accessibility.getFullAXTree" {
			return false
		}
		write(`"result":{"nodes":[{"nodeId":"1","role":{"value":"StaticText"},"name":{"value":"`)
		for range size / len(piece) {
			write(piece)
		}
		write(`"}}]}`)
		return true
	}
	var before, after runtime.MemStats
	var text string
	var cut bool
	err := f.use(f.open(), "s", func(ctx context.Context, p *browser.Page) (err error) {
		runtime.ReadMemStats(&before)
		text, cut, err = p.Snapshot(ctx)
		runtime.ReadMemStats(&after)
		if err == nil {
			_, err = p.Where(ctx) // the browser can still be used
		}
		return err
	})
	if err != nil || text != "" || !cut {
		t.Errorf("the snapshot is %.100q, cut: %v, %v", text, cut, err)
	}
	if made := after.TotalAlloc - before.TotalAlloc; made > size { // a buffer that grows to it takes twice as much
		t.Errorf("%d MB were allocated for a tree of %d MB", made>>20, size>>20)
	}
}

func TestPoliciesThatCannotBeToldApartShareNoBrowser(t *testing.T) {
	f := &fake{t: t}
	b := f.open()
	for range 2 {
		p := permit.Mint(permit.Terms{Scope: "s", Holder: "ann"})
		_, err := b.Use(t.Context(), p, true, func(*browser.Page) error { return nil })
		if err != nil {
			t.Fatal(err)
		}
		if has(t, b, p) || b.EndOwn(p) {
			t.Error("a browser is left")
		}
		p.End()
	}
	if f.started != 2 {
		t.Errorf("%d browsers were started for two calls", f.started)
	}
}
