package mcp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// isMessage reports whether JSON has the form of a message, or of a list of messages. Other JSON is
// noise, as the lines that programs log.
func isMessage(raw []byte) bool {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) == nil {
		return len(list) > 0 && isMessage(list[0])
	}
	var m struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Result  json.RawMessage `json:"result"`
		Error   json.RawMessage `json:"error"`
	}
	if json.Unmarshal(raw, &m) != nil {
		return false
	}
	return m.JSONRPC != nil || m.ID != nil && (m.Method != nil || m.Result != nil || m.Error != nil)
}

// pending is the requests to a server that have no answer yet. Its zero value is ready to use.
type pending struct {
	mu      sync.Mutex
	methods map[jsonrpc.ID]string
}

// add notes a request. It returns false if too many wait for an answer.
func (p *pending) add(r *jsonrpc.Request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.methods) >= maxWait {
		return false
	}
	if p.methods == nil {
		p.methods = map[jsonrpc.ID]string{}
	}
	p.methods[r.ID] = r.Method
	return true
}

// addLatest notes a request, and forgets others where too many wait.
func (p *pending) addLatest(r *jsonrpc.Request) {
	if !p.add(r) {
		p.mu.Lock()
		clear(p.methods)
		p.mu.Unlock()
		p.add(r)
	}
}

// take returns the method of the request that an answer is for, and forgets the request. The answer
// gets the ID of its request: some servers answer to 7 with "7".
func (p *pending) take(r *jsonrpc.Response) (method string, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if method, ok = p.methods[r.ID]; !ok {
		text, isText := r.ID.Raw().(string)
		n, err := strconv.ParseInt(text, 10, 32)
		if !isText || err != nil || strconv.FormatInt(n, 10) != text {
			return "", false
		}
		id, err := jsonrpc.MakeID(float64(n))
		if err != nil {
			return "", false
		}
		if method, ok = p.methods[id]; !ok {
			return "", false
		}
		r.ID = id
	}
	delete(p.methods, r.ID)
	return method, true
}

// The types of results that the SDK reads. Most results name none.
const (
	complete      = "complete"
	inputRequired = "input_required"
)

// mend makes an answer readable for the SDK. A result of an unknown type, such as a task, becomes an
// error: the SDK would take it for an empty result. A content block that the SDK cannot read becomes
// a text that names it: the SDK would refuse the whole answer.
func mend(r *jsonrpc.Response, method string) {
	if r.Error != nil || len(r.Result) == 0 {
		return
	}
	var head struct {
		Type       json.RawMessage `json:"resultType"`
		Task       json.RawMessage `json:"task"`
		Content    json.RawMessage `json:"content"`
		Structured json.RawMessage `json:"structuredContent"`
		Messages   json.RawMessage `json:"messages"`
	}
	if json.Unmarshal(r.Result, &head) != nil {
		return // the SDK refuses it
	}
	if kind := unknownType(head.Type); kind != "" {
		r.Result, r.Error = nil, unsupported(fmt.Sprintf("the server answered with a result of the type %.60q, which is not supported", kind))
		return
	}
	switch method {
	case "tools/call":
		content := has(head.Content) && !isEmptyList(head.Content)
		if beginsTask(head.Task, content || has(head.Structured)) {
			r.Result, r.Error = nil, unsupported("the server answered with a task, which is not supported: the call may still run there")
			return
		}
		mendCall(r, content, has(head.Structured))
	case "prompts/get":
		if has(head.Messages) && json.Unmarshal(r.Result, new(sdk.GetPromptResult)) != nil {
			replace(r, "messages", mendMessages(head.Messages))
		}
	}
}

func unsupported(text string) error {
	return &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: text}
}

// has reports whether a member is there, and not null.
func has(raw json.RawMessage) bool { return len(raw) > 0 && string(raw) != "null" }

// unknownType returns the type of a result if it is not a known one, else "".
func unknownType(raw json.RawMessage) string {
	var kind string
	if !has(raw) {
		return ""
	}
	if json.Unmarshal(raw, &kind) != nil {
		return string(raw)
	}
	if kind == complete || kind == inputRequired {
		return ""
	}
	return kind
}

// isEmptyList reports whether JSON is a list without elements.
func isEmptyList(raw json.RawMessage) bool {
	var list []json.RawMessage
	return json.Unmarshal(raw, &list) == nil && len(list) == 0
}

