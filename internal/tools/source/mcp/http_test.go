package mcp_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/remitrun/remit/internal/tools/source/mcp"
)

// elsewhere is a server that is reached over HTTP.
type elsewhere struct {
	write func(w http.ResponseWriter, answer string) // how it writes its answers
	lost  func(w http.ResponseWriter, id string)     // what it says of an unknown session

	mu       sync.Mutex
	sessions map[string]bool
	begun    int
	calls    int
	asked    json.RawMessage // the ID of the last request
}

func (e *elsewhere) forget() {
	e.mu.Lock()
	defer e.mu.Unlock()
	clear(e.sessions)
}

func (e *elsewhere) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if r.Method != http.MethodPost {
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	raw, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(raw, &m)
	e.asked = m.ID
	result := ""
	switch {
	case m.Method == "initialize":
		e.begun++
		id := fmt.Sprint("s", e.begun)
		e.sessions[id] = true
		w.Header().Set("Mcp-Session-Id", id)
		result = `{"protocolVersion":"2025-11-25","capabilities":{"tools":{}},"serverInfo":{"name":"h","version":"1"}}`
	case !e.sessions[r.Header.Get("Mcp-Session-Id")]:
		e.lost(w, string(m.ID))
		return
	case m.ID == nil:
		w.WriteHeader(http.StatusAccepted)
		return
	case m.Method == "tools/list":
		result = `{"tools":[{"name":"hello","inputSchema":{"type":"object"}}]}`
	case m.Method == "tools/call":
		e.calls++
		result = fmt.Sprintf(`{"content":[{"type":"text","text":"hello %d"},{"type":"later"}]}`, e.calls)
	}
	e.write(w, fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"result":%s}`, m.ID, result))
}

func (e *elsewhere) serve(t *testing.T) *mcp.Server {
	t.Helper()
	e.sessions = map[string]bool{}
	web := httptest.NewServer(e)
	s := mcp.New(mcp.Config{Name: "t", Source: "mcp-remote", Version: "1", Start: func(context.Context) (*mcp.Link, error) {
		return &mcp.Link{Remote: true, Transport: mcp.HTTP(web.URL, web.Client().Transport, nil), Ended: make(chan struct{}), Stop: func() {}}, nil
	}})
	t.Cleanup(func() {
		_ = s.Close()
		web.Close()
	})
	return s
}

func writesJSON(w http.ResponseWriter, answer string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, answer)
}

func says(status int, body string) func(http.ResponseWriter, string) {
	return func(w http.ResponseWriter, id string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "ID", id))
	}
}

// A server that forgot its sessions is asked in a new one, and each call is carried out once.
func TestASessionThatEnded(t *testing.T) {
	const unknown = `{"jsonrpc":"2.0","id":null,"error":{"code":-32001,"message":"Session not found"}}`
	for name, tc := range map[string]struct {
		lost  func(http.ResponseWriter, string)
		fails bool // the first call, as it may have been carried out
	}{
		"404":                       {says(404, ""), false},
		"404 with a message":        {says(404, unknown), false},
		"404 with the request's ID": {says(404, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Session not found"}}`), false},
		"400 with a message":        {says(400, `{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"Unknown session id"}}`), false},
		"400 in words":              {says(400, "Bad Request: Server not initialized"), false},
		"401 in words":              {says(401, "Unauthorized: Session not found"), false},
		"410":                       {says(410, "this session is over"), false},
		"an answer":                 {says(200, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32001,"message":"Session not found"}}`), true},
	} {
		t.Run(name, func(t *testing.T) {
			e := &elsewhere{write: writesJSON, lost: tc.lost}
			s := e.serve(t)
			hello := discover(t, s)["hello"]
			want := 0
			for range 3 {
				if tc.fails {
					if out, err := run(t.Context(), hello, nil); want > 0 && err == nil {
						t.Errorf("got %s", out)
					}
				}
				want = e.calls + 1
				if out, err := run(t.Context(), hello, nil); err != nil || !strings.Contains(out, fmt.Sprintf("hello %d", want)) {
					t.Errorf("got %s, %v; want hello %d", out, err, want)
				}
				e.forget()
			}
		})
	}
	t.Run("not again and again", func(t *testing.T) {
		e := &elsewhere{write: writesJSON, lost: says(404, unknown)}
		s := e.serve(t)
		hello := discover(t, s)["hello"]
		e.write = func(w http.ResponseWriter, answer string) {
			clear(e.sessions)
			writesJSON(w, answer)
		}
		e.forget()
		if out, err := run(t.Context(), hello, nil); err == nil || e.begun > 5 {
			t.Errorf("got %s, %v, in %d sessions", out, err, e.begun)
		}
	})
}

// TestAnAnswerOfTheToolIsNotALostSession: a refusal that the server gave after the call's effect is passed on, and the call is carried out
// once.
func TestAnAnswerOfTheToolIsNotALostSession(t *testing.T) {
	for name, answer := range map[string]func(http.ResponseWriter, string){
		"404":             says(404, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"payment made; receipt not found"}}`),
		"400":             says(400, `{"jsonrpc":"2.0","id":ID,"error":{"code":-32000,"message":"row inserted, but the database session could not be closed"}}`),
		"400 without IDs": says(400, `{"error":{"code":-32000,"message":"sent, but the mail session could not be closed"}}`),
		"401 in words":    says(401, "sent, then session refused"),
		"410 in words":    says(410, "sent in session 12, which nobody reads any more"),
	} {
		t.Run(name, func(t *testing.T) {
			e := &elsewhere{write: writesJSON}
			s := e.serve(t)
			hello := discover(t, s)["hello"]
			e.write = func(w http.ResponseWriter, _ string) { answer(w, string(e.asked)) }
			if out, err := run(t.Context(), hello, nil); err == nil || e.calls != 1 {
				t.Errorf("got %s, %v, after %d calls", out, err, e.calls)
			}
		})
	}
}

