package webui_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/doors/webui"
	"github.com/remitrun/remit/internal/service/people"
)

// issuer answers each request for a code when it may.
type issuer struct {
	webui.People

	asked  chan string // codes
	answer chan struct{}
}

func (i *issuer) Issuers() []string { return []string{"company"} }

func (i *issuer) Expects(cookie string, query url.Values) error {
	if cookie == "" || cookie != query.Get("state") {
		return fault.New(fault.GrantInvalid, "the answer is not for the sign-in of this browser")
	}
	return nil
}

func (i *issuer) Finish(_ context.Context, _ string, query url.Values) (people.Entered, error) {
	i.asked <- query.Get("code")
	<-i.answer
	return people.Entered{}, fault.New(fault.GrantInvalid, "the issuer does not accept the sign-in")
}

// TestTheIssuerGetsFewRequestsOfOneAddress: wrong codes wait for their turn; answers of no sign-in
// are refused at once; other addresses do not wait.
func TestTheIssuerGetsFewRequestsOfOneAddress(t *testing.T) {
	const few, many = 8, 50
	i := &issuer{asked: make(chan string, 2*many), answer: make(chan struct{})}
	s, err := webui.New(webui.Options{API: &api{t: t}, Devices: &browsers{}, Gate: &browsers{}, People: i, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	finish := func(from, state, code string) int {
		r := httptest.NewRequest(http.MethodGet, "http://"+host+"/ui/signed-in?state="+state+"&code="+code, nil)
		r.RemoteAddr = from + ":1"
		r.AddCookie(&http.Cookie{Name: "remit-ui-sign-in", Value: "mine"})
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if len(w.Result().Cookies()) > 0 {
			t.Errorf("a failed sign-in sets %v", w.Result().Cookies())
		}
		return w.Code
	}
	var strangers sync.WaitGroup
	for range many {
		strangers.Go(func() { finish("192.0.2.1", "mine", "guess") })
	}
	for range few {
		<-i.asked
	}
	for range 1000 {
		if status := finish("192.0.2.1", "another", "x"); status != http.StatusUnauthorized {
			t.Fatalf("an answer of no sign-in: %d", status)
		}
	}
	if n := len(i.asked); n > 0 {
		t.Errorf("the issuer has %d further requests of the address", n)
	}
	strangers.Go(func() { finish("192.0.2.2", "mine", "person") })
	if code := <-i.asked; code != "person" {
		t.Errorf("the next request is for %s", code)
	}
	strangers.Go(func() { finish("192.0.2.1", "mine", "late") }) // it gets its turn, too
	close(i.answer)
	strangers.Wait()
	if n := len(i.asked); n != many-few+1 {
		t.Errorf("the issuer got %d of the codes that waited", n)
	}
}

// TestCodesOfProgramsCannotBeTried: a browser has 30 tries, and the right code does not count after
// them. The clock stands still.
func TestCodesOfProgramsCannotBeTried(t *testing.T) {
	s, _, _ := newServer(t)
	for i := range 30 {
		if w := ask(s, "/ui/login?code=BCDF-GHJL", nil); !strings.Contains(w.Body.String(), "no program waits") {
			t.Fatalf("try %d: %d", i, w.Code)
		}
	}
	for _, form := range []url.Values{nil, {"code": {"BCDF-GHJK"}, "do": {"allow"}}, {"code": {"BCDF-GHJK"}, "do": {"refuse"}}} {
		if w := ask(s, "/ui/login?code=BCDF-GHJK", form); !strings.Contains(w.Body.String(), "too many codes") {
			t.Errorf("%v after 30 tries: %d", form, w.Code)
		}
	}
}
