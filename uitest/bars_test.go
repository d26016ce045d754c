package uitest

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/remitrun/remit/internal/call/runner"
)

// The bars of the web UI. Times are of the machine that it runs on.
const (
	maxPage   = 30 << 10 // bytes of a page, compressed
	maxScript = 12 << 10 // bytes of all scripts, compressed
	maxServer = 50 * time.Millisecond
	maxPaint  = 300 * time.Millisecond
	maxPatch  = 100 * time.Millisecond
)

// p95 is the time that 19 of 20 stay below.
func p95(times []time.Duration) time.Duration {
	slices.Sort(times)
	return times[(len(times)*95+99)/100-1]
}

func zipped(b []byte) int {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is valid
	_, _ = z.Write(b)                                       // never fails
	_ = z.Close()
	return out.Len()
}

// client is a signed-in browser without a window.
type client struct {
	t      *testing.T
	s      *service
	cookie string
}

func (s *service) client() *client {
	s.t.Helper()
	link, err := s.app.UILink(context.Background())
	if err != nil {
		s.t.Fatal(err)
	}
	u, err := url.Parse(link)
	if err != nil {
		s.t.Fatal(err)
	}
	c := &client{t: s.t, s: s}
	header, _, _ := c.do(http.MethodPost, "/sign-in", u.Query().Encode())
	c.cookie, _, _ = strings.Cut(header.Get("Set-Cookie"), ";")
	return c
}

func (c *client) do(method, path, form string) (http.Header, []byte, time.Duration) {
	c.t.Helper()
	ui, err := url.Parse(c.s.url + path)
	if err != nil {
		c.t.Fatal(err)
	}
	host := ui.Host
	ui.Host = hostOf(c.t, c.s.url)
	r, err := http.NewRequestWithContext(context.Background(), method, ui.String(), strings.NewReader(form))
	if err != nil {
		c.t.Fatal(err)
	}
	r.Host = host
	r.Header.Set("Cookie", c.cookie)
	if form != "" {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	began := time.Now()
	res, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		c.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode >= 400 {
		c.t.Fatalf("%s: %d %v %.300s", path, res.StatusCode, err, b)
	}
	return res.Header, b, time.Since(began)
}

// TestBars measures the web UI over a record with as many calls as REMIT_UI_BENCH says.
func TestBars(t *testing.T) {
	calls, err := strconv.Atoi(os.Getenv("REMIT_UI_BENCH"))
	if err != nil {
		t.Skip("REMIT_UI_BENCH is not a number of calls: make ui-bench sets it")
	}
	s, pages := furnished(t)
	long := s.begin("a long run", false)
	began := time.Now()
	for range calls {
		if _, err := long.Call(t.Context(), runner.Call{Tool: "time.now"}); err != nil {
			t.Fatal(err)
		}
	}
	id := long.Run.ID.String()
	t.Logf("%d calls were recorded in %s", calls, time.Since(began).Round(time.Second))
	c := s.client()
	furnishedAuthority(s, pages)
	pages["long"], pages["long-last"], pages["long-call"] = "/runs/"+id, "/audit?run_id="+id, "/runs/"+id+"/calls/"+strconv.Itoa(calls)
	measurePages(t, c, pages)
	measureBrowser(t, s)
	if err := long.End(t.Context()); err != nil {
		t.Error(err)
	}
}

// measurePages holds the server to its bars.
func measurePages(t *testing.T, c *client, pages map[string]string) {
	t.Helper()
	scripts := 0
	for _, name := range []string{"app.js", "idiomorph.js"} {
		_, b, _ := c.do(http.MethodGet, "/static/"+name, "")
		scripts += zipped(b)
	}
	t.Logf("scripts: %d bytes compressed (bar %d)", scripts, maxScript)
	if scripts > maxScript {
		t.Errorf("the scripts have %d bytes", scripts)
	}
	names := make([]string, 0, len(pages))
	for name := range pages {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		_, b, _ := c.do(http.MethodGet, pages[name], "") // the first one may read what is not cached
		var times []time.Duration
		for range 20 {
			_, _, took := c.do(http.MethodGet, pages[name], "")
			times = append(times, took)
		}
		size, slow := zipped(b), p95(times)
		t.Logf("%-16s %6d bytes compressed (bar %d), server p50 %8s, p95 %8s (bar %s)", name, size, maxPage, times[len(times)/2].Round(10*time.Microsecond), slow.Round(10*time.Microsecond), maxServer)
		if size > maxPage {
			t.Errorf("%s has %d bytes", name, size)
		}
		if slow > maxServer {
			t.Errorf("%s takes %s", name, slow)
		}
	}
}

// measureBrowser holds the browser's first paint and its changes to their bars.
func measureBrowser(t *testing.T, s *service) {
	t.Helper()
	b := newTab(t)
	s.signIn(b)
	var paints, patches []time.Duration
	for range 10 {
		b.open(s.url + "/runs")
		b.until(`performance.getEntriesByName("first-contentful-paint").length > 0`)
		paints = append(paints, time.Duration(get[float64](b, `performance.getEntriesByName("first-contentful-paint")[0].startTime`)*float64(time.Millisecond)))
	}
	b.until(`document.body.dataset.live === "on"`)
	get[chromedp.Void](b, `void (window.patched = [], new MutationObserver(() => window.patched.push(Date.now())).observe(document.body, {attributes: true, attributeFilter: ["data-patched"]}))`)
	for i := range 20 {
		before := time.Now()
		s.begin("patched "+strconv.Itoa(i), false)
		b.until(`document.getElementById("main").innerText.includes("patched ` + strconv.Itoa(i) + `")`)
		patches = append(patches, time.UnixMilli(int64(get[float64](b, `window.patched.at(-1)`))).Sub(before))
	}
	paint, patch := p95(paints), p95(patches)
	t.Logf("first paint p50 %s, p95 %s (bar %s); patch p50 %s, p95 %s (bar %s)", paints[len(paints)/2].Round(time.Millisecond), paint.Round(time.Millisecond), maxPaint,
		patches[len(patches)/2].Round(time.Millisecond), patch.Round(time.Millisecond), maxPatch)
	if paint > maxPaint {
		t.Errorf("the first paint takes %s", paint)
	}
	if patch > maxPatch {
		t.Errorf("a change takes %s until it is shown", patch)
	}
}
