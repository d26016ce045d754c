package webui

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/memo"
)

// tell makes the stream of a browser, and tells it a part of the API's stream.
func tell(t testing.TB, known *memo.Memo[[]string], part []byte) *changes {
	t.Helper()
	w := httptest.NewRecorder()
	c := &changes{w: w, rc: http.NewResponseController(w), known: known}
	if _, err := c.Write(part); err != nil {
		t.Fatal(err)
	}
	c.end()
	return c
}

// TestBrowsersShareDecodedEvents: each browser gets all topics, and an event is decoded for the first
// one only.
func TestBrowsersShareDecodedEvents(t *testing.T) {
	const events = 100
	var part strings.Builder
	for i := range events {
		fmt.Fprintf(&part, "id: %d\nevent: run_started\ndata: {\"seq\":%d,\"at\":\"2026-11-21T12:00:00Z\",\"event\":\"run_started\",\"run_id\":\"r%d\",\"status\":\"running\"}\n\n", i+1, i+1, i)
	}
	told := func(c *changes) string { return c.w.(*httptest.ResponseRecorder).Body.String() }
	known := memo.New[[]string](maxRead)
	first, second := told(tell(t, known, []byte(part.String()))), told(tell(t, known, []byte(part.String())))
	if first != second || !strings.Contains(first, "run:r99") {
		t.Errorf("the first browser is told %q, the second %q", first, second)
	}
	one := testing.AllocsPerRun(20, func() { tell(t, memo.New[[]string](maxRead), []byte(part.String())) })
	further := testing.AllocsPerRun(20, func() { tell(t, known, []byte(part.String())) })
	if further > one-5*events {
		t.Errorf("%d events take %v allocations for the first browser, and %v for a further one", events, one, further)
	}
}
