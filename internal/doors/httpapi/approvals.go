package httpapi

import (
	"context"
	"net/http"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/history"
)

// Approvals has the questions that people must answer.
type Approvals interface {
	Questions(ctx context.Context, waiting bool, before uint64, limit int) ([]store.Approval, error)
	Question(ctx context.Context, id string) (store.Approval, error) // fault.ApprovalGone
	// QuestionHistory counts only what the viewer sees.
	QuestionHistory(ctx context.Context, id string, v approval.Viewer) (approval.History, error)
	Answer(ctx context.Context, who *Caller, id string, a Answer) (store.Approval, error)
}

// Answer is an approval or a denial.
type Answer struct {
	Yes     bool
	Session bool // approve the question's pattern for the rest of its run
	Reason  string
	Digest  string // of the question that the person saw; "": not checked
}

// ApprovalList is a page of questions, newest first.
type ApprovalList struct {
	Items []store.Approval `json:"items"`
	Next  string           `json:"next,omitempty"`
}

var exampleApproval = map[string]any{"id": sampleSession, "state": "waiting", "run_id": sampleSession, "call": 2, "holder": "agent:docs", "asked_at": "2026-11-21T12:00:00Z",
	"until": "2026-11-21T12:15:00Z", "needs": 1, "votes": []any{}}

var exampleHistory = map[string]any{"tool": map[string]any{"asked": 12, "approved": 11, "refused": 1, "last": "2026-11-20T12:00:00Z"},
	"target": map[string]any{"asked": 2, "approved": 2, "refused": 0, "last": "2026-11-19T12:00:00Z"}, "since": "2026-08-23T12:00:00Z"}

