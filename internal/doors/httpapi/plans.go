package httpapi

import (
	"context"
	"encoding/json"
	"net/http"
)

// CollectedPlan is a plan of a run's completed calls, and of the calls that it only planned.
type CollectedPlan struct {
	Plan    string   `json:"plan" doc:"The plan's source; empty: the run has no call for a plan"`
	Steps   int      `json:"steps"`
	LeftOut []string `json:"left_out" nullable:"false" doc:"Tools whose calls are left out, since a plan cannot call them"`
}

func (s *Server) plans() {
	route(s, operation{
		id: "collectPlan", method: http.MethodGet, path: "/v1/runs/{run_id}/plan", tag: "runs", action: "runs.read", summary: "Collect the plan of a run",
		text: "A plan of the completed calls, and of the calls that were refused because the run was in planning mode. Apparent secrets in it are replaced.", errors: []int{404},
		answer: map[string]any{"plan": "version: 1\nsteps: []\n", "steps": 1, "left_out": []any{}},
	}, func(ctx context.Context, in *runIn) (*struct{ Body CollectedPlan }, error) {
		if _, err := s.run(ctx, &in.asked, in.ID); err != nil {
			return nil, err
		}
		p, err := s.o.Runs.CollectPlan(ctx, in.ID)
		return &struct{ Body CollectedPlan }{p}, err
	})
	type freeze struct {
		asked
		Body struct {
			Plan   string                     `json:"plan" minLength:"1" doc:"The plan's source"`
			Inputs map[string]json.RawMessage `json:"inputs,omitempty" nullable:"false" doc:"Values of the plan's inputs"`
		} `nameHint:"PlanToFreeze"`
	}
	route(s, operation{
		id: "freezePlan", method: http.MethodPost, path: "/v1/plans/freeze", tag: "runs", action: "tools.read", summary: "Freeze a plan",
		text: "The answer is the frozen plan, for frozen of runs, calls and sessions. Freezing allows nothing: a frozen plan only narrows.", errors: []int{404},
		request: map[string]any{"plan": "steps: [{tool: time.now}]"}, answer: map[string]any{"version": 1, "digest": "sha256:…"},
	}, func(ctx context.Context, in *freeze) (*struct{ Body json.RawMessage }, error) {
		b, err := s.o.Runs.Freeze(ctx, in.Body.Plan, in.Body.Inputs)
		return &struct{ Body json.RawMessage }{b}, err
	})
}
