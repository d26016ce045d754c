package gateway

import (
	"bytes"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// The SDK ends a connection at the first line that it cannot read, and reads IDs as float64. lines
// gives it only valid messages: it answers other lines itself, as JSON-RPC says. An ID that would
// change has a name in its place, and answers writes the ID again.

// lines is a client's standard input.
type lines struct {
	io.ReadCloser
	out *answers

	ready   []byte // messages that were not read yet
	line    []byte // the line so far
	block   []byte // lines since one that only opens a message
	skips   bool   // the rest of a line that is too long is skipped
	batches bool   // the revision has lists of messages
	err     error  // the end of the input
}

// answers is a client's standard output.
type answers struct {
	io.WriteCloser
	mu   sync.Mutex
	tag  string // begins the names of IDs; unguessable
	used atomic.Bool
}

// maxEarly is the longest message that is read before the end of its line, in bytes.
const maxEarly = 1 << 20

func newLines(in io.ReadCloser, out io.WriteCloser) (*lines, *answers) {
	a := &answers{WriteCloser: out, tag: "remit-" + rand.Text() + ":"}
	return &lines{ReadCloser: in, out: a, batches: true}, a
}

// Read implements io.Reader.
func (l *lines) Read(b []byte) (int, error) {
	for len(l.ready) == 0 {
		if l.err != nil {
			return 0, l.err
		}
		n, err := l.ReadCloser.Read(b)
		l.take(b[:n])
		if err != nil {
			l.err = err
			l.sort(l.line)
			l.dropBlock()
		}
	}
	n := copy(b, l.ready)
	l.ready = l.ready[n:]
	return n, nil
}

// take takes a piece of the input.
func (l *lines) take(b []byte) {
	for {
		part, rest, ends := bytes.Cut(b, []byte("\n"))
		if !l.skips {
			l.line = append(l.line, part...)
		}
		if len(l.line) > maxMessage {
			l.refuse(jsonrpc.CodeInvalidRequest, "a message has at most "+strconv.Itoa(maxMessage)+" bytes")
			l.line, l.skips = nil, true
		}
		if !ends {
			if len(l.line) <= maxEarly && bytes.HasSuffix(l.line, []byte("}")) && l.block == nil && json.Valid(l.line) {
				l.sort(l.line)
				l.line = l.line[:0]
			}
			return
		}
		if !l.skips {
			l.sort(l.line)
		}
		if l.line, l.skips = l.line[:0], false; cap(l.line) > maxEarly {
			l.line = nil
		}
		b = rest
	}
}

// sort passes the messages of a line on, or answers it. A message may be written over several lines,
// of which the first only opens it.
func (l *lines) sort(line []byte) {
	line = bytes.TrimSpace(bytes.TrimPrefix(bytes.TrimSpace(line), []byte("\xef\xbb\xbf")))
	switch {
	case len(line) == 0:
	case l.block != nil && (!json.Valid(line) || !bytes.Contains(line, []byte(`"jsonrpc"`)) || continues(l.block, line)):
		l.block = append(append(l.block, line...), '\n')
		if whole := json.Valid(l.block); whole || len(l.block) > maxEarly {
			line, l.block = l.block, nil
			l.pass(line)
		}
	case string(line) == "{" || string(line) == "[":
		l.dropBlock()
		l.block = append(bytes.Clone(line), '\n')
	default:
		l.dropBlock()
		l.pass(line)
	}
}

// continues reports whether a line can be the next one of a message.
func continues(block, line []byte) bool {
	d := json.NewDecoder(io.MultiReader(bytes.NewReader(block), bytes.NewReader(line)))
	for {
		if _, err := d.Token(); err != nil {
			return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
		}
	}
}

// dropBlock answers lines that opened a message and did not become one.
func (l *lines) dropBlock() {
	if l.block != nil {
		l.block = nil
		l.refuse(jsonrpc.CodeParseError, "the line is not valid JSON")
	}
}

// pass passes on the messages of one JSON text, and answers its other parts.
func (l *lines) pass(text []byte) {
	if !json.Valid(text) {
		l.refuse(jsonrpc.CodeParseError, "the line is not valid JSON")
		return
	}
	var list []json.RawMessage
	if json.Unmarshal(text, &list) != nil || list == nil {
		if m, _ := l.message(text); m != nil {
			l.add(m)
		}
		return
	}
	if len(list) == 0 || !l.batches {
		l.refuse(jsonrpc.CodeInvalidRequest, "a list of messages is empty, or not known to this revision of the protocol")
		return
	}
	var calls []json.RawMessage
	seen := map[string]bool{}
	for _, one := range list {
		m, id := l.message(one)
		switch {
		case m == nil:
		case id == "":
			l.add(m)
		case seen[id]:
			l.refuse(jsonrpc.CodeInvalidRequest, "two requests of a list have the same ID")
		default:
			seen[id] = true
			calls = append(calls, m)
		}
	}
	if b, err := json.Marshal(calls); err == nil && len(calls) > 0 {
		l.add(b)
	}
}

// add makes a message ready, without line ends within it.
func (l *lines) add(m []byte) {
	var flat bytes.Buffer
	if bytes.ContainsAny(m, "\r\n") && json.Compact(&flat, m) == nil {
		m = flat.Bytes()
	}
	l.ready = append(append(l.ready, m...), '\n')
}

// message returns a message as the SDK can read it, with the ID of a request; nil: it was answered.
func (l *lines) message(raw json.RawMessage) (m json.RawMessage, id string) {
	var head struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	msg, err := jsonrpc.DecodeMessage(raw)
	if err != nil || json.Unmarshal(raw, &head) != nil || head.Method == nil && head.Result == nil && head.Error == nil {
		l.refuse(jsonrpc.CodeInvalidRequest, "expected a message of JSON-RPC 2.0")
		return nil, ""
	}
	r, ok := msg.(*jsonrpc.Request)
	if !ok {
		return raw, ""
	}
	switch r.Method {
	case "initialize":
		var p struct {
			Version string `json:"protocolVersion"`
		}
		_ = json.Unmarshal(head.Params, &p) // the SDK refuses it
		l.batches = p.Version < structuredObjects && slices.Contains(mcp.SupportedProtocolVersions(), p.Version)
	case "notifications/cancelled":
		var p struct {
			ID json.RawMessage `json:"requestId"`
		}
		if json.Unmarshal(head.Params, &p) == nil && changes(p.ID) {
			params := set(head.Params, "requestId", l.out.name(p.ID))
			return set(raw, "params", params), ""
		}
	}
	if !r.IsCall() {
		return raw, ""
	}
	if changes(head.ID) {
		raw = set(raw, "id", l.out.name(head.ID))
	}
	return raw, sameID(head.ID)
}

// sameID is equal for IDs that the SDK takes for the same one.
func sameID(id json.RawMessage) string {
	var text string
	if json.Unmarshal(id, &text) != nil {
		return string(id) // a number
	}
	return strconv.Quote(text)
}

// changes reports whether an ID is a number that the SDK would write in another form.
func changes(id json.RawMessage) bool {
	if len(id) == 0 || id[0] != '-' && (id[0] < '0' || id[0] > '9') {
		return false
	}
	n, err := strconv.ParseInt(string(id), 10, 64)
	return err != nil || n > 1<<53 || n < -1<<53 || strconv.FormatInt(n, 10) != string(id)
}

// set returns a JSON object with another value of a member.
func set(object json.RawMessage, member string, v json.RawMessage) json.RawMessage {
	var all map[string]json.RawMessage
	if json.Unmarshal(object, &all) != nil {
		return object
	}
	all[member] = v
	out, err := json.Marshal(all)
	if err != nil {
		return object
	}
	return out
}

// name is a text that stands for an ID until it is written.
func (a *answers) name(id json.RawMessage) json.RawMessage {
	a.used.Store(true)
	return json.RawMessage(`"` + a.tag + string(id) + `"`)
}

// refuse answers a line that is not a message.
func (l *lines) refuse(code int, why string) {
	text := `{"jsonrpc":"2.0","id":null,"error":{"code":` + strconv.Itoa(code) + `,"message":` + strconv.Quote(why) + "}}\n"
	l.out.mu.Lock()
	defer l.out.mu.Unlock()
	_, _ = io.WriteString(l.out.WriteCloser, text) // a client that has gone needs no answer
}

// Write writes a whole message, with IDs as they were sent.
func (a *answers) Write(b []byte) (int, error) {
	out := b
	if mark := []byte(`"id":"` + a.tag); a.used.Load() && bytes.Contains(b, mark) {
		var s strings.Builder
		for rest := b; ; {
			head, tail, found := bytes.Cut(rest, mark)
			s.Write(head)
			if !found {
				break
			}
			id, after, _ := bytes.Cut(tail, []byte(`"`))
			s.WriteString(`"id":` + string(id))
			rest = after
		}
		out = []byte(s.String())
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, err := a.WriteCloser.Write(out); err != nil {
		return 0, err
	}
	return len(b), nil
}
