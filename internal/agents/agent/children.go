package agent

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/tools/model"
)

// maxChildren is how many sub-agents of a session are looked at, whatever number
// policies allow.
const maxChildren = 1000

// children is the sub-agents of a session. Each has a session of its own, under a grant
// that derives from the session's. It implements [capability.Children].
type children struct {
	svc    *Service
	parent uuid.UUID
}

var _ capability.Children = (*children)(nil)

// parentRun gives the run of the parent's session. All that happens here is part of one of
// its calls, which the permit proves.
func (c *children) parentRun(p permit.Permit) (*activation, error) {
	if !p.Live() {
		return nil, fault.New(fault.HandleRefused, "the call that the sub-agents belong to is over")
	}
	act := c.svc.activation(c.parent)
	if act == nil {
		return nil, fault.New(fault.HandleRefused, "the session has no open run")
	}
	return act, nil
}

// Spawn implements [capability.Children].
func (c *children) Spawn(ctx context.Context, p permit.Permit, q capability.SpawnRequest) (capability.Child, error) {
	act, err := c.parentRun(p)
	if err != nil {
		return capability.Child{}, err
	}
	name := strings.TrimSpace(q.Name)
	if name == "" || len(name) > maxName || !printable(name) {
		return capability.Child{}, fault.New(fault.ArgsInvalid, "a sub-agent's name must have 1 to %d bytes of visible characters", maxName).In("name")
	}
	if err := checkNarrowing(q.Policy); err != nil {
		return capability.Child{}, err
	}
	if err := commitment.Check(fault.ArgsInvalid, "commitments", q.Commitments); err != nil {
		return capability.Child{}, err
	}
	a := act.loop.set.agent
	if q.Agent != "" {
		if a, err = c.svc.Agent(ctx, q.Agent); err != nil {
			return capability.Child{}, err
		}
	}
	if err := demandQuarantine(&a, &q); err != nil {
		return capability.Child{}, err
	}
	if _, _, err := c.find(ctx, name); err == nil {
		return capability.Child{}, fault.New(fault.Conflict, "the name %q is taken by another sub-agent", name).WithHint("choose another name").In("name")
	}
	_, parent, err := c.svc.session(ctx, c.parent.String())
	if err != nil {
		return capability.Child{}, err
	}
	d := sessionDoc{Title: name, State: Idle, Mode: parent.Mode.ofChild(), Child: &childDoc{Name: name, Policy: q.Policy, Pending: q.Pending, Quarantine: q.Quarantine, Answer: q.Answer, Commitments: q.Commitments}}
	if q.Pending {
		d.Child.Task = q.Task
	}
	made, err := c.svc.create(ctx, act.by, a, d, c.parent)
	if err != nil {
		return capability.Child{}, err
	}
	if !q.Pending {
		if _, err := c.svc.Start(ctx, act.by, made.ID.String(), q.Task); err != nil {
			return capability.Child{}, err
		}
	}
	return c.describe(ctx, made.ID)
}

func checkNarrowing(text string) error {
	if text == "" {
		return nil
	}
	_, err := policy.Parse("the sub-agent's policy", []byte(text))
	return err
}

// Send implements [capability.Children].
func (c *children) Send(ctx context.Context, p permit.Permit, child, text string) (capability.Child, error) {
	act, err := c.parentRun(p)
	if err != nil {
		return capability.Child{}, err
	}
	r, _, err := c.find(ctx, child)
	if err != nil {
		return capability.Child{}, err
	}
	if _, err := c.svc.Start(ctx, act.by, r.ID.String(), text); err != nil {
		return capability.Child{}, err
	}
	return c.describe(ctx, r.ID)
}

