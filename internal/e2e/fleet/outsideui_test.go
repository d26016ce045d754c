package fleet_test

import (
	"bufio"
	"net/http"
	"strings"
	"time"
)

// viewer is a browser with a page of the web UI: it follows the event stream and reads pages.
type viewer struct {
	*httpClient
	browser *http.Client
	person  *person
	news    chan struct{} // something was told by the stream
	said    string        // how the last stream ended
}

// follow reads the event stream, and connects again with the last event that it got.
func (v *viewer) follow() {
	web := v.connections("")
	web.Timeout = 0
	last := ""
	for v.ctx.Err() == nil {
		r, err := http.NewRequestWithContext(v.ctx, http.MethodGet, v.pick(0).url+"/ui/events", http.NoBody)
		if err != nil {
			return
		}
		v.dress(r)
		if last != "" {
			r.Header.Set("Last-Event-ID", last)
		}
		res, err := web.Do(r)
		if err == nil && res.StatusCode == http.StatusOK {
			for in := bufio.NewScanner(res.Body); in.Scan(); {
				if id, ok := strings.CutPrefix(in.Text(), "id: "); ok {
					last = id
				}
				if strings.HasPrefix(in.Text(), "data:") {
					select {
					case v.news <- struct{}{}:
					default:
					}
				}
			}
		}
		said := "the stream ended"
		if err != nil {
			said = failure(err)
		} else {
			if res.StatusCode != http.StatusOK {
				said = res.Status
			}
			_ = res.Body.Close()
		}
		v.mu.Lock()
		v.said = said
		v.mu.Unlock()
		v.pause(100*time.Millisecond, 500*time.Millisecond) // as EventSource does
	}
}

// dress makes a request one of the signed-in browser.
func (v *viewer) dress(r *http.Request) {
	r.Header.Set("Origin", public)
	v.mu.Lock()
	defer v.mu.Unlock()
	for _, c := range v.person.cookies {
		r.AddCookie(c)
	}
}

// get makes a request of the browser to the nodes, or to the issuer, and gives where it leads.
func (v *viewer) get(i *intent, at way, path string) (status int, to string) {
	r, err := http.NewRequestWithContext(v.ctx, http.MethodGet, at.url+path, http.NoBody)
	if err != nil {
		i.note(at.name, "GET %s: %v", path, err)
		return 0, ""
	}
	web := http.DefaultTransport
	if at.name != issuer {
		v.dress(r)
		web = v.browser.Transport
	}
	res, err := web.RoundTrip(r) // follows no redirects
	if err != nil {
		i.note(at.name, "GET %s: %s", path, failure(err))
		return 0, ""
	}
	_ = res.Body.Close()
	if page, _, _ := strings.Cut(path, "?"); at.name != issuer {
		i.note(at.name, "GET %s: %d", page, res.StatusCode)
		v.mu.Lock()
		for _, c := range res.Cookies() {
			v.person.cookies[c.Name] = c
		}
		v.mu.Unlock()
	}
	return res.StatusCode, res.Header.Get("Location")
}

// issuer names the way to the provider of identities.
const issuer = "issuer"

// signIn is what a person does whose browser is signed out: a node with a file forgets browsers.
func (v *viewer) signIn(i *intent) {
	v.mu.Lock()
	clear(v.person.cookies)
	v.mu.Unlock()
	at := v.pick(0)
	_, to := v.get(i, at, "/ui/sign-in/company?again")
	if to == "" {
		return
	}
	v.person.idp.SignsIn(v.person.claims())
	_, to = v.get(i, way{issuer, ""}, to)
	if back, ok := strings.CutPrefix(to, public); ok {
		v.get(i, at, back)
	}
}

// page reads the list of runs.
func (v *viewer) page(i *intent) bool {
	status, _ := v.get(i, v.pick(0), "/ui/runs")
	if status == http.StatusUnauthorized {
		v.signIn(i)
	}
	return status == http.StatusOK
}

// look is an intent of a browser: what a client does must be told by the stream, and a page be there.
func (v *viewer) look(i *intent) ending {
	for {
		select {
		case <-v.news: // of before
			continue
		default:
		}
		break
	}
	if e := v.invoke(i); e != completed {
		return e
	}
	if !v.page(i) {
		return unknown
	}
	select {
	case <-v.news:
		return completed
	case <-v.ctx.Done():
	case <-time.After(callWithin):
		v.mu.Lock()
		defer v.mu.Unlock()
		i.note("browser", "the stream told of nothing within %s; the last one: %s", callWithin, v.said)
	}
	return unknown
}

// viewer adds a browser that is signed in.
func (c *crowd) viewer(p *person) {
	v := &viewer{httpClient: c.httpClient(), browser: c.connections(""), person: p, news: make(chan struct{}, 1)}
	c.others.Go(v.follow)
	c.keep("browser", outside, v.look)
}
