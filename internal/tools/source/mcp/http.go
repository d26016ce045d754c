package mcp

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strconv"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/auth"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/eventstream"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// HTTP is the transport of a server at a URL, through rt, which decides every
// request and bounds every answer. Redirects are not followed: the operator named
// this URL.
func HTTP(url string, rt http.RoundTripper, login auth.OAuthHandler) sdk.Transport {
	return &sdk.StreamableClientTransport{
		Endpoint: url, MaxEventSize: 2 * MaxMessage, MaxRetries: 2, // a mended message may be larger than it was sent
		HTTPClient:   &http.Client{Transport: &web{rt: rt}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		OAuthHandler: login,
	}
}

// web sends the SDK's requests, and gives it answers that it can read: it knows fewer forms of
// sessions that ended and of event streams than servers send.
type web struct {
	rt      http.RoundTripper
	waiting pending
}

// RoundTrip implements http.RoundTripper.
func (w *web) RoundTrip(req *http.Request) (*http.Response, error) {
	call := w.note(req)
	d := deliveryOf(req.Context())
	resp, err := w.rt.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if req.Method != http.MethodDelete && req.Header.Get(sessionHeader) != "" && endsSession(resp, call) {
		d.noteLost()
		_ = resp.Body.Close() // its content is read
		resp.Body, resp.StatusCode, resp.Status = http.NoBody, http.StatusNotFound, "404 Not Found"
		return resp, nil
	}
	if call != nil && (refusesForNow(resp.StatusCode) || resp.StatusCode == http.StatusNotFound && req.Header.Get(sessionHeader) != "") {
		return w.refused(resp, call), nil
	}
	kind := mediaType(resp.Header)
	reads := kind == "text/event-stream" || req.Method == http.MethodPost && (kind == "" || kind == "application/json" || kind == "text/plain")
	if resp.StatusCode == http.StatusOK && reads {
		resp.Header.Set("Content-Type", "text/event-stream")
		resp.Header.Del("Content-Length")
		resp.ContentLength = -1
		resp.Body = &mended{body: resp.Body, in: eventstream.NewReader(resp.Body, MaxMessage), waiting: &w.waiting, call: call}
	}
	return resp, nil
}

// note notes the request in a body, whose answer is mended later. It returns nil if there is none.
func (w *web) note(req *http.Request) *jsonrpc.Request {
	if req.Method != http.MethodPost || req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	defer func() { _ = body.Close() }()
	raw, err := io.ReadAll(body)
	if err != nil {
		return nil
	}
	m, err := jsonrpc.DecodeMessage(raw)
	if r, ok := m.(*jsonrpc.Request); err == nil && ok && r.IsCall() {
		w.waiting.addLatest(r)
		return r
	}
	return nil
}

func mediaType(h http.Header) string {
	kind, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil {
		kind, _, _ = strings.Cut(h.Get("Content-Type"), ";")
	}
	return strings.ToLower(strings.TrimSpace(kind))
}

const sessionHeader = "Mcp-Session-Id"

// maxRefusal is how much of a refusal is read, in bytes.
const maxRefusal = 64 << 10

// ofSession finds the words of servers that do not know a session.
var ofSession = regex.Lazy(`(?i)(?:invalid|unknown|missing|expired|stale|bad|no|no such|no valid|not in a|without a)(?: (?:or|and) \w+)?(?: valid| active| mcp)*[ -]session|` +
	`session(?:[ -_]?ids?)?(?: [^ .,;:]{1,80})?(?: is| was| has| header)*:? (?:not found|not known|not exist|not valid|does not exist|invalid|expired|unknown|terminated|missing|required|not initiali[sz]ed)|` +
	`this session (?:is over|has ended)|not initiali[sz]ed|uninitiali[sz]ed`)

// endsSession reports whether a refusal says that the server does not know the request's session.
// The protocol has 404 for that. Some servers send 400, 401 or 410, and say it in words. An answer to
// the request itself was given by the server behind the session: it ends the session only if it says so.
func endsSession(resp *http.Response, call *jsonrpc.Request) bool {
	switch resp.StatusCode {
	case http.StatusNotFound, http.StatusBadRequest, http.StatusGone:
	case http.StatusUnauthorized:
		if resp.Header.Get("WWW-Authenticate") != "" {
			return false // a login is wanted
		}
	default:
		return false
	}
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	resp.Body = &rest{io.MultiReader(bytes.NewReader(head), resp.Body), resp.Body}
	var said struct {
		ID    any `json:"id"`
		Error struct {
			Code int `json:"code"`
		} `json:"error"`
	}
	if err == nil && json.Unmarshal(head, &said) == nil && said.Error.Code == jsonrpc.CodeMethodNotFound {
		return false
	}
	if answered := call != nil && said.ID != nil && fmt.Sprint(said.ID) == fmt.Sprint(call.ID.Raw()); answered {
		return ofSession.Match(head)
	}
	return resp.StatusCode == http.StatusNotFound || ofSession.Match(head)
}

// refusesForNow reports whether the SDK drops all that a refusal with this status says.
func refusesForNow(status int) bool {
	switch status {
	case http.StatusInternalServerError, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout, http.StatusTooManyRequests:
		return true
	}
	return false
}

// refused makes an answer of a refusal: with the error in its body, or with its first words.
func (w *web) refused(resp *http.Response, call *jsonrpc.Request) *http.Response {
	head, err := io.ReadAll(io.LimitReader(resp.Body, maxRefusal))
	_ = resp.Body.Close() // the rest is not needed
	status := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", resp.StatusCode, http.StatusText(resp.StatusCode)))
	if after := resp.Header.Get("Retry-After"); after != "" {
		if _, err := strconv.Atoi(after); err == nil {
			after += " s"
		}
		status += ", try again after " + clip.Text(after, 40)
	}
	said := &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: status}
	var body struct {
		Error *jsonrpc.Error `json:"error"`
	}
	if err == nil && json.Unmarshal(head, &body) == nil && body.Error != nil {
		said = body.Error
		said.Message = clip.Text(said.Message, 400) + " (" + status + ")"
	} else if text := strings.TrimSpace(strings.ToValidUTF8(string(head), "\uFFFD")); text != "" {
		said.Message += ": " + clip.Text(text, 300)
	}
	w.waiting.take(&jsonrpc.Response{ID: call.ID})
	out, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: call.ID, Error: said})
	if err != nil { // data that is not JSON
		out, _ = jsonrpc.EncodeMessage(&jsonrpc.Response{ID: call.ID, Error: &jsonrpc.Error{Code: said.Code, Message: said.Message}})
	}
	resp.StatusCode, resp.Status = http.StatusOK, "200 OK"
	resp.Header.Set("Content-Type", "application/json")
	resp.Header.Del("Content-Length")
	resp.ContentLength, resp.Body = int64(len(out)), io.NopCloser(bytes.NewReader(out))
	return resp
}

