package browser

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Open loads a URL, which the policies have allowed.
func (p *Page) Open(ctx context.Context, url string) error {
	if scheme, _, _ := strings.Cut(strings.ToLower(url), ":"); scheme != "http" && scheme != "https" {
		return fault.New(fault.HandleRefused, "only http and https URLs can be opened")
	}
	var nav struct {
		Loader   string `json:"loaderId"`
		Error    string `json:"errorText"`
		Download bool   `json:"isDownload"`
	}
	p.mu.Lock()
	before := p.documents
	p.mu.Unlock()
	if err := p.call(ctx, "Page.navigate", m{"url": url}, &nav); err != nil {
		return err
	}
	if nav.Download || nav.Error == "net::ERR_ABORTED" && p.offers(ctx, 1) {
		return nil
	}
	if nav.Error != "" {
		return fault.New(fault.ToolFailed, "the page could not be loaded: %s", shown(nav.Error, 200)).WithHint("connections lists the refused ones, with the reasons")
	}
	limit, cancel := context.WithTimeout(ctx, loadTime)
	defer cancel()
	err := p.wait(limit, func() bool { return p.documents > before && !p.loading || nav.Loader == "" })
	if err != nil && (ctx.Err() != nil || errors.Is(err, fault.ToolFailed)) {
		return err
	}
	return p.check()
}

// check refuses a page that is not of the web, or that Remit refused: the proxy's answer is
// shown in its place.
func (p *Page) check() error {
	p.mu.Lock()
	url, denied := p.url, p.denied
	p.mu.Unlock()
	if denied != "" {
		return fault.New(fault.HandleRefused, "the page %q was refused: %s", clip.Text(url, maxURL), shown(denied, 300))
	}
	scheme, _, _ := strings.Cut(url, ":")
	switch scheme {
	case "http", "https", "about", "data", "blob":
		return nil
	}
	return fault.New(fault.HandleRefused, "the page %q is not of the web; only http and https are", clip.Text(url, 200))
}

const hit = `function(x, y) {
	let e = document.elementFromPoint(x, y);
	while (e && e.shadowRoot && e.shadowRoot.elementFromPoint(x, y)) { const i = e.shadowRoot.elementFromPoint(x, y); if (i === e) break; e = i; }
	if (!e || e === this || this.contains(e) || e.contains(this)) return "";
	if (this.labels && [...this.labels].some(l => l.contains(e))) return "";
	return e.tagName.toLowerCase() + (e.id ? "#" + e.id : "");
}`

// Click clicks the middle of an element.
func (p *Page) Click(ctx context.Context, ref int) error {
	err := p.on(ctx, ref, func(e element) error {
		if err := p.call(ctx, "DOM.scrollIntoViewIfNeeded", m{"objectId": e}, nil); err != nil {
			return invisible(ref, err)
		}
		var quads struct {
			Quads [][]float64 `json:"quads"`
		}
		if err := p.call(ctx, "DOM.getContentQuads", m{"objectId": e}, &quads); err != nil {
			return invisible(ref, err)
		}
		if len(quads.Quads) == 0 || len(quads.Quads[0]) != 8 {
			return invisible(ref, nil)
		}
		q := quads.Quads[0]
		x, y := (q[0]+q[2]+q[4]+q[6])/4, (q[1]+q[3]+q[5]+q[7])/4
		over, err := p.run(ctx, string(e), hit, x, y)
		if err != nil {
			return err
		}
		if s, _ := over.(string); s != "" {
			return fault.New(fault.ToolFailed, "e%d cannot be clicked: %q is in front of it", ref, clip.Text(s, 100))
		}
		for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
			event := m{"type": kind, "x": x, "y": y}
			if kind != "mouseMoved" {
				event["button"], event["clickCount"] = "left", 1
			}
			if kind == "mousePressed" {
				if err := p.still(ctx, ref, e); err != nil {
					return err
				}
			}
			if err := p.call(ctx, "Input.dispatchMouseEvent", event, nil); err != nil {
				return err
			}
		}
		return nil
	})
	return p.after(ctx, err)
}