// ApprovalPath has the ID of a question.
type ApprovalPath struct {
	ID string `path:"approval_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
}

// concerns reports whether a question is about a call that belongs to the caller, or is for the
// caller's role to answer.
func (s *Server) concerns(ctx context.Context, in *asked, q store.Approval) (bool, error) {
	switch {
	case in.who.Approves != nil && q.Person != in.who.Person && in.who.Approves(q.AskedAs):
		return true, nil
	case q.RunID == uuid.Nil:
		return s.reachesGrant(ctx, in, q.Grant.String())
	}
	return s.reachesRun(ctx, in, q.RunID.String())
}

// viewer bounds the records that a caller may see.
type viewer struct {
	s  *Server
	in *asked
}

// SeesQuestion implements approval.Viewer.
func (v viewer) SeesQuestion(ctx context.Context, q store.Approval) (bool, error) {
	return v.s.concerns(ctx, v.in, q)
}

// SeesRun implements approval.Viewer.
func (v viewer) SeesRun(ctx context.Context, run string) (bool, error) {
	if reads := v.in.who.May("runs.read") == nil; !reads {
		return false, nil
	}
	return v.s.reachesRun(ctx, v.in, run)
}

// question finds a question that the caller may see.
func (s *Server) question(ctx context.Context, in *asked, id string) (store.Approval, error) {
	return reachable(ctx, fault.ApprovalGone, "question", id, s.o.Approvals.Question, func(q store.Approval) (bool, error) { return s.concerns(ctx, in, q) })
}

func (s *Server) approvals() {
	if s.o.Approvals == nil {
		return
	}
	s.listApprovals()
	s.followApprovals()
	s.getApproval()
	type one struct {
		asked
		ApprovalPath
	}
	route(s, operation{
		id: "getApprovalHistory", method: http.MethodGet, path: "/v1/approvals/{approval_id}/history", tag: "approvals", action: "approvals.read", summary: "Get the history of a question",
		text: "Earlier questions like this one with their answers, and the recorded calls that its session pattern covers. Only questions and calls that the caller may see are counted, and only the newest, within bounds.", errors: []int{404}, answer: exampleHistory,
	}, func(ctx context.Context, in *one) (*struct{ Body approval.History }, error) {
		if _, err := s.question(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		h, err := s.o.Approvals.QuestionHistory(ctx, in.ID, viewer{s, &in.asked})
		return &struct{ Body approval.History }{h}, err
	})
	s.answerApprovals()
}

// answerApprovals serves the answers to questions.
func (s *Server) answerApprovals() {
	type yes struct {
		asked
		ApprovalPath
		Body *struct {
			Session bool   `json:"session,omitempty" doc:"Also approve further calls of the same run that match the question's pattern"`
			Digest  string `json:"digest,omitempty" maxLength:"64" doc:"The digest of the question that the person saw: an answer to another one is refused"`
		} `nameHint:"Yes"`
	}
	route(s, operation{
		id: "approve", method: http.MethodPost, path: "/v1/approvals/{approval_id}/approve", tag: "approvals", action: "approvals.answer", summary: "Approve",
		text: "The answer counts as that of the person that the caller's grant was issued to. A grant that was narrowed or handed on cannot answer, as its holder is a delegate. Nobody can answer questions about their own calls.", errors: []int{404, 409},
		request: map[string]any{"session": false}, answer: exampleApproval,
	}, func(ctx context.Context, in *yes) (*struct{ Body store.Approval }, error) {
		a := Answer{Yes: true}
		if in.Body != nil {
			a.Session, a.Digest = in.Body.Session, in.Body.Digest
		}
		return s.answer(ctx, &in.asked, in.ID, a)
	})
	type no struct {
		asked
		ApprovalPath
		Body *struct {
			Reason string `json:"reason,omitempty" maxLength:"500" doc:"The reason; it is shown to the caller"`
			Digest string `json:"digest,omitempty" maxLength:"64" doc:"The digest of the question that the person saw: an answer to another one is refused"`
		} `nameHint:"No"`
	}
	route(s, operation{
		id: "deny", method: http.MethodPost, path: "/v1/approvals/{approval_id}/deny", tag: "approvals", action: "approvals.answer", summary: "Deny", errors: []int{404, 409},
		request: map[string]any{"reason": "wrong branch"}, answer: exampleApproval,
	}, func(ctx context.Context, in *no) (*struct{ Body store.Approval }, error) {
		a := Answer{}
		if in.Body != nil {
			a.Reason, a.Digest = in.Body.Reason, in.Body.Digest
		}
		return s.answer(ctx, &in.asked, in.ID, a)
	})
}

func (s *Server) answer(ctx context.Context, in *asked, id string, a Answer) (*struct{ Body store.Approval }, error) {
	q, err := s.question(ctx, in, id)
	if err != nil {
		return nil, err
	}
	if q.Holder == in.who.Name && in.who.May(othersWrite) != nil {
		return nil, fault.New(fault.Denied, "the holder of a grant cannot answer questions about calls under it").WithHint("ask the person who issued the grant")
	}
	q, err = s.o.Approvals.Answer(ctx, in.who, id, a)
	return &struct{ Body store.Approval }{q}, err
}

// QuestionEvent says that a question was asked, answered or closed.
type QuestionEvent struct {
	Seq      ledger.Seq `json:"seq"`
	At       time.Time  `json:"at"`
	Event    string     `json:"event" doc:"question_asked, question_voted or question_closed"`
	Approval string     `json:"approval_id"`
	Status   string     `json:"status"`
}

func (s *Server) followApprovals() {
	if s.o.Audit == nil {
		return
	}
	type follow struct {
		asked
		Last string `header:"Last-Event-ID" maxLength:"20" doc:"The ID of the last event that was seen: later ones are sent first"`
	}
	route(s, operation{
		id: "followApprovals", method: http.MethodGet, path: "/v1/approvals/events", tag: "approvals", action: "approvals.read", stream: true, summary: "Follow questions",
		text: "Server-sent events: each question that listApprovals would show, as soon as it is asked, answered or closed by any process, from now on or after the event in Last-Event-ID. " +
			"It needs no right to read the record. A comment line comes every few seconds; `end` says that the service ends the stream: connect again.",
		more: map[int]reply{200: {text: "The events of questions", kind: "text/event-stream"}},
	}, func(ctx context.Context, in *follow) (*Streamed, error) {
		return s.followRecord(ctx, in.x, in.who, in.Last, func(b *history.Batch) ([]byte, error) { return s.questionsOf(ctx, &in.asked, b) })
	})
}

// questionsOf encodes the events of the questions that a caller may see. The questions are read, and
// each event is encoded, once for all streams.
func (s *Server) questionsOf(ctx context.Context, in *asked, b *history.Batch) ([]byte, error) {
	type told struct {
		q    store.Approval
		text []byte
	}
	all, err := b.Once("questions", func() (any, error) {
		var all []told
		for _, e := range b.Events {
			if e.Approval == "" {
				continue
			}
			q, err := s.o.Approvals.Question(ctx, e.Approval)
			if fault.CodeOf(err) == fault.ApprovalGone {
				continue
			}
			if err != nil {
				return nil, err
			}
			text, err := appendEvent(nil, strconv.FormatUint(uint64(e.Seq), 10), e.Event, QuestionEvent{e.Seq, e.At, e.Event, e.Approval, e.Status})
			if err != nil {
				return nil, err
			}
			all = append(all, told{q, text})
		}
		return all, nil
	})
	if err != nil {
		return nil, err
	}
	var text []byte
	for _, one := range all.([]told) {
		ok, err := s.concerns(ctx, in, one.q)
		if err != nil {
			return nil, err
		}
		if ok {
			text = append(text, one.text...)
		}
	}
	return text, nil
}

func (s *Server) listApprovals() {
	type list struct {
		asked
		Page
		All         bool `query:"all" doc:"Include answered and expired questions"`
		Interrupted bool `query:"interrupted" doc:"Instead, those of the last day whose calls ended with their process or caller before they were made. There are no further pages"`
	}
	route(s, operation{
		id: "listApprovals", method: http.MethodGet, path: "/v1/approvals", tag: "approvals", action: "approvals.read", summary: "List questions",
		text: "Newest first: about calls under the caller's grant or below it, of the person whose own grant it is, and of those whose questions the person's role answers.", answer: map[string]any{"items": []any{exampleApproval}},
	}, func(ctx context.Context, in *list) (*struct{ Body ApprovalList }, error) {
		at, err := in.number("approvals")
		if err != nil {
			return nil, err
		}
		out := ApprovalList{Items: []store.Approval{}}
		if in.Interrupted {
			out.Items, err = s.interrupted(ctx, &in.asked, in.Limit)
			return &struct{ Body ApprovalList }{out}, err
		}
		for scanned := 0; ; {
			all, err := s.o.Approvals.Questions(ctx, !in.All, at, in.Limit+1)
			if err != nil {
				return nil, err
			}
			for _, q := range all {
				if len(out.Items) == in.Limit || scanned >= maxScan {
					out.Next = cursor("approvals", strconv.FormatUint(at, 10))
					return &struct{ Body ApprovalList }{out}, nil
				}
				ok, err := s.concerns(ctx, &in.asked, q)
				if err != nil {
					return nil, err
				}
				if ok && (in.All || q.State == store.Waiting) {
					out.Items = append(out.Items, q)
				}
				at = uint64(q.Seq)
				scanned++
			}
			if len(all) <= in.Limit {
				return &struct{ Body ApprovalList }{out}, nil
			}
		}
	})
}

// interrupted lists the interrupted questions that the caller may see.
func (s *Server) interrupted(ctx context.Context, in *asked, limit int) ([]store.Approval, error) {
	if s.o.Interrupted == nil {
		return []store.Approval{}, nil
	}
	all, err := s.o.Interrupted(ctx)
	out := []store.Approval{}
	for _, q := range all {
		if err != nil || len(out) == limit {
			break
		}
		var ok bool
		if ok, err = s.concerns(ctx, in, q); ok {
			out = append(out, q)
		}
	}
	return out, err
}
