package httpapi

import (
	"context"
	"net/http"

	"github.com/remitrun/remit/internal/call/replay"
	"github.com/remitrun/remit/internal/service/replays"
)

// Replayed is the result of a replay.
type Replayed struct {
	Run      string           `json:"run_id" doc:"The replay's own run"`
	Of       string           `json:"replay_of"`
	Status   string           `json:"status"`
	OK       bool             `json:"ok" doc:"All arguments, decisions and outputs are identical"`
	Calls    int              `json:"calls"`
	Mismatch *replay.Mismatch `json:"mismatch,omitempty" doc:"The first difference"`
}

func (s *Server) replay() {
	route(s, operation{
		id: "replayRun", method: http.MethodPost, path: "/v1/runs/{run_id}/replay", tag: "runs", action: "runs.replay", summary: "Replay a run",
		text:   "Carries the run out again: arguments and decisions are computed anew, the results of tools come from the record. It has no side effects, and is recorded as a run of its own. The answer names the first difference.",
		errors: []int{404, 409}, answer: map[string]any{"run_id": sampleSession, "replay_of": sampleSession, "status": "completed", "ok": true, "calls": 3},
	}, func(ctx context.Context, in *runIn) (*struct{ Body Replayed }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		r, err := s.o.Runs.Replay(ctx, in.ID)
		return &struct{ Body Replayed }{r}, err
	})
	route(s, operation{
		id: "replaySession", method: http.MethodPost, path: "/v1/sessions/{session_id}/replay", tag: "sessions", action: "runs.replay", summary: "Replay a session",
		text:   "Carries out each of the session's runs again, while no turn is under way: without models, tools or network. Every message must be the same to the byte. The answer names the first difference.",
		errors: []int{404, 409}, answer: map[string]any{"session_id": sampleSession, "ok": true, "runs": 2, "calls": 3, "messages": 8},
	}, func(ctx context.Context, in *sessionIn) (*struct{ Body replays.SessionSummary }, error) {
		if _, err := s.session(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		if err := s.o.Turns.EndRun(ctx, in.agentCaller(), in.ID); err != nil {
			return nil, err
		}
		r, err := s.o.Runs.ReplaySession(ctx, in.ID)
		return &struct{ Body replays.SessionSummary }{r}, err
	})
}