func invisible(ref int, err error) error {
	var no *refusedCommand
	if err == nil || errors.As(err, &no) && (strings.Contains(no.text, "layout") || strings.Contains(no.text, "quads")) {
		return fault.New(fault.ToolFailed, "e%d is not visible", ref).WithHint("an option of a list is chosen with browser.select on the list")
	}
	return err
}

// after waits for what an action began, and checks the page that it led to.
func (p *Page) after(ctx context.Context, err error) error {
	if err != nil {
		return err
	}
	if err := p.settle(ctx); err != nil {
		return err
	}
	return p.check()
}

const emptied = `function() {
	if (this.disabled || this.readOnly) return "cannot be changed";
	if (!this.isContentEditable && !("value" in this)) return "is not a field";
	if (this.type === "file") return "takes files";
	this.focus();
	if (this.select) this.select(); else document.getSelection().selectAllChildren(this);
	return this.type === "date" || this.type === "time" || this.type === "month" || this.type === "week" || this.type === "color" || this.type === "range" || this.type === "datetime-local" ? "value" : "";
}`

const setValue = `function(v) { this.value = v; this.dispatchEvent(new Event("input", {bubbles: true})); this.dispatchEvent(new Event("change", {bubbles: true})); return this.value === v; }`

// Fill replaces the text of a field; with submit, Enter is pressed in it.
func (p *Page) Fill(ctx context.Context, ref int, text string, submit bool) error {
	err := p.on(ctx, ref, func(e element) error {
		kind, err := p.run(ctx, string(e), emptied)
		if err != nil {
			return err
		}
		switch s, _ := kind.(string); s {
		case "":
			if err = p.still(ctx, ref, e); err != nil {
				return err
			}
			if text == "" {
				err = p.key(ctx, "Delete", 46, "")
			} else {
				err = p.call(ctx, "Input.insertText", m{"text": text}, nil)
			}
		case "value":
			var set any
			if set, err = p.run(ctx, string(e), setValue, text); err == nil && set != true {
				err = fault.New(fault.ToolFailed, "e%d does not take the value", ref)
			}
		default:
			err = fault.New(fault.ToolFailed, "e%d %s", ref, shown(s, 40))
		}
		if err == nil && submit {
			err = p.still(ctx, ref, e)
		}
		if err == nil && submit {
			err = p.key(ctx, "Enter", 13, "\r")
		}
		return err
	})
	return p.after(ctx, err)
}

// key presses a key in the element with the focus.
func (p *Page) key(ctx context.Context, name string, code int, text string) error {
	for _, kind := range []string{"keyDown", "keyUp"} {
		event := m{"type": kind, "key": name, "code": name, "windowsVirtualKeyCode": code}
		if kind == "keyDown" && text != "" {
			event["text"] = text
		}
		if err := p.call(ctx, "Input.dispatchKeyEvent", event, nil); err != nil {
			return err
		}
	}
	return nil
}

const choose = `function(wanted) {
	if (this.tagName !== "SELECT") return "is not a list";
	const all = [...this.options], picked = new Set();
	for (const w of wanted) {
		const o = all.find(o => o.value === w) || all.find(o => o.label.trim() === w);
		if (!o || o.disabled) return "has no option " + JSON.stringify(w).slice(0, 100);
		picked.add(o);
	}
	if (!this.multiple && picked.size !== 1) return "takes one option";
	for (const o of all) o.selected = picked.has(o);
	this.dispatchEvent(new Event("input", {bubbles: true})); this.dispatchEvent(new Event("change", {bubbles: true}));
	return "";
}`

// Select chooses options of a list, by value or label.
func (p *Page) Select(ctx context.Context, ref int, options []string) error {
	err := p.on(ctx, ref, func(e element) error {
		wrong, err := p.run(ctx, string(e), choose, options)
		if s, _ := wrong.(string); err == nil && s != "" {
			err = fault.New(fault.ToolFailed, "e%d %s", ref, shown(s, 160))
		}
		return err
	})
	return p.after(ctx, err)
}

// File is a file that is given to a page.
type File struct {
	Name    string
	Content []byte
}

