package webui_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/doors/webui"
)

// streams is an API with an event stream of the record and one of each session.
type streams struct {
	api

	asked chan string // sessions that are followed
	late  bool        // the stream of the record begins after the texts of the sessions
}

func (a *streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch path, ok := strings.CutSuffix(r.URL.Path, "/events"); {
	case path == "/v1" && a.late:
		for range 2 {
			<-a.asked
		}
		time.Sleep(100 * time.Millisecond) // longer than texts are gathered
		_, _ = io.WriteString(w, ": remit\n\n")
	case path == "/v1":
		_, _ = io.WriteString(w, ": remit\nretry: 1000\n\n")
		for range 2 { // until both conversations were read
			<-a.asked
		}
	case ok:
		for _, data := range []string{`{"type":"status","status":"working"}`, `{"type":"text","text":"It "}`, `{"type":"text","text":"is <b>\u202e"}`, `{"type":"message","message":{"number":9}}`, `{"type":"text","text":"next"}`} {
			_, _ = io.WriteString(w, "id: 1\nevent: x\ndata: "+data+"\n\n")
		}
		a.asked <- path
	default:
		a.api.ServeHTTP(w, r)
	}
}

func TestTheStreamHasTheTextOfConversations(t *testing.T) {
	for name, late := range map[string]bool{"in a stream": false, "before the stream begins": true} {
		t.Run(name, func(t *testing.T) { testTexts(t, &streams{api: api{t: t}, asked: make(chan string, 10), late: late}) })
	}
}

func testTexts(t *testing.T, a *streams) {
	t.Helper()
	s, err := webui.New(webui.Options{API: a, Devices: &browsers{}, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	const other = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b99"
	w := ask(s, "/ui/events?session="+sessionID+"&session="+sessionID+"&session=../agents&session="+other, nil)
	for _, want := range []string{
		`event: text` + "\n" + `data: {"session":"` + sessionID + `","after":7,"text":"It is \u003cb\u003e\\u202e"}`, `{"session":"` + sessionID + `","after":9,"text":"next"}`,
		`{"session":"` + other + `","after":2,`,
	} {
		if !strings.Contains(w.Body.String(), want) {
			t.Errorf("the stream lacks %s:\n%s", want, w.Body)
		}
	}
	if kind := w.Result().Header.Get("Content-Type"); len(a.asked) != 0 || w.Code != http.StatusOK || kind != "text/event-stream" {
		t.Errorf("status %d, %s, and %d more streams were asked for", w.Code, kind, len(a.asked))
	}
}
