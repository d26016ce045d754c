package approvals

import (
	"cmp"
	"context"
	"path/filepath"
	"slices"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/edit"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/wholefile"
	"github.com/remitrun/remit/internal/call/approval"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/policies"
)

// edits returns the smallest changes of the policy files that would allow what a question's
// policies deny: one for each file. Only a missing entry of a list can be added. What a deny
// entry or a gate refuses, it refuses on purpose.
func (s *Approvals) edits(q runner.Question) ([]approval.Edit, error) {
	var files []*policy.Policy
	lines := map[*policy.Policy][]learn.Line{}
	for _, r := range q.Decision.Refusals {
		if r.Effect != policy.Deny {
			continue
		}
		p, err := policyOf(q, r)
		if err != nil {
			return nil, err
		}
		add, why := s.narrowest(q, r)
		if len(add) == 0 {
			return nil, notProposed(r, why)
		}
		if !slices.Contains(files, p) {
			files = append(files, p)
		}
		for _, l := range add {
			if !slices.Contains(lines[p], l) {
				lines[p] = append(lines[p], l)
			}
		}
	}
	if len(files) == 0 {
		return nil, fault.New(fault.Denied, "denied: %s", q.Decision.Reason)
	}
	out := make([]approval.Edit, 0, len(files))
	for _, p := range files {
		file, err := filepath.Abs(p.File())
		if err != nil {
			return nil, fault.Wrap(fault.PolicyInvalid, err, "the policy file cannot be found")
		}
		e := approval.Edit{File: file, Digest: runner.DigestOf(p.Source()).String(), Lines: lines[p]}
		is, err := changed(e)
		if err != nil {
			return nil, err
		}
		d := edit.Diff(filepath.Base(file), string(p.Source()), string(is))
		e.Diff, e.Hunks = d.Text, d.Hunks
		out = append(out, e)
	}
	return out, nil
}

func notProposed(r policy.Refusal, why string) error {
	return fault.New(fault.Denied, "%s; no change of the policy can be proposed: %s", r.Reason, why)
}

// policyOf finds the policy of a refusal, which must say "nothing allows it" in a list.
func policyOf(q runner.Question, r policy.Refusal) (*policy.Policy, error) {
	if r.Rule == nil || r.Rule.Name != "default" {
		return nil, notProposed(r, "it is denied on purpose")
	}
	for _, link := range q.Run.Grant.Chain() {
		if p := link.Policy(); p.File() == r.Rule.File && p.Name() == r.Rule.Policy {
			return p, nil
		}
	}
	return nil, notProposed(r, "the policy that denies it is not one of the run's grant")
}

// narrowest returns the entries that allow exactly the refused action.
func (s *Approvals) narrowest(q runner.Question, r policy.Refusal) ([]learn.Line, string) {
	u := learn.Use{Tool: q.Spec.ID, Args: q.Call.Args}
	if u.Args == nil {
		u.Args = tool.Args{}
	}
	if i := slices.IndexFunc(q.Actions, func(a tool.Action) bool { return a.String() == r.Action }); i >= 0 {
		u.Action = q.Actions[i]
	}
	return learn.Narrowest(u, learn.Options{
		Workspace: q.Run.Env.Workspace, Home: q.Run.Bound.Home,
		Spec: func(id tool.ID) *tool.Spec {
			if id == q.Spec.ID {
				return q.Spec
			}
			return nil
		},
		Secret: func(text string) bool { return s.Home.Redactor().Text(text) != text },
	})
}

// changed gives the new text of a proposed change's file. The file must be as it was when the
// change was proposed.
func changed(e approval.Edit) ([]byte, error) {
	src, err := wholefile.ReadRegular(e.File, policies.MaxPolicySize)
	if err != nil {
		return nil, fault.Wrap(fault.PolicyMissing, err, "%v", wholefile.Cause(err)).At(fault.Pos{File: e.File})
	}
	if runner.DigestOf(src).String() != e.Digest {
		return nil, fault.New(fault.Stale, "the policy is not the one that denied the call: it changed since").At(fault.Pos{File: e.File}).
			WithHint("request it again in a new run")
	}
	p, err := policy.Parse(e.File, src)
	if err != nil {
		return nil, err
	}
	return edit.Add(p, e.Lines)
}

// apply records the approval of a proposal, and changes the policy files as it says. A file
// that was trusted stays so: the person saw the change.
func (s *Approvals) apply(ctx context.Context, q store.Approval, b approval.Body, v store.Vote) (store.Approval, error) {
	_, st, err := s.Grants.Open(ctx)
	if err != nil {
		return q, err
	}
	if q.State != store.Waiting {
		_, err := st.Vote(ctx, q.ID, v) // says why it is too late
		return q, cmp.Or(err, error(fault.New(fault.ApprovalGone, "the question %s is %s already", q.ID, q.State)))
	}
	texts := make([][]byte, len(b.Edits))
	for i, e := range b.Edits {
		if texts[i], err = changed(e); err != nil {
			return q, err
		}
	}
	if q, err = st.Vote(ctx, q.ID, v); err != nil {
		return q, err
	}
	for i, e := range b.Edits {
		if err := s.Policies.Replace(e.File, e.Digest, texts[i]); err != nil {
			return q, err
		}
	}
	return q, nil
}