// Upload gives files to a field for files.
func (p *Page) Upload(ctx context.Context, ref int, files []File) error {
	err := p.on(ctx, ref, func(e element) error {
		paths := make([]string, len(files))
		for i, f := range files {
			p.last++ // a number that no other folder has
			name := fmt.Sprintf("uploads/%d/%s", p.last, f.Name)
			if err := p.folder.Put(name, f.Content); err != nil {
				return err
			}
			paths[i] = path.Join(sandbox.FolderAt, name)
		}
		return p.call(ctx, "DOM.setFileInputFiles", m{"files": paths, "objectId": e}, nil)
	})
	var no *refusedCommand
	if errors.As(err, &no) {
		err = fault.New(fault.ToolFailed, "e%d does not take files: %s", ref, shown(no.text, 100))
	}
	return p.after(ctx, err)
}

// Wait waits until the page shows a text, or for a time.
func (p *Page) Wait(ctx context.Context, text string, most time.Duration) error {
	limit, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	for {
		if text != "" {
			found, err := p.read(limit, `function(t) { return !!document.body && document.body.innerText.includes(t); }`, text)
			if err == nil && found == true {
				return p.check()
			}
			if errors.Is(err, errGone) {
				return err
			}
		}
		select {
		case <-limit.Done():
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case text == "":
				return p.check()
			}
			return fault.New(fault.ToolTimeout, "the page did not show %q within %s", clip.Text(text, 100), most)
		case <-p.conn.ended:
			return errGone
		case <-time.After(50 * time.Millisecond): // a page does not tell when its text changes
		}
	}
}

// Text returns the visible text of the page.
func (p *Page) Text(ctx context.Context, most int) (text string, cut bool, err error) {
	v, err := p.read(ctx, `function(n) { const t = document.body ? document.body.innerText : ""; return t.slice(0, n + 1); }`, most)
	if err != nil {
		return "", false, err
	}
	s, _ := v.(string)
	s = strings.ToValidUTF8(s, "\uFFFD")
	if len(s) > most {
		return clip.Text(s, most), true, nil
	}
	return s, false, nil
}

// Where describes the page.
type Where struct {
	URL, Title string
	Status     int // of HTTP; 0: not known
	Loading    bool
}

// Where tells which page is open.
func (p *Page) Where(ctx context.Context) (Where, error) {
	title, err := p.read(ctx, `function() { return document.title.slice(0, 500); }`)
	if err != nil {
		return Where{}, err
	}
	s, _ := title.(string)
	p.mu.Lock()
	defer p.mu.Unlock()
	return Where{clip.Text(strings.ToValidUTF8(p.url, "\uFFFD"), maxURL), clip.Text(strings.ToValidUTF8(s, "\uFFFD"), 500), p.status, p.loading}, nil
}

// maxSide bounds a picture of a whole page, in pixels.
const maxSide = 8000

// Screenshot makes a PNG of the visible part of the page, or of the whole page.
func (p *Page) Screenshot(ctx context.Context, whole bool) ([]byte, error) {
	params := m{"format": "png", "captureBeyondViewport": whole}
	if whole {
		var size struct {
			Content struct {
				Width  float64 `json:"width"`
				Height float64 `json:"height"`
			} `json:"cssContentSize"`
		}
		if err := p.call(ctx, "Page.getLayoutMetrics", m{}, &size); err != nil {
			return nil, err
		}
		params["clip"] = m{"x": 0, "y": 0, "width": min(size.Content.Width, maxSide), "height": min(size.Content.Height, maxSide), "scale": 1}
	}
	return p.bytes(ctx, "Page.captureScreenshot", params)
}

// PDF prints the page.
func (p *Page) PDF(ctx context.Context) ([]byte, error) {
	return p.bytes(ctx, "Page.printToPDF", m{"printBackground": true})
}

func (p *Page) bytes(ctx context.Context, method string, params any) ([]byte, error) {
	var out struct {
		Data string `json:"data"`
	}
	p.conn.most.Store(maxPicture)
	defer p.conn.most.Store(maxAnswer)
	if err := p.call(ctx, method, params, &out); err != nil {
		return nil, err
	}
	b, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		return nil, fault.Wrap(fault.ToolFailed, err, "the browser's answer to %s cannot be read", method)
	}
	return b, nil
}
