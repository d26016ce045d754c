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

// offers reports whether the page offers a file.
func (p *Page) offers(ctx context.Context) bool {
	limit, cancel := context.WithTimeout(ctx, offerTime)
	defer cancel()
	return p.wait(limit, func() bool { return len(p.told.Downloads) > 0 }) == nil
}

// Saved is a downloaded file.
type Saved struct {
	Download

	Content []byte
}

// Save does something that makes the page offer a file, and returns the file. The page
// chooses neither the place nor the name: without Save, downloads are refused.
func (p *Page) Save(ctx context.Context, do func() error) (Saved, error) {
	allow := m{"behavior": "allowAndName", "downloadPath": sandbox.FolderAt + "/downloads", "eventsEnabled": true}
	if err := p.conn.call(ctx, "", "Browser.setDownloadBehavior", allow, nil); err != nil {
		return Saved{}, err
	}
	defer func() {
		after, cancel := context.WithTimeout(context.WithoutCancel(ctx), resetTime)
		defer cancel()
		if p.conn.call(after, "", "Browser.setDownloadBehavior", m{"behavior": "deny", "eventsEnabled": true}, nil) != nil {
			p.stop() // a browser that still takes files is not used again
		}
	}()
	if err := do(); err != nil {
		return Saved{}, err
	}
	if !p.offers(ctx) {
		return Saved{}, fault.New(fault.NotFound, "the page offered no file to save")
	}
	if err := p.wait(ctx, func() bool { return p.told.Downloads[0].State != "inProgress" }); err != nil {
		return Saved{}, err
	}
	d := p.Told().Downloads[0]
	if d.State != "completed" || !guid.MatchString(d.ID) {
		return Saved{}, fault.New(fault.ToolFailed, "the download did not complete")
	}
	content, err := p.folder.Read("downloads/" + d.ID)
	return Saved{d, content}, err
}
