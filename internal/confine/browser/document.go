package browser

import (
	"context"
	"errors"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// object is a value in the page.
type object struct {
	Result struct {
		ID    string `json:"objectId"`
		Value any    `json:"value"`
	} `json:"result"`
	Exception *struct {
		Text string `json:"text"`
	} `json:"exceptionDetails"`
}

// handle is a document of the page, as Remit's own code has it in the document's isolated
// world: the page's scripts can change the document, but not what code there calls.
type handle struct {
	world int    // the number of a context; another document can get it later
	doc   string // the document; no other one ever has it
	count int    // Page.documents when it was made
}

// isolated returns the present document.
func (p *Page) isolated(ctx context.Context) (handle, error) {
	for range maxMoves {
		p.mu.Lock()
		h, frame, count := p.own, p.frame, p.documents
		p.mu.Unlock()
		if h.world != 0 {
			return h, nil
		}
		var made struct {
			World int `json:"executionContextId"`
		}
		var found object
		err := p.call(ctx, "Page.createIsolatedWorld", m{"frameId": frame, "worldName": "remit"}, &made)
		if err == nil {
			err = p.call(ctx, "Runtime.evaluate", m{"expression": "document", "contextId": made.World}, &found)
		}
		if len(found.Result.ID) > maxID {
			return handle{}, errGone
		}
		p.mu.Lock()
		same := p.documents == count
		if err == nil && same {
			h = handle{made.World, found.Result.ID, count}
			p.own = h
		}
		p.mu.Unlock()
		if same {
			return h, err
		}
	}
	return handle{}, errRestless
}

// maxMoves is how many times something is begun anew, as the page loaded another document.
const maxMoves = 5

var errRestless = fault.New(fault.ToolFailed, "the page loads one document after the other").WithHint("browser.wait waits until it is done")

// read has a function of Remit's tell something of the present document.
func (p *Page) read(ctx context.Context, function string, args ...any) (any, error) {
	for range maxMoves {
		h, err := p.isolated(ctx)
		if err != nil {
			return nil, err
		}
		v, err := p.run(ctx, h.doc, function, args...)
		if err == nil || !p.left(h, err) {
			return v, err
		}
	}
	return nil, errRestless
}

// left reports whether a command failed because the page has left a document. The browser may
// say so before it tells of the new one.
func (p *Page) left(h handle, err error) bool {
	var no *refusedCommand
	if !errors.As(err, &no) {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.documents != h.count {
		return true
	}
	for _, text := range []string{"Cannot find context", "Could not find object", "Invalid remote object", "context was destroyed", "navigated or closed"} {
		if strings.Contains(no.text, text) {
			if p.own.doc == h.doc {
				p.own = handle{}
			}
			return true
		}
	}
	return false
}

// run calls a function of Remit's on an element or a document.
func (p *Page) run(ctx context.Context, on, function string, args ...any) (any, error) {
	list := make([]m, len(args))
	for i, a := range args {
		if e, ok := a.(element); ok {
			list[i] = m{"objectId": string(e)}
		} else {
			list[i] = m{"value": a}
		}
	}
	var out object
	if err := p.call(ctx, "Runtime.callFunctionOn", m{"objectId": on, "functionDeclaration": function, "arguments": list, "returnByValue": true}, &out); err != nil {
		return nil, err
	}
	if out.Exception != nil {
		return nil, fault.New(fault.ToolFailed, "the page refused: %s", shown(out.Exception.Text, 200))
	}
	return out.Result.Value, nil
}

// element is an element of a document. It names nothing once the page has left the document,
// whereas the number of a node may then be that of another one.
type element string

// on finds the element of a reference, in the document that the snapshot was of, and does
// something with it.
func (p *Page) on(ctx context.Context, ref int, do func(e element) error) error {
	p.mu.Lock()
	node, ok := p.refs[ref]
	h := p.own
	p.mu.Unlock()
	if !ok || h.world == 0 {
		return errMoved(ref)
	}
	var found struct {
		Object struct {
			ID element `json:"objectId"`
		} `json:"object"`
	}
	err := p.call(ctx, "DOM.resolveNode", m{"backendNodeId": node, "executionContextId": h.world}, &found)
	if err == nil {
		var own any
		if own, err = p.run(ctx, h.doc, `function(e) { return e.ownerDocument === this; }`, found.Object.ID); err == nil && own != true {
			return errMoved(ref)
		}
	}
	if err == nil {
		err = do(found.Object.ID)
	}
	var no *refusedCommand
	if p.left(h, err) || errors.As(err, &no) && (strings.Contains(no.text, "No node") || strings.Contains(no.text, "Could not find node") ||
		strings.Contains(no.text, "does not belong to the document") || strings.Contains(no.text, "same JavaScript world")) {
		return errMoved(ref)
	}
	return err
}

// still fails if the page has left the document of an element. It comes right before input,
// which the browser gives to any open document.
func (p *Page) still(ctx context.Context, ref int, e element) error {
	p.mu.Lock()
	_, ok := p.refs[ref]
	p.mu.Unlock()
	if !ok {
		return errMoved(ref)
	}
	_, err := p.run(ctx, string(e), `function() {}`)
	return err
}