// beginsTask reports whether the member "task" of a result is a task whose result is still to come,
// or is somewhere else.
func beginsTask(raw json.RawMessage, answered bool) bool {
	var t struct {
		ID     json.RawMessage `json:"taskId"`
		Status any             `json:"status"`
	}
	return has(raw) && json.Unmarshal(raw, &t) == nil && has(t.ID) && (!answered || t.Status != "completed")
}

// mendCall mends the result of a tool call. Members of an unknown kind become content if the result
// has nothing else.
func mendCall(r *jsonrpc.Response, content, structured bool) {
	var all map[string]json.RawMessage
	if content {
		if json.Unmarshal(r.Result, new(sdk.CallToolResult)) == nil || json.Unmarshal(r.Result, &all) != nil {
			return
		}
		replace(r, "content", mendBlocks(all["content"]))
		return
	}
	if structured || json.Unmarshal(r.Result, &all) != nil {
		return
	}
	for _, known := range []string{"_meta", "content", "structuredContent", "isError", "resultType", "inputRequests", "requestState"} {
		if known == "inputRequests" && has(all[known]) {
			return
		}
		delete(all, known)
	}
	if len(all) == 0 {
		return
	}
	if raw, err := json.Marshal(all); err == nil {
		replace(r, "content", []json.RawMessage{named("a result without content", raw)})
	}
}

// replace sets one member of a result.
func replace(r *jsonrpc.Response, member string, v any) {
	var all map[string]json.RawMessage
	raw, err := json.Marshal(v)
	if err != nil || json.Unmarshal(r.Result, &all) != nil {
		return
	}
	all[member] = raw
	if raw, err = json.Marshal(all); err == nil {
		r.Result = raw
	}
}

// mendBlocks makes a list of content readable, block by block.
func mendBlocks(raw json.RawMessage) []json.RawMessage {
	var blocks []json.RawMessage
	if json.Unmarshal(raw, &blocks) != nil {
		blocks = []json.RawMessage{raw} // one block, without its list
	}
	for i, b := range blocks {
		blocks[i] = mendBlock(b)
	}
	return blocks
}

// mendBlock returns a block that the SDK can read: the block itself, or a text that names it.
func mendBlock(raw json.RawMessage) json.RawMessage {
	probe, err := json.Marshal(map[string][]json.RawMessage{"content": {raw}})
	if err == nil && json.Unmarshal(probe, new(sdk.CallToolResult)) == nil {
		return raw
	}
	var text string
	if json.Unmarshal(raw, &text) == nil && has(raw) {
		return textBlock(text)
	}
	var b struct {
		Type any `json:"type"`
	}
	if json.Unmarshal(raw, &b) != nil || b.Type == nil {
		return named("content without a kind", raw)
	}
	return named(fmt.Sprintf("content of the kind %.60q", fmt.Sprint(b.Type)), raw)
}

// mendMessages makes the content of a prompt's messages readable.
func mendMessages(raw json.RawMessage) []map[string]json.RawMessage {
	var messages []map[string]json.RawMessage
	if json.Unmarshal(raw, &messages) != nil {
		return nil
	}
	for _, m := range messages {
		if c, ok := m["content"]; ok {
			probe, err := json.Marshal(map[string]json.RawMessage{"role": json.RawMessage(`"user"`), "content": c})
			if err != nil || json.Unmarshal(probe, new(sdk.PromptMessage)) != nil {
				m["content"] = mendBlock(c)
			}
		}
	}
	return messages
}

// maxShown is how many bytes of content that cannot be read are shown as they are.
const maxShown = 4 << 10

// named returns a text block in place of content that cannot be read: with all of it, or with its
// size.
func named(what string, raw json.RawMessage) json.RawMessage {
	if len(raw) > maxShown {
		return textBlock(fmt.Sprintf("(left out: %s, %d bytes, which cannot be read here)", what, len(raw)))
	}
	return textBlock(fmt.Sprintf("(%s, which cannot be read here: %s)", what, raw))
}

func textBlock(s string) json.RawMessage {
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	if enc.Encode(map[string]string{"type": "text", "text": strings.ToValidUTF8(s, "\uFFFD")}) != nil {
		return json.RawMessage(`{"type":"text","text":""}`) // cannot happen: these are strings
	}
	return bytes.TrimSpace(out.Bytes())
}