// rest is a body whose beginning was read.
type rest struct {
	io.Reader
	io.Closer
}

// mended is the body of an answer as an event stream that the SDK can read.
type mended struct {
	body    io.ReadCloser
	in      *eventstream.Reader
	waiting *pending
	call    *jsonrpc.Request // the request that the body answers; nil: none
	begun   bool
	ready   []byte
	err     error
}

func (m *mended) Close() error { return m.body.Close() }

// Read implements io.Reader.
func (m *mended) Read(b []byte) (int, error) {
	for len(m.ready) == 0 {
		if m.err != nil {
			return 0, m.err
		}
		m.next()
	}
	n := copy(b, m.ready)
	m.ready = m.ready[n:]
	return n, nil
}

// next makes the next event ready.
func (m *mended) next() {
	if !m.begun {
		m.begun = true
		c, err := m.in.Opening()
		if err != nil {
			m.err = err
			return
		}
		if c == '{' || c == '[' {
			m.document()
			return
		}
	}
	e, err := m.in.Next()
	if errors.Is(err, eventstream.ErrTooLong) {
		m.fail(errTooLong)
		return
	}
	if err != nil {
		m.err = err
		return
	}
	if e.Unfinished && !json.Valid(e.Data) {
		return
	}
	if e.ID != "" {
		m.ready = append(m.ready, "id: "+e.ID+"\n"...)
	}
	if e.Retry != "" {
		m.ready = append(m.ready, "retry: "+e.Retry+"\n"...)
	}
	if len(e.Data) > 0 && (e.Name == "" || e.Name == "message") && isMessage(e.Data) {
		m.messages(e.Data)
	}
	if len(m.ready) > 0 {
		m.ready = append(m.ready, '\n')
	}
}

// document makes a body that is JSON ready.
func (m *mended) document() {
	raw, err := io.ReadAll(io.LimitReader(m.in.Rest(), MaxMessage+1))
	raw = bytes.TrimPrefix(bytes.TrimSpace(raw), []byte("\xef\xbb\xbf"))
	switch {
	case err != nil:
		m.err = err
	case len(raw) > MaxMessage:
		m.fail(errTooLong)
	case !isMessage(raw):
		m.fail(fault.New(fault.ToolFailed, "its answer is not a message: %s", quoted(string(raw), 200)))
	default:
		m.messages(raw)
		m.ready, m.err = append(m.ready, '\n'), io.EOF
	}
}

// fail answers the request with an error, and ends the body.
func (m *mended) fail(why *fault.Error) {
	m.err = why
	if m.call == nil {
		return
	}
	out, err := jsonrpc.EncodeMessage(&jsonrpc.Response{ID: m.call.ID, Error: &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: fault.Message(why)}})
	if err == nil {
		m.ready = append(append(append(m.ready, "data: "...), out...), "\n\n"...)
	}
}

// messages makes a message ready, or a list of them.
func (m *mended) messages(raw []byte) {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil {
		list = []json.RawMessage{raw}
	}
	for i, one := range list {
		if i > 0 {
			m.ready = append(m.ready, '\n')
		}
		if msg, err := jsonrpc.DecodeMessage(one); err == nil {
			if r, ok := msg.(*jsonrpc.Response); ok {
				if method, ok := m.waiting.take(r); ok {
					mend(r, method)
					if out, err := jsonrpc.EncodeMessage(r); err == nil {
						one = out
					}
				}
			}
		}
		var flat bytes.Buffer // an event's data ends with its line
		if json.Compact(&flat, one) == nil {
			one = flat.Bytes()
		}
		m.ready = append(append(append(m.ready, "data: "...), one...), '\n')
	}
}
