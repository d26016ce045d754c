package gateway

import (
	"crypto/sha256"
	"encoding/json"
	"net/http"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
)

// maxMade is how many of the newest calls of a session are known, to find repeated messages.
const maxMade = 4096

// made has the calls that a session made at this node. The zero value has none. client.mu guards it.
type made struct {
	all   map[[sha256.Size]byte]bool
	order [][sha256.Size]byte // oldest first
}

// isNew reports whether a message was not there before, and adds it.
func (m *made) isNew(message []byte) bool {
	sum := sha256.Sum256(message)
	if m.all[sum] {
		return false
	}
	if m.all == nil {
		m.all = map[[sha256.Size]byte]bool{}
	}
	if len(m.order) == maxMade {
		delete(m.all, m.order[0])
		m.order = m.order[1:]
	}
	m.all[sum], m.order = true, append(m.order, sum)
	return true
}

// refusedAgain refuses a tools/call that the session has sent before, with the same ID: a client
// that lost the answer sends it again, and the call may have had effects. The protocol forbids that
// an ID is used twice in a session.
func (c *client) refusedAgain(rw http.ResponseWriter, r *http.Request) bool {
	if !c.sessions || r.Method != http.MethodPost {
		return false
	}
	body, err := readBody(r)
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if err != nil || json.Unmarshal(body, &m) != nil || m.Method != "tools/call" || len(m.ID) == 0 {
		return false // the client's server answers what cannot be read
	}
	c.mu.Lock()
	fresh := c.made.isNew(body)
	c.mu.Unlock()
	if fresh {
		return false
	}
	run := c.conn.session.ID().String()
	b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": m.ID, "error": map[string]any{
		"code":    jsonrpc.CodeInvalidRequest,
		"message": "this session has sent a call with this ID before, and it is not made again; look at run " + run + ", and send a new call with a new ID",
		"data":    map[string]any{"run": run, "outcome": "unknown"},
	}})
	if err != nil {
		return false
	}
	rw.Header().Set("Content-Type", "application/json")
	_, _ = rw.Write(b) // the client may have gone
	return true
}
