package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/catalog"
	"github.com/remitrun/remit/internal/record/store"
)

// Tools lists and calls the tools of the catalog.
type Tools interface {
	Tools(ctx context.Context, q ToolQuery) (ToolList, error)
	Tool(ctx context.Context, id string) (catalog.Described, error) // fault.ToolUnknown
	// Invoke makes a call under the caller's grant, in a run of its own or in an open one. An
	// error means that the tool was not called.
	Invoke(ctx context.Context, who *Caller, id string, args map[string]any, mode CallMode) (Invocation, error)
	// Change shows a person how a tool changed since it was accepted: fault.ToolUnknown.
	Change(ctx context.Context, person, id string) (ToolChange, error)
	// Accept accepts the version of a changed tool that has the digest and was shown to the
	// person: fault.Conflict for any other.
	Accept(ctx context.Context, person, id, digest string) (ToolChange, error)
}

// ToolQuery selects tools.
type ToolQuery struct {
	Source  string   `query:"source" maxLength:"200" doc:"A source's name, as mcp:github, or kind, as mcp or builtin"`
	MaxRisk string   `query:"max_risk" enum:"low,medium,high,critical" doc:"Maximum risk"`
	Without []string `query:"without,explode" maxItems:"20" doc:"Only tools without these side effects; repeated, or separated by commas" example:"fs.write,system.exec"`
	Enabled bool     `query:"enabled" doc:"Only tools that can be called"`
	Search  string   `query:"q" maxLength:"200" doc:"Words in the ID, title or description"`
	Schemas bool     `query:"schemas" doc:"Include the schemas"`
	Refresh bool     `query:"refresh" doc:"Ask every source again, except one that was asked within the last second"`
}

// ToolList has the selected tools, and the sources that failed.
type ToolList struct {
	Items   []catalog.Described `json:"items"`
	Total   int                 `json:"total"`
	Failing []FailingSource     `json:"failing,omitempty"`
}

// FailingSource is a source whose tools could not be listed.
type FailingSource struct {
	Source string `json:"source"`
	Error  string `json:"error"`
}

// Invocation is the result of a call.
type Invocation struct {
	Run      string          `json:"run_id"`
	Call     int             `json:"call"`
	Tool     string          `json:"tool"`
	Status   string          `json:"status" enum:"completed,failed,timeout,cancelled"`
	Output   json.RawMessage `json:"output,omitempty"`
	Rule     string          `json:"rule,omitempty" doc:"The policy's rule that allowed it"`
	Error    *agent.Problem  `json:"error,omitempty"`
	Duration float64         `json:"duration_ms"`
	At       time.Time       `json:"at"`
}

var exampleTool = map[string]any{"id": "time.now", "title": "Time", "description": "Tells the time.", "source": "builtin", "risk": "low", "effects": []any{}, "enabled": true, "digest": "sha256:…"}

func (s *Server) tools() {
	if s.o.Tools == nil {
		return
	}
	type list struct {
		asked
		ToolQuery
	}
	route(s, operation{
		id: "listTools", method: http.MethodGet, path: "/v1/tools", tag: "tools", action: "tools.read", summary: "List, filter and search tools",
		text: "By ID. Sources that fail are listed; they do not hide the tools of others.", answer: map[string]any{"items": []any{exampleTool}, "total": 1},
	}, func(ctx context.Context, in *list) (*struct{ Body ToolList }, error) {
		out, err := s.o.Tools.Tools(ctx, in.ToolQuery)
		return &struct{ Body ToolList }{out}, err
	})
	type one struct {
		asked
		ID string `path:"tool_id" maxLength:"300" example:"time.now"`
	}
	route(s, operation{
		id: "getTool", method: http.MethodGet, path: "/v1/tools/{tool_id}", tag: "tools", action: "tools.read", summary: "Get a tool",
		errors: []int{404}, answer: exampleTool,
	}, func(ctx context.Context, in *one) (*struct{ Body catalog.Described }, error) {
		t, err := s.o.Tools.Tool(ctx, in.ID)
		return &struct{ Body catalog.Described }{t}, err
	})
	s.invokeTool()
	s.toolChanges()
}

