package httpapi

import (
	"context"
	"net/http"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/policyreview"
	"github.com/remitrun/remit/internal/service/replays"
)

// Policies checks policies and explains their decisions.
type Policies interface {
	// Check reads a policy: fault.List of fault.PolicyInvalid.
	Check(ctx context.Context, text string) (PolicySummary, error)
	// Explain decides a call without making it, under a policy; "": under the
	// caller's grant.
	Explain(ctx context.Context, who *Caller, text, id string, args map[string]any) (policyreview.Explanation, error)
	// Authority asks what the policies allow as a whole: whether from can get to to, or
	// without both an overview. It is asked about everybody, or about the caller alone.
	Authority(ctx context.Context, who *Caller, everybody bool, from, to string) (policyreview.Authority, error)
	// DryRun decides the calls of a recorded run under a policy.
	DryRun(ctx context.Context, text, run string) (DryRun, error)
	// Learn writes a small policy that recorded runs need.
	Learn(ctx context.Context, runs []string) (LearnedPolicy, error)
}

// PolicySummary describes a valid policy.
type PolicySummary struct {
	OK     bool         `json:"ok"`
	Name   string       `json:"name,omitempty"`
	Digest string       `json:"digest,omitempty"`
	Text   string       `json:"canonical,omitempty" doc:"The policy in its canonical form"`
	Errors []FieldError `json:"errors,omitempty" doc:"All errors, with line and column"`
}

// LearnedPolicy is a policy that recorded runs need.
type LearnedPolicy struct {
	Policy  string   `json:"policy"`
	Widened []string `json:"widened" doc:"Its permissions beyond the actions of the runs"`
	Calls   int      `json:"calls" doc:"Recorded calls that were allowed, and are under this policy"`
	Refused int      `json:"refused" doc:"Recorded calls that were refused, and are under this policy"`
}

// DryRun has the decisions of a recorded run that a policy would change.
type DryRun struct {
	Run     string             `json:"run_id"`
	Judged  int                `json:"judged"`
	Changed []replays.Rejudged `json:"changed"`
}

// policies adds the operations on policies.
func (s *Server) policies() {
	if s.o.Policies == nil {
		return
	}
	type check struct {
		asked
		Body struct {
			Policy string `json:"policy" maxLength:"65536" doc:"YAML or JSON" example:"version: 1\n"`
		} `nameHint:"PolicyText"`
	}
	route(s, operation{
		id: "checkPolicy", method: http.MethodPost, path: "/v1/policies/check", tag: "policies", action: "policies.read", summary: "Check a policy",
		text:    "Tells everything that is wrong with it. A policy that cannot be read is an answer, and no problem.",
		request: map[string]any{"policy": "version: 1\nfiles: {read: {allow: ['**']}}\n"}, answer: map[string]any{"ok": true, "name": "policy"},
	}, func(ctx context.Context, in *check) (*struct{ Body PolicySummary }, error) {
		sum, err := s.o.Policies.Check(ctx, in.Body.Policy)
		if err == nil {
			return &struct{ Body PolicySummary }{sum}, nil
		}
		if fault.CodeOf(err) != fault.PolicyInvalid {
			return nil, err
		}
		p := problem(err)
		if len(p.Errors) == 0 {
			p.Errors = []FieldError{{Message: p.Detail}}
		}
		return &struct{ Body PolicySummary }{PolicySummary{Errors: p.Errors}}, nil
	})
	type explain struct {
		asked
		Body struct {
			Policy string         `json:"policy,omitempty" maxLength:"65536" doc:"Default: the policies of the caller's grant"`
			Tool   string         `json:"tool" minLength:"1" maxLength:"300" example:"fs.read"`
			Args   map[string]any `json:"args,omitempty" nullable:"false"`
		} `nameHint:"ExplainCall"`
	}
	route(s, operation{
		id: "explainPolicy", method: http.MethodPost, path: "/v1/policies/explain", tag: "policies", action: "policies.read", summary: "Explain a decision",
		text:   "Decides a call without making it. Nothing is looked up in the world: where links and names lead, only a call finds out.",
		errors: []int{404}, request: map[string]any{"tool": "fs.read", "args": map[string]any{"path": "README.md"}},
		answer: map[string]any{"tool": "fs.read", "effect": "deny", "rule": "default", "reason": "no entry of files.read.allow matches", "actions": []any{"files.read \"README.md\""}, "rules": []any{}},
	}, func(ctx context.Context, in *explain) (*struct{ Body policyreview.Explanation }, error) {
		args := in.Body.Args
		if args == nil {
			args = map[string]any{}
		}
		e, err := s.o.Policies.Explain(ctx, in.who, in.Body.Policy, in.Body.Tool, args)
		return &struct{ Body policyreview.Explanation }{e}, err
	})
	s.authority()
	s.dryRun()
	s.learn()
}

