package browser

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/egress"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Bounds of the memory that a page can make Remit use.
const (
	maxTold = 20   // popups, dialogs and downloads of one call
	maxURL  = 2000 // bytes of a URL
	maxID   = 200  // bytes of an ID of the browser's
	maxRefs = 20_000
)

// Page is the one page of a browser. It is used by one call at a time.
type Page struct {
	relay   *egress.Relay
	folder  *sandbox.Folder
	conn    *conn
	stop    context.CancelFunc
	over    chan struct{} // closed when the browser's process has ended; then outcome and failed are set
	outcome sandbox.Outcome
	failed  error

	mu        sync.Mutex
	changed   chan struct{} // closed and made anew at each event
	session   string        // of the page; "" before it is attached
	target    string
	crashed   bool
	frame     string // the main frame
	url       string
	documents int             // loaded so far
	own       handle          // the present document; zero: not asked for yet
	loading   bool            // the main frame
	loads     map[string]bool // requests under way
	status    int             // HTTP status of the document
	denied    string          // what of Remit refused the document; "": nothing
	refs      map[int]int     // nodes by reference
	last      int             // reference given last
	told      Told
}

// Told is what happened in the page without being asked for. All of it is the page's text.
type Told struct {
	Popups    []string // windows that the page wanted to open; none was
	Dialogs   []string // messages of alert, confirm and prompt; all were dismissed
	Downloads []Download
}

// Download is a file that the page offered.
type Download struct {
	ID, URL, Name string
	Bytes         int64
	State         string // "inProgress", "completed" or "canceled"
}

// gone reports whether the browser has ended or its page has crashed.
func (p *Page) gone() bool {
	select {
	case <-p.over:
		return true
	case <-p.conn.ended:
		return true
	default:
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.crashed
}

// close ends the browser and removes all that it kept.
func (p *Page) close() {
	p.relay.Close()
	if p.stop != nil {
		p.stop()
		<-p.over
	}
	_ = p.folder.Close() // the rest is removed with other folders without a lock
}

// began forgets the messages for the call before.
func (p *Page) began() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.told, p.denied = Told{}, ""
	clear(p.loads)
}

// Told returns what happened in the page since the call began.
func (p *Page) Told() Told {
	p.mu.Lock()
	defer p.mu.Unlock()
	t := p.told
	t.Popups, t.Dialogs, t.Downloads = slices.Clone(t.Popups), slices.Clone(t.Dialogs), slices.Clone(t.Downloads)
	return t
}

// call sends a command to the page.
func (p *Page) call(ctx context.Context, method string, params, out any) error {
	p.mu.Lock()
	session := p.session
	p.mu.Unlock()
	return p.conn.call(ctx, session, method, params, out)
}

type m map[string]any

// stayScript keeps a page in its window: what would open in another one opens here, and
// windows that scripts want are only told.
const stayScript = `(() => {
	const tell = remitPopup, stay = e => { for (const t of e.composedPath()) if (t instanceof Element && t.hasAttribute("target")) t.removeAttribute("target"); };
	addEventListener("click", stay, true);
	addEventListener("submit", stay, true);
	window.open = u => { try { tell(new URL(u || "", document.baseURI).href); } catch { tell(""); } return null; };
})()`

