package webui_test

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/webui"
	"github.com/remitrun/remit/internal/service/devices"
	"github.com/remitrun/remit/internal/service/logins"
)

// leaving is a browser that is signed out when its form arrives.
type leaving struct {
	*browsers
	gone bool
}

func (l *leaving) Enter(ctx context.Context, c string) (devices.Device, error) {
	if l.gone {
		return devices.Device{}, fault.New(fault.GrantInvalid, "this browser is not signed in")
	}
	return l.browsers.Enter(ctx, c)
}

// Read implements io.Reader: the body of a form.
func (l *leaving) Read(p []byte) (int, error) {
	if l.gone {
		return 0, io.EOF
	}
	l.gone = true
	return copy(p, "do=apply&answer=once&code=BCDF-GHJK&theme=dark"), nil
}

// formsOf are the paths of all forms of the web UI.
func formsOf(t *testing.T) (paths []string) {
	t.Helper()
	src, err := os.ReadFile("webui.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range regexp.MustCompile(`s\.(?:form|action)\("(?:POST )?([^"]+)"`).FindAllStringSubmatch(string(src), -1) {
		paths = append(paths, strings.NewReplacer("{id}", runID, "{ref}", "web_fetch").Replace(f[1]))
	}
	if len(paths) < 20 {
		t.Fatalf("%d forms", len(paths))
	}
	return paths
}

// decisions notes decisions on programs' sign-ins.
type decisions struct {
	oneLogin
	made int
}

func (d *decisions) Decide(ctx context.Context, code string, grant func(logins.Waiting) (logins.Given, error)) error {
	d.made++
	return d.oneLogin.Decide(ctx, code, grant)
}

// TestARevokedBrowserDoesNothing: no form of the web UI has an effect in a browser whose grant was
// revoked, and no page has content.
func TestARevokedBrowserDoesNothing(t *testing.T) {
	other := "019a1fe7-0b1c-7a52-9e55-000000000002"
	for _, revoked := range []bool{true, false} {
		effects := 0
		for _, path := range formsOf(t) {
			for _, do := range []string{"refuse", "allow", "apply", "stop"} {
				b, a, l := &browsers{confirmed: now, revoked: revoked}, &api{t: t, fail: map[string]string{}}, &decisions{}
				s, err := webui.New(webui.Options{API: a, Devices: b, Gate: b, Logins: l, Host: host, Now: func() time.Time { return now }})
				if err != nil {
					t.Fatal(err)
				}
				w := ask(s, path, url.Values{"do": {do}, "device": {other}, "theme": {"dark"}, "keys": {"off"}, "code": {"BCDF-GHJK"}, "answer": {"once"}})
				n := len(a.sent) + len(b.out) + l.made + len(w.Result().Cookies())
				effects += n
				if revoked && (n > 0 || w.Code != http.StatusUnauthorized) {
					t.Errorf("%s, do=%s: %d, sent %v, signed out %v, %d decisions, cookies %v", path, do, w.Code, a.sent, b.out, l.made, w.Result().Cookies())
				}
				if w := ask(s, path, nil); revoked && w.Code != http.StatusUnauthorized {
					t.Errorf("the page %s: %d", path, w.Code)
				}
			}
		}
		if !revoked && effects < 10 {
			t.Errorf("%d effects of forms in a browser that may", effects)
		}
	}
}

// TestAFormAfterTheSignOutHasNoEffect: each form of the web UI gets its body when its browser has
// been signed out, after the request was let in by its header.
func TestAFormAfterTheSignOutHasNoEffect(t *testing.T) {
	for _, path := range formsOf(t) {
		l := &leaving{browsers: &browsers{confirmed: now}}
		s, a := serverOf(t, l)
		w := ask(s, path, url.Values{}, func(r *http.Request) { r.Body = io.NopCloser(l) })
		if !l.gone {
			t.Errorf("%s reads no form", path)
		}
		if len(a.sent)+len(l.out) > 0 || w.Code != http.StatusUnauthorized && w.Code != http.StatusSeeOther {
			t.Errorf("%s: %d, sent %v, signed out %v", path, w.Code, a.sent, l.out)
		}
	}
}
