package browser

import (
	"context"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

var guid = regex.Lazy(`^[0-9a-fA-F-]{36}$`)

// resetTime is how long a browser may take until it refuses downloads again.
const resetTime = 5 * time.Second

// offerTime is how long after an action a page may offer a file.
const offerTime = 2 * time.Second

// offers reports whether the page offers so many files, or more.
func (p *Page) offers(ctx context.Context, count int) bool {
	limit, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	return p.wait(limit, func() bool { return len(p.told.Downloads) >= count }) == nil
}

// Saved is a downloaded file.
type Saved struct {
	Download

	Content []byte
}

// Save does something that makes the page offer files, and returns the first ones, at most as
// many as are wanted. The page chooses neither their places nor their names: without Save,
// downloads are refused.
func (p *Page) Save(ctx context.Context, want int, do func() error) ([]Saved, error) {
	allow := m{"behavior": "allowAndName", "downloadPath": sandbox.FolderAt + "/downloads", "eventsEnabled": true}
	if err := p.conn.call(ctx, "", "Browser.setDownloadBehavior", allow, nil); err != nil {
		return nil, err
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTime)
		defer cancel()
		if p.conn.call(after, "", "Browser.setDownloadBehavior", m{"behavior": "deny", "eventsEnabled": true}, nil) != nil {
			p.stop() // a browser that still takes files is not used again
		}
	}()
	if err := do(); err != nil {
		return nil, err
	}
	if !p.offers(ctx, 1) {
		return nil, fault.New(fault.NotFound, "the page offered no file to save")
	}
	if want > 1 {
		p.offers(ctx, want) // fewer are saved as well
	}
	var out []Saved
	for i := range min(want, len(p.Told().Downloads)) {
		if err := p.wait(ctx, func() bool { return p.told.Downloads[i].State != "inProgress" }); err != nil {
			return nil, err
		}
		d := p.Told().Downloads[i]
		if d.State != "completed" || !guid.MatchString(d.ID) {
			return nil, fault.New(fault.ToolFailed, "download %d of the page did not complete", i+1)
		}
		content, err := p.folder.Read("downloads/" + d.ID)
		if err != nil {
			return nil, err
		}
		out = append(out, Saved{d, content})
	}
	return out, nil
}