// attach waits for the browser's first page and prepares it.
func (p *Page) attach(ctx context.Context) error {
	pages := []m{{"type": "page"}}
	if err := p.conn.call(ctx, "", "Target.setAutoAttach", m{"autoAttach": true, "waitForDebuggerOnStart": false, "flatten": true, "filter": pages}, nil); err != nil {
		return err
	}
	if err := p.wait(ctx, func() bool { return p.session != "" }); err != nil {
		return err
	}
	if err := p.conn.call(ctx, "", "Browser.setDownloadBehavior", m{"behavior": "deny", "eventsEnabled": true}, nil); err != nil {
		return err
	}
	for _, method := range []string{"Page.enable", "Runtime.enable", "Network.enable", "Accessibility.enable", "DOM.enable"} {
		if err := p.call(ctx, method, m{}, nil); err != nil {
			return err
		}
	}
	for method, params := range map[string]m{
		"Runtime.addBinding":                          {"name": "remitPopup"},
		"Page.addScriptToEvaluateOnNewDocument":       {"source": stayScript},
		"Page.setInterceptFileChooserDialog":          {"enabled": true},
		"Target.setAutoAttach":                        {"autoAttach": false, "waitForDebuggerOnStart": false, "flatten": true},
		"Emulation.setFocusEmulationEnabled":          {"enabled": true},
		"Page.setPrerenderingAllowed":                 {"isAllowed": false},
		"Emulation.setDeviceMetricsOverride":          {"width": 1280, "height": 800, "deviceScaleFactor": 1, "mobile": false},
		"Emulation.setScrollbarsHidden":               {"hidden": true},
		"Emulation.setDefaultBackgroundColorOverride": {"color": m{"r": 255, "g": 255, "b": 255, "a": 1}},
	} {
		if err := p.call(ctx, method, params, nil); err != nil {
			return err
		}
	}
	var tree struct {
		FrameTree struct {
			Frame frame `json:"frame"`
		} `json:"frameTree"`
	}
	if err := p.call(ctx, "Page.getFrameTree", m{}, &tree); err != nil {
		return err
	}
	f := tree.FrameTree.Frame
	if len(f.ID) > maxID {
		return errGone
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.frame, p.url = f.ID, clip.Text(f.URL, maxURL)
	return nil
}

type frame struct {
	ID     string `json:"id"`
	Parent string `json:"parentId"`
	URL    string `json:"url"`
	Failed string `json:"unreachableUrl"`
}

// wait waits until is, which is called with the lock held, reports true.
func (p *Page) wait(ctx context.Context, is func() bool) error {
	for {
		p.mu.Lock()
		ok, changed, crashed := is(), p.changed, p.crashed
		p.mu.Unlock()
		if ok {
			return nil
		}
		if crashed {
			return errGone
		}
		select {
		case <-changed:
		case <-p.conn.ended:
			return errGone
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// Bounds of the wait for a page.
const (
	loadTime  = 20 * time.Second      // until a page counts as loaded
	quietFor  = 80 * time.Millisecond // without a request, after an action
	quietTime = 5 * time.Second       // until the page counts as quiet in any case
)

// settle waits for the end of a navigation or of requests that an action began.
func (p *Page) settle(ctx context.Context) error {
	limit, cancel := context.WithTimeout(ctx, quietTime)
	defer cancel()
	for done := false; !done; {
		pause := time.NewTimer(quietFor)
		p.mu.Lock()
		busy, changed := p.loading || len(p.loads) > 0, p.changed
		p.mu.Unlock()
		quiet := pause.C
		if busy {
			quiet = nil
		}
		select {
		case <-quiet:
			done = true
		case <-limit.Done():
			done = true // it is still loading, which the result says
		case <-changed:
			pause.Stop()
		case <-p.conn.ended:
			return errGone
		}
	}
	return context.Cause(ctx)
}

// event takes in what the browser tells. It must not wait.
func (p *Page) event(method, session string, params json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if handle := events[method]; handle != nil && (session == p.session || strings.HasPrefix(method, "Target.") || strings.HasPrefix(method, "Browser.")) {
		var e event
		if json.Unmarshal(params, &e) != nil || e.long() {
			return
		}
		handle(p, &e)
		close(p.changed)
		p.changed = make(chan struct{})
	}
}

// event has the fields of all events that are used.
type event struct {
	Session string `json:"sessionId"`
	Target  struct {
		ID   string `json:"targetId"`
		Type string `json:"type"`
	} `json:"targetInfo"`
	TargetID string          `json:"targetId"`
	FrameID  string          `json:"frameId"`
	URL      string          `json:"url"`
	Frame    json.RawMessage `json:"frame"`
	Request  string          `json:"requestId"`
	Type     string          `json:"type"`
	Response struct {
		Status  int               `json:"status"`
		Headers map[string]string `json:"headers"`
	} `json:"response"`
	Message  string  `json:"message"`
	Payload  string  `json:"payload"`
	GUID     string  `json:"guid"`
	Name     string  `json:"suggestedFilename"`
	State    string  `json:"state"`
	Received float64 `json:"receivedBytes"`
}

// long reports whether an ID is longer than those of any browser.
func (e *event) long() bool {
	return slices.ContainsFunc([]string{e.Session, e.Target.ID, e.Target.Type, e.TargetID, e.FrameID, e.Request, e.GUID, e.State, e.Type},
		func(s string) bool { return len(s) > maxID })
}

// events are the events that matter. They are called with the lock held.
var events = map[string]func(*Page, *event){
	"Target.attachedToTarget":      (*Page).attached,
	"Target.targetCrashed":         func(p *Page, e *event) { p.crashed = p.crashed || e.TargetID == p.target },
	"Target.detachedFromTarget":    func(p *Page, e *event) { p.crashed = p.crashed || e.Session == p.session },
	"Runtime.bindingCalled":        func(p *Page, e *event) { add(&p.told.Popups, clip.Text(e.Payload, maxURL)) },
	"Page.frameStartedLoading":     func(p *Page, e *event) { p.loading = p.loading || e.FrameID == p.frame },
	"Page.frameStoppedLoading":     func(p *Page, e *event) { p.loading = p.loading && e.FrameID != p.frame },
	"Page.frameNavigated":          (*Page).navigated,
	"Page.navigatedWithinDocument": (*Page).moved,
	"Page.javascriptDialogOpening": (*Page).dialog,
	"Network.requestWillBeSent":    func(p *Page, e *event) { p.requested(e) },
	"Network.responseReceived":     (*Page).answered,
	"Network.loadingFinished":      func(p *Page, e *event) { delete(p.loads, e.Request) },
	"Network.loadingFailed":        func(p *Page, e *event) { delete(p.loads, e.Request) },
	"Browser.downloadWillBegin":    (*Page).offered,
	"Browser.downloadProgress":     (*Page).downloaded,
}

func add(list *[]string, s string) {
	if len(*list) < maxTold {
		*list = append(*list, s)
	}
}

// attached takes the first page. A page that gets round stayScript and opens another one
// costs it the browser: it would get no more input while the other is in front.
func (p *Page) attached(e *event) {
	switch {
	case e.Target.Type != "page":
	case p.session == "":
		p.session, p.target = e.Session, e.Target.ID
	case e.Target.ID != p.target:
		p.crashed = true
	}
}

func (p *Page) navigated(e *event) {
	var f frame
	if json.Unmarshal(e.Frame, &f) != nil || f.Parent != "" || len(f.ID) > maxID {
		return
	}
	p.frame, p.url, p.own = f.ID, clip.Text(f.URL, maxURL), handle{}
	p.documents++
	if f.Failed != "" {
		p.url = clip.Text(f.Failed, maxURL)
	}
	clear(p.refs)
}

func (p *Page) moved(e *event) {
	if e.FrameID == p.frame {
		p.url = clip.Text(e.URL, maxURL)
	}
}

func (p *Page) dialog(e *event) {
	add(&p.told.Dialogs, clip.Text(e.Type+": "+e.Message, 500))
	p.conn.tell(p.session, "Page.handleJavaScriptDialog", m{"accept": e.Type == "beforeunload"})
}

func (p *Page) requested(e *event) {
	if len(p.loads) < 1000 && e.Type != "EventSource" && e.Type != "WebSocket" && e.Type != "Ping" {
		p.loads[e.Request] = true
	}
}

func (p *Page) answered(e *event) {
	if e.Type != "Document" || e.FrameID != p.frame {
		return
	}
	p.status, p.denied = e.Response.Status, ""
	for name, v := range e.Response.Headers {
		if strings.EqualFold(name, "Remit-Denied") {
			p.denied = clip.Text(v, 300)
		}
	}
}

func (p *Page) offered(e *event) {
	if len(p.told.Downloads) < maxTold {
		p.told.Downloads = append(p.told.Downloads, Download{e.GUID, clip.Text(e.URL, maxURL), clip.Text(e.Name, 200), 0, "inProgress"})
	}
}

func (p *Page) downloaded(e *event) {
	for i := range p.told.Downloads {
		if d := &p.told.Downloads[i]; d.ID == e.GUID {
			d.State, d.Bytes = e.State, int64(e.Received)
		}
	}
}

// errMoved is the error of a reference that the page does not have any more.
func errMoved(ref int) error {
	return fault.New(fault.NotFound, "the page has no element e%d any more", ref).WithHint("use the references of the newest snapshot; browser.text makes one")
}
