package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/approval"
	"github.com/remitrun/remit/internal/store"
)

// stateless is the first revision of the protocol in which a server does not ask
// by itself: a call that needs an answer comes back with the question, and the
// client makes it again with the answer.
const stateless = "2026-07-28"

func (r request) multiRound() bool { return r.ProtocolVersion() >= stateless }

// canElicit reports whether the client can show its person a form.
func (r request) canElicit() bool {
	caps := r.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// canAsk reports whether the client can be asked anything.
func (r request) canAsk() bool {
	caps := r.ClientCapabilities()
	return caps != nil && (caps.Elicitation != nil || caps.Sampling != nil || caps.RootsV2 != nil)
}

// ask puts a question of the policy to the person at the client. What needs an
// admin, or several people, is left to remit approvals: an answer that comes
// through the client is worth as much as the client.
func (c *conn) ask(ctx context.Context, q approval.Case) (store.Vote, error) {
	c.mu.Lock()
	k := c.calls[q.Asked.Call.Index]
	c.mu.Unlock()
	if k == nil || k.put == nil || !c.gateway.opts.Elicit || !k.canElicit() || q.Asked.Decision.Admin || q.Question.Needs > 1 {
		return store.Vote{}, approval.ErrNotHere
	}
	got, err := k.put(ctx, mcp.InputRequestMap{"approval": question(q)})
	res, ok := got["approval"].(*mcp.ElicitResult)
	if err != nil || !ok {
		return store.Vote{}, approval.ErrNotHere // the client could not, though it said so
	}
	v := store.Vote{By: c.gateway.opts.Person, Where: "MCP client" + k.clientName()}
	switch res.Action {
	case "accept":
		v.Yes = res.Content["answer"] == answerOnce
		v.Reason, _ = res.Content["reason"].(string)
	case "decline":
		v.Reason = "declined in the MCP client"
	default:
		return store.Vote{}, approval.ErrNotHere // dismissed: others can still answer
	}
	if r := []rune(v.Reason); len(r) > 500 {
		v.Reason = string(r[:500])
	}
	return v, nil
}

func (r request) clientName() string {
	if info := r.ClientInfo(); info != nil && info.Name != "" {
		return fmt.Sprintf(" %.60q", info.Name)
	}
	return ""
}

const (
	answerOnce = "allow once"
	answerNo   = "deny"
)

// answerForm is what is asked for. Its properties are flat, as MCP wants it.
var answerForm = json.RawMessage(`{"type":"object","properties":{` +
	`"answer":{"type":"string","title":"Answer","description":"Allow exactly this call, once, or deny it","enum":["` + answerOnce + `","` + answerNo + `"]},` +
	`"reason":{"type":"string","title":"Reason","description":"Why not; the caller is told","maxLength":500}},"required":["answer"]}`)

// question words an approval's question. All of it but the policy's own words
// comes from who asks, so it is quoted and cut.
func question(q approval.Case) *mcp.ElicitParams {
	var b strings.Builder
	line := func(label, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", label, shorten(text, 1000))
		}
	}
	fmt.Fprintf(&b, "Remit: %s wants approval (risk %s)\n", q.Body.Tool, q.Body.Risk)
	line("arguments", visible(string(q.Body.Args)))
	for i, t := range q.Body.Touches {
		if i == 20 {
			fmt.Fprintf(&b, "and %d more\n", len(q.Body.Touches)-i)
			break
		}
		line("touches", visible(t))
	}
	line("side effects", strings.Join(q.Body.Effects, " "))
	line("for", visible(q.Body.Holder))
	line("because", visible(q.Body.Reason))
	return &mcp.ElicitParams{Mode: "form", Message: strings.TrimSuffix(b.String(), "\n"), RequestedSchema: answerForm}
}

// visible shows control and formatting characters instead of obeying them.
func visible(s string) string {
	q := fmt.Sprintf("%+q", s)
	if plain := q[1 : len(q)-1]; plain == s {
		return s
	}
	return fmt.Sprintf("%q", s)
}

func shorten(s string, most int) string {
	r := []rune(s)
	if len(r) <= most {
		return s
	}
	return fmt.Sprintf("%s… (%d more characters)", string(r[:most]), len(r)-most)
}
