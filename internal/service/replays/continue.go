package replays

import (
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/agents/agent"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/service/agents"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/tools/model"
)

// ContinueFrom forks a session before one of its calls, and continues the fork for real,
// under the policy of a file; "": the workspace's policy of today. on, if not nil, is
// called with each event of the fork.
func (s *Replays) ContinueFrom(ctx context.Context, id, from, policyFile string, on func(agent.Event)) (agent.Session, error) {
	session, runs, err := s.SessionRuns(ctx, id)
	if err != nil {
		return agent.Session{}, err
	}
	if len(runs) == 0 {
		return agent.Session{}, fault.New(fault.MessageUnknown, "the session has made no call yet")
	}
	step, err := s.forkPoint(ctx, runs, from)
	if err != nil {
		return agent.Session{}, err
	}
	engine, err := s.Agents.Start(ctx, agents.Request{Policy: policyFile, Workspace: runs[len(runs)-1].Workspace})
	if err != nil {
		return agent.Session{}, err
	}
	out, err := continueFrom(ctx, engine, session.String(), step, on)
	return out, errors.Join(err, engine.Close(context.WithoutCancel(ctx)))
}

// forkPoint finds the step of a session's call. from is the call's number in the newest run,
// RUN/NUMBER, or the step as the record shows it.
func (s *Replays) forkPoint(ctx context.Context, runs []ledger.Run, from string) (string, error) {
	st, err := s.Home.Ledger(ctx)
	if err != nil {
		return "", err
	}
	id, number, inRun := strings.Cut(from, "/")
	if !inRun {
		id, number = "", from
	}
	n, err := strconv.Atoi(number)
	byStep := err != nil
	for i := len(runs) - 1; i >= 0; i-- {
		if inRun && !byStep && !strings.HasPrefix(runs[i].ID.String(), id) {
			continue
		}
		for c, err := range st.Calls(ctx, runs[i].Seq) {
			if err != nil {
				return "", err
			}
			if byStep && c.Step == from || !byStep && c.Index == n {
				return c.Step, nil
			}
		}
		if !byStep {
			break
		}
	}
	return "", fault.New(fault.MessageUnknown, "the session has no call %.100q", from).
		WithHint("name a call of its newest run by its number, one of another as RUN/NUMBER; remit show RUN lists them")
}

// continueFrom forks before a step, resumes the fork and waits for it.
func continueFrom(ctx context.Context, s *agent.Service, session, step string, on func(agent.Event)) (agent.Session, error) {
	by := agent.Caller{Name: home.Person()}
	upTo, err := lastBefore(ctx, s, session, step)
	if err != nil {
		return agent.Session{}, err
	}
	if upTo == 0 {
		return agent.Session{}, fault.New(fault.MessageUnknown, "nothing comes before that call")
	}
	fork, err := s.Fork(ctx, by, session, upTo, nil)
	if err != nil {
		return fork, err
	}
	watch, stop := context.WithCancel(ctx)
	told := make(chan error, 1)
	go func() {
		told <- s.Events(watch, fork.ID.String(), strconv.Itoa(fork.Last), func(e agent.Event) error {
			if on != nil {
				on(e)
			}
			return nil
		})
	}()
	_, err = s.Resume(ctx, by, fork.ID.String())
	if err == nil {
		err = s.Wait(ctx, fork.ID.String())
	}
	stop()
	err = errors.Join(err, <-told)
	now, serr := s.Session(context.WithoutCancel(ctx), fork.ID.String())
	return now, errors.Join(err, serr)
}

// lastBefore gives the number of the last message before a step's call: before the answer of a
// model, or before the result of a tool call.
func lastBefore(ctx context.Context, s *agent.Service, session, step string) (int, error) {
	if n, _, answer := strings.Cut(step, "/"); answer {
		at, err := strconv.Atoi(n)
		return at - 1, err
	}
	n, call, _ := strings.Cut(step, ":")
	at, err := strconv.Atoi(n)
	if err != nil {
		return 0, fault.New(fault.MessageUnknown, "the call %.100q does not belong to a message", step)
	}
	ms, err := s.Messages(ctx, session, at, 0)
	if err != nil {
		return 0, err
	}
	for _, m := range ms {
		if m.Role == model.ToolRole && m.CallID == call {
			return m.Number - 1, nil
		}
	}
	return at, nil
}
