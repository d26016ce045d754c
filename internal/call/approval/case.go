package approval

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
)

// Case is a question as shown to the person at the terminal.
type Case struct {
	Question store.Approval
	Asked    runner.Question
	Body     Body
	Matches  []Past // the session's calls that the pattern matches
	Others   []Past // its calls of the same tool that the pattern does not match
	History  *History
}

// Body is what a question tells people. Texts that come from a caller are whole but for
// known values of secrets, and must be shown as untrusted. The pattern is as it is.
type Body struct {
	Tool      tool.ID         `json:"tool"`
	Step      string          `json:"step,omitempty"`
	Args      json.RawMessage `json:"args,omitempty"`
	Reason    string          `json:"reason"`
	Rule      string          `json:"rule,omitempty"`
	Where     string          `json:"where,omitempty"` // of the rule: its policy, file and line
	Risk      string          `json:"risk"`
	Effects   []string        `json:"effects,omitempty"`
	Touches   []string        `json:"touches,omitempty"`
	Holder    string          `json:"holder"`
	Workspace string          `json:"workspace"`
	Pattern   *Pattern        `json:"pattern,omitempty"`   // the calls that an approval for the session would cover; nil: it cannot be given
	Within    bool            `json:"within,omitempty"`    // the call was running, and needed one more action
	Requested bool            `json:"requested,omitempty"` // ahead of the call, which is not made yet
	Wanted    string          `json:"wanted,omitempty"`    // the caller's reason for the request: untrusted
	Edits     []Edit          `json:"edits,omitempty"`     // proposed changes of policies, which deny the call; approving it means to apply them
}

// Past is a call that was made.
type Past struct {
	Index   int
	Spec    *tool.Spec
	Digest  tool.Digest
	Args    tool.Args
	Actions []tool.Action
}

func (d *Desk) caseOf(ctx context.Context, q runner.Question, filed store.Approval, session bool) (Case, error) {
	c := Case{Question: filed, Asked: q, Body: d.body(q, session)}
	if d.History != nil {
		h, err := d.History(ctx, filed, c.Body)
		if err != nil {
			return c, err
		}
		c.History = &h
	}
	p := c.Body.Pattern
	if p == nil || d.Past == nil {
		return c, nil
	}
	past, err := d.Past(ctx, q.Run)
	for _, call := range past {
		switch {
		case p.Matches(call.Spec.ID, call.Digest, call.Args, call.Actions):
			c.Matches = append(c.Matches, call)
		case call.Spec.ID == q.Spec.ID:
			c.Others = append(c.Others, call)
		}
	}
	return c, err
}

// body describes a question.
func (d *Desk) body(q runner.Question, session bool) Body {
	red := d.Redact.Known()
	b := Body{
		Tool: q.Spec.ID, Step: q.Call.Step, Reason: red.Text(q.Decision.Reason), Rule: q.Decision.Rule.String(), Where: placeOf(q.Decision.Rule), Risk: q.Spec.Risk.String(),
		Holder: q.Run.Grant.Holder(), Workspace: q.Run.Env.Workspace, Within: q.Within,
	}
	if args, err := canon.Marshal(map[string]any(q.Call.Args)); err == nil {
		b.Args = red.JSON(args)
	}
	if b.Requested = q.Ahead; q.Ahead {
		b.Wanted = red.Text(q.Reason)
	}
	for _, e := range q.Spec.Effects.List() {
		b.Effects = append(b.Effects, e.String())
	}
	for _, a := range q.Actions {
		text := a.String()
		if a.Real != "" && a.Real != a.Path {
			text += " (through a link: " + a.Real + ")"
		}
		b.Touches = append(b.Touches, red.Text(text))
		for _, c := range a.Contents {
			if strings.Contains(c.State, ":") {
				b.Touches = append(b.Touches, red.Text(fmt.Sprintf("content of %q as it is now, %s", c.Path, c.State)))
			}
		}
	}
	if session {
		p, ok := Propose(q.Spec.ID, q.Digest, q.Call.Args, q.Actions)
		if q.Decision.Endorses() {
			p, ok = endorsement(q), true
		}
		if c, within := connection(q); within {
			p, ok = c, true
		}
		if text, err := json.Marshal(p); ok && err == nil && red.Text(string(text)) == string(text) { // a pattern is shown as it is
			b.Pattern = &p
		}
	}
	return b
}

// placeOf says where a rule is written, as "docs, policy.yaml:7"; "" for none.
func placeOf(r *policy.Rule) string {
	if r == nil {
		return ""
	}
	at := path.Base(filepath.ToSlash(r.File))
	switch {
	case r.File == "":
		return r.Policy
	case r.Line > 0:
		at += ":" + strconv.Itoa(r.Line)
	}
	if r.Policy == "" {
		return at
	}
	return r.Policy + ", " + at
}
