package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/store"
)

// stateless is the first revision of the protocol in which servers send no questions. A
// call that needs an answer returns the question, and the client repeats the call with
// the answer.
const stateless = "2026-07-28"

func (r request) multiRound() bool { return r.ProtocolVersion() >= stateless }

// canElicit reports whether the client can show a form to its user.
func (r request) canElicit() bool {
	caps := r.ClientCapabilities()
	return caps != nil && caps.Elicitation != nil && (caps.Elicitation.Form != nil || caps.Elicitation.URL == nil)
}

// canAsk reports whether the client can answer questions of any kind.
func (r request) canAsk() bool {
	caps := r.ClientCapabilities()
	return caps != nil && (caps.Elicitation != nil || caps.Sampling != nil || caps.RootsV2 != nil)
}

// ask asks the person at the client a question of the policy. Questions for admins or for
// several people are left to remit approvals: an answer through the client deserves no
// more trust than the client.
func (c *conn) ask(ctx context.Context, q approval.Case) (store.Vote, error) {
	c.mu.Lock()
	k := c.calls[q.Asked.Call.Index]
	c.mu.Unlock()
	if k == nil || k.put == nil || !c.gateway.opts.Elicit || !k.canElicit() || q.Asked.Decision.Admin || q.Question.Needs > 1 {
		return store.Vote{}, approval.ErrNotHere
	}
	pages := pagesOf(q.Body)
	for page := 0; ; page++ {
		more := page+1 < len(pages)
		got, err := k.put(ctx, mcp.InputRequestMap{"approval": question(pages[page], more)})
		res, ok := got["approval"].(*mcp.ElicitResult)
		if err != nil || !ok {
			return store.Vote{}, approval.ErrNotHere // the client cannot ask, although it said so
		}
		if res.Action == "accept" && res.Content["answer"] == answerMore && more {
			continue
		}
		return c.vote(res, "MCP client"+k.clientName())
	}
}

// vote reads the answer of the person at the client.
func (c *conn) vote(res *mcp.ElicitResult, where string) (store.Vote, error) {
	v := store.Vote{By: c.gateway.opts.Person, Where: where}
	switch res.Action {
	case "accept":
		v.Yes = res.Content["answer"] == answerOnce
		v.Reason, _ = res.Content["reason"].(string)
	case "decline":
		v.Reason = "declined in the MCP client"
	default:
		return store.Vote{}, approval.ErrNotHere // the form was dismissed: others can still answer
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
	answerMore = "show more"
)

// answerForm is the schema of an answer. Its properties are flat, as MCP requires.
func answerForm(more bool) json.RawMessage {
	answers := `"` + answerOnce + `","` + answerNo + `"`
	if more {
		answers += `,"` + answerMore + `"`
	}
	return json.RawMessage(`{"type":"object","properties":{` +
		`"answer":{"type":"string","title":"Answer","description":"Allow exactly this call, once, or deny it","enum":[` + answers + `]},` +
		`"reason":{"type":"string","title":"Reason","description":"Why not; the caller is told","maxLength":500}},"required":["answer"]}`)
}

// Bounds of a form: the characters of a line of the short form, and the bytes of a page of
// the complete one.
const (
	shownMost = 1000
	pageMost  = 8000
)

// pagesOf writes an approval's question as a short form and, if that is incomplete, as
// further pages with all of it. Except for the policy's own text it comes from the caller,
// so it is quoted.
func pagesOf(body approval.Body) []string {
	var b strings.Builder
	tool := approval.Shorten(string(body.Tool), shownMost)
	fmt.Fprintf(&b, "Remit: %s needs approval (risk %s)\n", tool, approval.Shorten(body.Risk, shownMost))
	body.Pattern = nil // this answer is not offered
	lines, cut := body.Short(shownMost)
	for _, l := range lines {
		fmt.Fprintf(&b, "%s: %s\n", l.Label, l.Text)
	}
	if !cut {
		return []string{b.String()}
	}
	fmt.Fprintf(&b, "Not all of it is shown: %q shows the rest before you answer.\n", answerMore)
	pages := []string{b.String()}
	var page strings.Builder
	for line := range strings.Lines(body.Whole()) {
		if page.Len() > 0 && page.Len()+len(line) > pageMost {
			pages = append(pages, page.String())
			page.Reset()
		}
		page.WriteString(line)
	}
	pages = append(pages, page.String())
	for i := range pages[1:] {
		pages[i+1] = fmt.Sprintf("Remit: %s needs approval, part %d of %d\n%s", tool, i+1, len(pages)-1, pages[i+1])
	}
	return pages
}

func question(text string, more bool) *mcp.ElicitParams {
	return &mcp.ElicitParams{Mode: "form", Message: strings.TrimSuffix(text, "\n"), RequestedSchema: answerForm(more)}
}
