package cli

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/doors/hook"
	"github.com/remitrun/remit/internal/doors/hookrelay"
	"github.com/remitrun/remit/internal/doors/hookwire"
	"github.com/remitrun/remit/internal/service/runs"
)

// confinedHooks decides and records the tool calls of a confined agent that has Remit's hook.
type confinedHooks struct {
	*session
	app   *app.App
	fixed runs.ClientRequest // the policy and workspace of the agent itself; its hook's command line cannot change them

	mu   sync.Mutex
	open map[clientSession]bool
}

// clientSession is a session of a confined agent.
type clientSession struct{ agent, id string }

// maxOpenSessions bounds the sessions that are ended with their agent.
const maxOpenSessions = 1000

// service answers the hooks inside the sandbox.
func (c *confinedHooks) service() sandbox.Service {
	return sandbox.Service{At: hookwire.Socket, Serve: hookrelay.Relay{Answer: c.answer, Max: hookwire.MaxRequest, Time: hookwire.DecisionTime}.Serve}
}

func (c *confinedHooks) answer(ctx context.Context, r hookwire.Request) hookwire.Answer {
	var errs bytes.Buffer
	h := c.door("", r.Event, &errs)
	printed, err := []byte(nil), error(nil)
	if h.agent, h.event, err = hookAgent(r.Args); err == nil {
		printed, err = h.answerInTime(ctx)
	}
	if err != nil {
		h.blocked(err)
		return hookwire.Answer{Out: h.denial(err), Err: errs.Bytes(), Status: blockedStatus}
	}
	return hookwire.Answer{Out: printed}
}

// hookAgent is the agent, and the event, that arguments of remit hook name. Nothing else of them counts for an agent in
// a sandbox.
func hookAgent(args []string) (agent, event string, err error) {
	c := (&session{}).hookCmd()
	if err := c.ParseFlags(args); err != nil {
		return "", "", fault.New(fault.Usage, "%v", err)
	}
	if err := c.ValidateArgs(c.Flags().Args()); err != nil {
		return "", "", fault.New(fault.Usage, "%v", err)
	}
	event, err = c.Flags().GetString("event")
	if err != nil {
		return "", "", fault.Wrap(fault.Internal, err, "the flag --event cannot be read")
	}
	return c.Flags().Arg(0), event, nil
}

// door handles one event.
func (c *confinedHooks) door(agent string, input []byte, errs io.Writer) *hookDoor {
	inner := &session{Streams: Streams{In: bytes.NewReader(input), Out: io.Discard, Err: errs}, version: c.version, environ: c.environ, lookup: c.lookup, app: c.app}
	return &hookDoor{session: inner, agent: agent, confined: c}
}

// note keeps that a session has begun, or has ended.
func (c *confinedHooks) note(s clientSession, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if ended {
		delete(c.open, s)
	} else if len(c.open) < maxOpenSessions {
		c.open[s] = true
	}
}

// end ends the sessions that the agent left open. The agent itself has ended.
func (c *confinedHooks) end(ctx context.Context) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	var errs []error
	for s := range c.open {
		q := c.fixed
		q.Client, q.Session = s.agent, s.id
		errs = append(errs, c.door(s.agent, nil, io.Discard).end(ctx, c.app, q))
	}
	c.open = nil
	return errors.Join(errs...)
}

// forward has the event answered outside of the sandbox that this process is in.
func (h *hookDoor) forward(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, hookwire.AnswerTime)
	defer stop()
	src, err := io.ReadAll(io.LimitReader(h.In, hookwire.MaxEvent+1))
	if err == nil && !slices.Contains(hook.Agents(), h.agent) {
		err = fault.New(fault.Usage, "%.40q is not a known agent", h.agent).WithHint("expected one of %s", strings.Join(hook.Agents(), ", "))
	}
	var a hookwire.Answer
	if err == nil {
		a, err = hookrelay.Forward(ctx, hookwire.Socket, hookwire.Request{Args: []string{h.agent, "--event=" + h.event}, Event: src})
	}
	if err == nil {
		_, err = h.Out.Write(a.Out)
	}
	switch {
	case err != nil:
		h.src.Store(&src)
		_, _ = h.Out.Write(h.denial(err)) // the status says the same
		h.blocked(err)
		return exit(blockedStatus)
	case a.Status != 0:
		h.errorf("%s", a.Err)
		return exit(int(a.Status))
	}
	return nil
}