// Answers are read in each form that servers give them.
func TestAnswersOfServersElsewhere(t *testing.T) {
	stream := func(format string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, answer string) {
			w.Header().Set("Content-Type", "text/event-stream")
			half := strings.IndexByte(answer, ',') + 1
			out := strings.NewReplacer("ANSWER", answer, "HALF", answer[:half], "REST", answer[half:]).Replace(format)
			for i := range len(out) {
				_, _ = io.WriteString(w, out[i:i+1])
				if i < 50 {
					_ = http.NewResponseController(w).Flush()
				}
			}
		}
	}
	typed := func(kind, format string) func(http.ResponseWriter, string) {
		return func(w http.ResponseWriter, answer string) {
			w.Header().Set("Content-Type", kind)
			_, _ = io.WriteString(w, strings.ReplaceAll(format, "ANSWER", answer))
		}
	}
	const progress = `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":"late","progress":9}}`
	for name, write := range map[string]func(http.ResponseWriter, string){
		"a stream":                   stream("event: message\nid: 1\nretry: 10\ndata: ANSWER\n\n"),
		"CR LF":                      stream(": ping\r\n\r\ndata: ANSWER\r\n\r\n"),
		"CR":                         stream("data: ANSWER\r\r"),
		"no space":                   stream("data:ANSWER\n\n"),
		"a byte order mark":          stream("\xef\xbb\xbfdata: ANSWER\n\n"),
		"data over two lines":        stream("data: HALF\ndata: REST\n\n"),
		"no blank line":              stream("data: ANSWER"),
		"a line without a colon":     stream("ping\n\ndata: ANSWER\n\n"),
		"events that are no message": stream("data: ping\n\nevent: ping\ndata: {}\n\ndata: ANSWER\n\n"),
		"notices before":             stream("data: " + progress + "\n\ndata: ANSWER\n\ndata: " + progress + "\n\n"),
		"JSON":                       writesJSON,
		"JSON with a charset":        typed("Application/JSON; charset=utf-8", "ANSWER"),
		"JSON called a stream":       typed("text/event-stream", "\n ANSWER\n"),
		"JSON called text":           typed("text/plain", "\xef\xbb\xbfANSWER"),
		"a list":                     typed("application/json", "["+progress+",\nANSWER]"),
		"an ID as text": func(w http.ResponseWriter, answer string) {
			head, tail, _ := strings.Cut(answer, `,"result"`)
			i := strings.LastIndexByte(head, ':') + 1
			writesJSON(w, head[:i]+`"`+head[i:]+`","result"`+tail)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&elsewhere{write: write, lost: says(404, "")}).serve(t)
			if out, err := run(t.Context(), discover(t, s)["hello"], nil); err != nil || !strings.Contains(out, "hello 1") || !strings.Contains(out, "later") {
				t.Errorf("got %s, %v", out, err)
			}
		})
	}
	for want, body := range map[string]string{
		"not a message": `{"status":"ok"}`,
		"more than 16":  `{"jsonrpc":"2.0","id":1,"result":"` + strings.Repeat("x", mcp.MaxMessage) + `"}`,
	} {
		e := &elsewhere{write: writesJSON, lost: says(404, "")}
		s := e.serve(t)
		hello := discover(t, s)["hello"]
		e.write = typed("application/json", body)
		if out, err := run(t.Context(), hello, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %.100s, %v; want %s", out, err, want)
		}
	}
}