// Wait implements [capability.Children].
func (c *children) Wait(ctx context.Context, p permit.Permit, names []string, most time.Duration) ([]capability.Child, error) {
	act, err := c.parentRun(p)
	if err != nil {
		return nil, err
	}
	list, err := c.chosen(ctx, names)
	if err != nil {
		return nil, err
	}
	waiting, stop := context.WithTimeout(ctx, min(most, longestWait))
	defer stop()
	for _, r := range list {
		if err := c.recover(ctx, act, r.ID); err != nil {
			return nil, err
		}
		err := c.svc.Wait(waiting, r.ID.String())
		if errors.Is(err, errClosing) {
			return nil, errClosing // the sub-agent waits for a person
		}
		if waiting.Err() != nil && errors.Is(err, waiting.Err()) {
			break
		}
	}
	if err := ctx.Err(); err != nil {
		return nil, context.Cause(ctx)
	}
	out := make([]capability.Child, len(list))
	for i, r := range list {
		if out[i], err = c.describe(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// longestWait is how long one call waits. It is less than the time of a call.
const longestWait = runner.DefaultTimeout - 10*time.Second

// recover continues the turn of a sub-agent that worked when Remit ended, but not of one
// that a person has cancelled, paused or ended since.
func (c *children) recover(ctx context.Context, act *activation, id uuid.UUID) error {
	l := c.svc.acquire(id)
	defer c.svc.release(l)
	if l.currentTurn() != nil {
		return nil
	}
	err := c.svc.continueTurn(ctx, act.by, l, turnRecovered)
	if err != nil && l.currentTurn() != nil {
		return nil // a turn has just started
	}
	return err
}

// List implements [capability.Children].
func (c *children) List(ctx context.Context, p permit.Permit) ([]capability.Child, error) {
	if _, err := c.parentRun(p); err != nil {
		return nil, err
	}
	list, err := c.chosen(ctx, nil)
	if err != nil {
		return nil, err
	}
	out := make([]capability.Child, len(list))
	for i, r := range list {
		if out[i], err = c.describe(ctx, r.ID); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Stop implements [capability.Children].
func (c *children) Stop(ctx context.Context, p permit.Permit, child string) (capability.Child, error) {
	act, err := c.parentRun(p)
	if err != nil {
		return capability.Child{}, err
	}
	r, d, err := c.find(ctx, child)
	if err != nil {
		return capability.Child{}, err
	}
	if err := c.svc.endSession(ctx, act.by, r, d, false); err != nil {
		return capability.Child{}, err
	}
	return c.describe(ctx, r.ID)
}

// Delegate implements [capability.Children].
func (c *children) Delegate(ctx context.Context, p permit.Permit, child, narrower string) (capability.Child, error) {
	act, err := c.parentRun(p)
	if err != nil {
		return capability.Child{}, err
	}
	r, d, err := c.find(ctx, child)
	if err != nil {
		return capability.Child{}, err
	}
	if d.Child == nil || !d.Child.Pending {
		return capability.Child{}, fault.New(fault.Conflict, "the sub-agent %q already has authority", child).WithHint("spawn another one with pending: true")
	}
	if err := checkNarrowing(narrower); err != nil {
		return capability.Child{}, err
	}
	if narrower != "" && d.Child.Policy != "" {
		return capability.Child{}, fault.New(fault.Conflict, "the sub-agent %q already has a policy, from when it was spawned", child).WithHint("delegate without a policy")
	}
	a, err := c.svc.agentOf(ctx, r.Agent)
	if err != nil {
		return capability.Child{}, err
	}
	d.Child.Policy = cmp.Or(d.Child.Policy, narrower)
	g, err := c.svc.grant(ctx, r, d, a, act.by)
	if err != nil {
		return capability.Child{}, err
	}
	task := d.Child.Task
	d.Granted, d.Under, d.Workspace = true, g.Under, g.Workspace
	d.Child.Pending, d.Child.Task = false, ""
	if _, err := c.svc.save(context.WithoutCancel(ctx), r, d, act.by.Name); err != nil {
		return capability.Child{}, err
	}
	if task != "" {
		if _, err := c.svc.Start(ctx, act.by, r.ID.String(), task); err != nil {
			return capability.Child{}, err
		}
	}
	return c.describe(ctx, r.ID)
}

// all lists the sub-agents of the session, oldest first.
func (c *children) all(ctx context.Context) ([]store.SessionRecord, error) {
	list, err := c.svc.o.Record.Sessions(ctx, store.SessionFilter{Parent: c.parent, PageFilter: store.PageFilter{Limit: maxChildren}})
	list = slices.DeleteFunc(list, func(r store.SessionRecord) bool { return r.Deleted })
	slices.Reverse(list)
	return list, err
}

// find finds a sub-agent by its name or its session's ID.
func (c *children) find(ctx context.Context, name string) (store.SessionRecord, sessionDoc, error) {
	list, err := c.all(ctx)
	if err != nil {
		return store.SessionRecord{}, sessionDoc{}, err
	}
	for _, r := range list {
		d, err := readSession(r)
		if err != nil {
			return r, d, err
		}
		if r.ID.String() == name || d.Child != nil && d.Child.Name == name {
			return r, d, nil
		}
	}
	return store.SessionRecord{}, sessionDoc{}, fault.New(fault.NotFound, "unknown sub-agent %.100q", name)
}

// chosen lists the named sub-agents, or all if none is named.
func (c *children) chosen(ctx context.Context, names []string) ([]store.SessionRecord, error) {
	if len(names) == 0 {
		return c.all(ctx)
	}
	out := make([]store.SessionRecord, len(names))
	for i, n := range names {
		var err error
		if out[i], _, err = c.find(ctx, n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// describe gives a sub-agent as its parent sees it.
func (c *children) describe(ctx context.Context, id uuid.UUID) (capability.Child, error) {
	r, d, err := c.svc.session(ctx, id.String())
	if err != nil {
		return capability.Child{}, err
	}
	out := capability.Child{ID: id.String(), Session: id, Status: "working"}
	if d.Child != nil {
		out.Name = d.Child.Name
	}
	switch now := sessionOf(r, d); {
	case d.Child != nil && d.Child.Pending:
		out.Status = "pending"
		return out, nil
	case now.State == Idle:
		out.Status = "idle"
	case now.State == Failed:
		out.Status = "failed"
	case now.State == Ended || now.State == Cancelled:
		out.Status = "stopped"
	}
	if d.Child != nil && d.Child.Quarantine {
		return c.answered(ctx, out, r, d)
	}
	if out.Status == "working" {
		return out, nil
	}
	for m, err := range c.svc.o.Record.Messages(ctx, id, 0, true) {
		if err != nil {
			return out, err
		}
		one, err := decode(m)
		if err != nil {
			return out, err
		}
		if one.Role == model.Assistant && one.Text != "" {
			out.Reply = one.Text
			break
		}
	}
	switch {
	case d.Error == nil:
	case out.Reply == "":
		out.Reply = d.Error.Code + " " + d.Error.Message
	case d.Error.Code == fault.CommitmentUnmet.Error():
		out.Reply += "\n[" + d.Error.Code + " " + d.Error.Message + "]"
	}
	return out, nil
}