func (s *Server) authority() {
	type question struct {
		asked
		Body struct {
			From string `json:"from,omitempty" maxLength:"400" example:"files private/**"`
			To   string `json:"to,omitempty" maxLength:"400" example:"network *"`
		} `nameHint:"AuthorityQuestion"`
	}
	route(s, operation{
		id: "askAuthority", method: http.MethodPost, path: "/v1/policies/authority", tag: "policies", action: "policies.read", summary: "Ask what the policies allow as a whole",
		text: "Whether data that is at from can get to to, over all holders, tools, paths, hosts and commands. Without both it is an overview. " +
			"A caller without the right to read other callers' data asks about its own grant alone.",
		request: map[string]any{"from": "files private/**", "to": "network *"},
		answer: map[string]any{"holders": []any{"user:ann"}, "ways": map[string]any{"from": "files private/**", "to": "network *", "verdict": "unreachable", "steps": []any{}, "cut": []any{},
			"map": map[string]any{"nodes": []any{}, "edges": []any{}}}},
	}, func(ctx context.Context, in *question) (*struct{ Body policyreview.Authority }, error) {
		a, err := s.o.Policies.Authority(ctx, in.who, in.who.May(in.others()) == nil, in.Body.From, in.Body.To)
		return &struct{ Body policyreview.Authority }{a}, err
	})
}

func (s *Server) learn() {
	type learn struct {
		asked
		Body struct {
			Runs []string `json:"run_ids" minItems:"1" maxItems:"20" nullable:"false"`
		} `nameHint:"LearnFrom"`
	}
	route(s, operation{
		id: "learnPolicy", method: http.MethodPost, path: "/v1/policies/learn", tag: "policies", action: "policies.read", summary: "Learn a policy from runs",
		text: "A small policy that allows the actions of the runs and similar ones, and nothing that they were refused.", errors: []int{404, 409},
		request: map[string]any{"run_ids": []any{sampleSession}}, answer: map[string]any{"policy": "version: 1\n", "widened": []any{}, "calls": 3, "refused": 0},
	}, func(ctx context.Context, in *learn) (*struct{ Body LearnedPolicy }, error) {
		if s.o.Runs == nil {
			return nil, missing(fault.RunUnknown, "run", in.Body.Runs[0])
		}
		for _, id := range in.Body.Runs {
			if _, err := s.run(ctx, &in.asked, id); err != nil {
				return nil, err
			}
		}
		out, err := s.o.Policies.Learn(ctx, in.Body.Runs)
		return &struct{ Body LearnedPolicy }{out}, err
	})
}

func (s *Server) dryRun() {
	type dry struct {
		asked
		Body struct {
			Policy string `json:"policy" minLength:"1" maxLength:"65536"`
			Run    string `json:"run_id" maxLength:"100" example:"019a1fe7-0b1c-7a52-9e55-7e0f3a1c2b44"`
		} `nameHint:"DryRunOf"`
	}
	route(s, operation{
		id: "dryRunPolicy", method: http.MethodPost, path: "/v1/policies/dry-run", tag: "policies", action: "policies.read", summary: "Evaluate a run under another policy",
		text: "Lists the decisions of the run that the policy would change, on the recorded facts.", errors: []int{404, 409},
		request: map[string]any{"policy": "version: 1\n", "run_id": sampleSession}, answer: map[string]any{"run_id": sampleSession, "judged": 3, "changed": []any{}},
	}, func(ctx context.Context, in *dry) (*struct{ Body DryRun }, error) {
		if s.o.Runs == nil {
			return nil, missing(fault.RunUnknown, "run", in.Body.Run)
		}
		if _, err := s.run(ctx, &in.asked, in.Body.Run); err != nil {
			return nil, err
		}
		d, err := s.o.Policies.DryRun(ctx, in.Body.Policy, in.Body.Run)
		return &struct{ Body DryRun }{d}, err
	})
}
