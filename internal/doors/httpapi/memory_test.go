package httpapi_test

import (
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/racetest"
)

// sink is a client that keeps nothing of the answer.
type sink struct {
	header http.Header
	status int
}

func (s *sink) Header() http.Header         { return s.header }
func (s *sink) WriteHeader(status int)      { s.status = status }
func (s *sink) Write(b []byte) (int, error) { return len(b), nil }

// A body of 1 MiB, whatever it holds, takes a bounded amount of memory.
func TestABodyTakesBoundedMemory(t *testing.T) {
	racetest.Skip(t, "it measures memory")
	s := server(t, newWorld())
	agentID, sessionID := agentAndSession(t, s, "admin")
	fill := func(unit string) string { return strings.Repeat(unit, (1<<20-200)/len(unit)) }
	bodies := map[string]string{
		"objects":       `{"args":{"x":[` + fill(`{"a":0},`) + `0]}}`,
		"empty objects": `{"args":{"x":[` + fill(`{},`) + `0]}}`,
		"numbers":       `{"args":{"x":[` + fill(`1,`) + `0]}}`,
		"nesting":       `{"args":` + fill(`[`) + `}`,
		"text":          `{"content":"` + fill(`<`)[:999000] + `"}`,
		"escapes":       `{"content":"` + fill(`\u0001`) + `"}`,
		"policy":        `{"policy":"` + fill(`a,`) + `"}`,
		"unknown":       `{"a":"` + fill(`\"`) + `"}`,
	}
	for _, o := range s.Operations() {
		if o.Method == http.MethodGet || o.Method == http.MethodDelete {
			continue
		}
		most := uint64(16 << 20)
		if o.ID == "postMessage" {
			// The answer of these agents repeats the text four times, their turn ends beside
			// the measurement, and the race detector empties pools at random.
			most *= 4
		}
		for name, body := range bodies {
			r := httptest.NewRequest(o.Method, "http://127.0.0.1"+sample(o.Path, agentID, sessionID), strings.NewReader(body))
			r.Header.Set("Authorization", "Bearer admin")
			w := &sink{header: http.Header{}}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			s.ServeHTTP(w, r)
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > most || w.status >= 500 {
				t.Errorf("%s with %s: %d bytes of memory, status %d", o.ID, name, n, w.status)
			}
		}
	}
}
