// Package request holds the built-in tool authority.request, with which a caller requests
// authority from a person. Start at [Tools].
package request

import (
	"context"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/tools/typed"
)

// Tools returns the tools of this package.
func Tools() []permit.Tool {
	return []permit.Tool{typed.Func(tool.Spec{
		ID: tool.AuthorityRequest, Title: "Request authority", Version: "1", Source: "builtin", Risk: tool.Low,
		Description: "Requests authority from a person, with a reason, before it is needed: for one call (tool and args), or for operations. " +
			"A call that needs approval is put to a person; once it is approved, make exactly that call. " +
			"What the policy denies cannot be approved: it becomes a proposed change of the policy, which counts for later runs at the earliest. " +
			"It makes no call and changes nothing itself.",
		Input: typed.Object(`"tool":{"type":"string","minLength":1,"maxLength":200,"description":"The tool of the wanted call, by its ID or as it is offered to you."},
			"args":{"type":"object","description":"The arguments of the wanted call, all of them, as you will make it."},
			"operations":{"type":"array","minItems":1,"maxItems":20,"items":{"type":"string","minLength":3,"maxLength":2000},
				"description":"In place of a call, what it is about: files.write out/a.txt, network GET https://host/path, commands git push."},
			"reason":{"type":"string","minLength":1,"maxLength":2000,"description":"Why you need it. The person who decides reads it."}`, "reason"),
		Output: typed.Object(`"status":{"enum":["allowed","asks","approved","approved_for_session","refused","proposed"],"description":"What became of the request."},
			"message":{"type":"string","description":"What the status means for you."},
			"by":{"type":"string","description":"Who answered."},
			"reason":{"type":"string","description":"Why: the person's words, or the policy's."},
			"question":{"type":"string","description":"ID of the proposed change."},
			"until":{"type":"string","description":"When the proposed change lapses, RFC 3339."}`, "status", "message"),
	}, request)}
}

type arguments struct {
	Tool       *string        `json:"tool"`
	Args       map[string]any `json:"args"`
	Operations []string       `json:"operations"`
	Reason     string         `json:"reason"`
}

// messages explain each status to the caller.
var messages = map[permit.ReplyStatus]string{
	permit.ReplyAllowed:  "the policy allows it: nobody needs to be asked",
	permit.ReplyAsks:     "the policy asks a person about each of these: request the call itself, or make it",
	permit.ReplyOnce:     "approved for one call: make exactly the requested call now",
	permit.ReplySession:  "approved for this call and for calls like it in this run",
	permit.ReplyRefused:  "refused: do not make the call, and do not request it again without a new reason",
	permit.ReplyProposed: "the policy denies it, and no approval can change that; a change of the policy was proposed to a person. It counts for later runs at the earliest: go on without it",
}

func request(ctx context.Context, p permit.Permit, a arguments) (map[string]any, error) {
	w := permit.Wanted{Args: a.Args, Operations: a.Operations, Reason: a.Reason}
	switch {
	case strings.TrimSpace(a.Reason) == "":
		return nil, fault.New(fault.ArgsInvalid, "the reason is empty").In("reason")
	case (a.Tool == nil) == (len(a.Operations) == 0) || a.Tool == nil && a.Args != nil:
		return nil, fault.New(fault.ArgsInvalid, "a request is for one call (tool and args) or for operations, not for both").In("tool")
	case a.Tool != nil:
		w.Tool = tool.ID(*a.Tool)
		if w.Args == nil {
			w.Args = tool.Args{}
		}
	}
	ask := p.Requester()
	if ask == nil {
		return nil, fault.New(fault.NeedsApproval, "no authority can be requested here")
	}
	r, err := ask(ctx, w)
	if err != nil {
		return nil, err
	}
	out := map[string]any{"status": string(r.Status), "message": messages[r.Status]}
	for key, v := range map[string]string{"by": r.By, "reason": r.Reason, "question": r.Question} {
		if v != "" {
			out[key] = v
		}
	}
	if !r.Until.IsZero() {
		out["until"] = r.Until.UTC().Format(time.RFC3339)
	}
	return out, nil
}