func (s *Server) invokeTool() {
	type invoke struct {
		asked
		ID   string `path:"tool_id" maxLength:"300" example:"time.now"`
		Body *struct {
			Args map[string]any `json:"args,omitempty" nullable:"false" doc:"As the tool's input_schema says"`
			Run  string         `json:"run_id,omitempty" maxLength:"100" doc:"An open run to which the call is added; missing: the call has a run of its own"`
			Wait int            `json:"wait,omitempty" minimum:"0" maximum:"600" doc:"Seconds to wait for a person's answer where the policy asks; then the call goes on"`
			CallMode
		} `nameHint:"ToolArgs"`
	}
	route(s, operation{
		id: "invokeTool", method: http.MethodPost, path: "/v1/tools/{tool_id}/invoke", tag: "tools", action: "tools.invoke", summary: "Call a tool",
		text: "One call in a run of its own, or in the open run of run_id, under the caller's grant: decided, recorded and confined as any other. A call that is refused is a problem; one that fails is an answer. " +
			"With wait, the response to a call that needs approval comes once a person has answered and the call has ended, or after that time: it is then E1002, with approval_id, and the question stays open. " +
			"The call is cancelled if the client leaves. With an Idempotency-Key it goes on: repeat the request to get the answer.",
		errors: []int{404, 409}, request: map[string]any{"args": map[string]any{}},
		answer:   map[string]any{"run_id": sampleSession, "call": 1, "tool": "time.now", "status": "completed", "output": map[string]any{}, "duration_ms": 1.2, "at": "2026-11-21T12:00:00Z"},
		makesRun: makesOwnRun, addsTo: openRunOf, recall: s.recallCall,
	}, func(ctx context.Context, in *invoke) (*struct{ Body Invocation }, error) {
		args, mode, err := map[string]any{}, CallMode{}, error(nil)
		if in.Body != nil {
			mode = in.Body.CallMode
			if in.Body.Args != nil {
				args = in.Body.Args
			}
			if in.Body.Wait > 0 {
				release, err := s.seat(ctx, in.who)
				if err != nil {
					return nil, err
				}
				defer release()
				mode.AnswerBy, mode.Pause = time.Now().Add(time.Duration(in.Body.Wait)*time.Second), s.pauses(in.x)
			}
			if in.Body.Run != "" {
				if mode.In, err = s.openFor(ctx, &in.asked, in.Body.Run, mode); err != nil {
					return nil, err
				}
			}
		}
		mode.Run = in.x.run
		ctx, stop := s.outlives(ctx, in.x)
		defer stop()
		out, err := s.o.Tools.Invoke(ctx, in.who, in.ID, args, mode)
		if mode.In != uuid.Nil {
			in.x.setLocation(mode.In, out.Call, err)
		}
		if err != nil {
			in.x.untouched = stoppedWaiting(err)
			return nil, err
		}
		return &struct{ Body Invocation }{out}, nil
	})
}

// pauses returns a function that frees a request's place until the one that it returns is called.
func (s *Server) pauses(x *exchange) func() func(context.Context) error {
	return func() func(context.Context) error {
		x.place.free()
		return func(ctx context.Context) error { return s.returnToPlace(ctx, x) }
	}
}

// stoppedWaiting reports whether the service stopped while the call waited for approval. The call was
// not made.
func stoppedWaiting(err error) bool {
	var p *Problem
	return errors.As(err, &p) && p.Code == fault.Interrupted.Error()
}

// setLocation sets Location to the call that was added to the open run.
func (x *exchange) setLocation(run uuid.UUID, call int, err error) {
	if p := (*Problem)(nil); errors.As(err, &p) {
		call = p.Call
	}
	if call > 0 {
		x.Header().Set("Location", store.RunPlace+run.String()+callsPlace+"/"+strconv.Itoa(call))
	}
}

// Refusal is the error of [Tools].Invoke for a call that was refused. The problem has the
// run's ID.
func Refusal(err error, run string, call int, rule, approval string) error {
	p := *problem(err)
	p.Run, p.Call, p.Rule, p.Approval = run, call, rule, approval
	if p.Code == fault.NeedsApproval.Error() && p.Hint == "" {
		p.Hint = "a person must answer first"
	}
	return &p
}
