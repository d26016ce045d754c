package webui_test

import (
	"encoding/json"
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
	s, err := webui.New(webui.Options{API: a, Devices: &browsers{}, Gate: &browsers{}, Host: host})
	if err != nil {
		t.Fatal(err)
	}
	const other = "019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b99"
	w := ask(s, "/ui/events?session="+sessionID+"&session="+sessionID+"&session=../agents&session="+other, nil)
	got := textsOf(t, w.Body.String())
	for _, want := range []liveText{{sessionID, 7, `It is <b>\u202e`}, {sessionID, 9, "next"}, {other, 2, `It is <b>\u202e`}} {
		if got[liveText{want.Session, want.After, ""}] != want.Text {
			t.Errorf("the stream lacks %+v:\n%s", want, w.Body)
		}
	}
	if kind := w.Result().Header.Get("Content-Type"); len(a.asked) != 0 || w.Code != http.StatusOK || kind != "text/event-stream" {
		t.Errorf("status %d, %s, and %d more streams were asked for", w.Code, kind, len(a.asked))
	}
}

// liveText is a part of an answer, of the conversation after one of its messages.
type liveText struct {
	Session string `json:"session"`
	After   int    `json:"after"`
	Text    string `json:"text"`
}

// textsOf joins the parts of each answer in a stream: how many there are depends on the time.
func textsOf(t *testing.T, stream string) map[liveText]string {
	t.Helper()
	out := map[liveText]string{}
	for event := range strings.SplitSeq(stream, "\n\n") {
		data, ok := strings.CutPrefix(event, "event: text\ndata: ")
		if !ok {
			continue
		}
		var part liveText
		if err := json.Unmarshal([]byte(data), &part); err != nil {
			t.Errorf("%q: %v", data, err)
		}
		out[liveText{part.Session, part.After, ""}] += part.Text
	}
	return out
}
