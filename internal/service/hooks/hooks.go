// Package hooks calls the webhooks and programs that the settings name around calls. They can
// refuse a call before it runs, and add notes to the record. Start at [New].
package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
)

// Box runs commands confined: linux.Box.
type Box interface {
	Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error)
}

// Config holds the parts of hooks.
type Config struct {
	Box    Box
	Secret func(name string) (string, bool) // finds a stored secret
	Redact func(document []byte) []byte     // replaces what looks like a secret in JSON
}

// New makes the hooks of the settings, in their order.
func New(list []settings.Hook, c Config) []runner.Hook {
	out := make([]runner.Hook, len(list))
	for i, s := range list {
		h := &hook{Hook: s, conf: c}
		made := runner.Hook{Name: s.Name, Match: h.match, Handle: h.handle}
		for _, e := range s.Events {
			made.Stages = append(made.Stages, runner.HookStage(e))
		}
		if made.Stages == nil {
			made.Stages = []runner.HookStage{}
		}
		if h.answer = h.run; s.Command == nil {
			h.answer, h.sender = h.post, notify.NewSender("hooks."+s.Name, s.Webhook, c.Secret)
		} else {
			made.Chain = h.chain
		}
		out[i] = made
	}
	return out
}

// hook is a hook of the settings.
type hook struct {
	settings.Hook

	conf   Config
	sender *notify.Sender // of a webhook
	answer func(ctx context.Context, e runner.HookEvent, body []byte) ([]byte, error)
}

func (h *hook) match(id tool.ID) bool {
	if h.Tools == nil {
		return true
	}
	for _, t := range h.Tools {
		if begin, open := strings.CutSuffix(t, "*"); string(id) == t || open && strings.HasPrefix(string(id), begin) {
			return true
		}
	}
	return false
}

// handle implements the function of runner.Hook.
func (h *hook) handle(ctx context.Context, e runner.HookEvent) (string, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, h.Timeout, fault.New(fault.ToolTimeout, "it did not answer within %s", h.Timeout))
	defer cancel()
	body, err := h.document(e)
	if err != nil {
		return "", err
	}
	b, err := h.answer(ctx, e, body)
	if cause := context.Cause(ctx); err != nil && cause != nil {
		err = cause
	}
	if err != nil {
		return "", h.problem(err)
	}
	a, err := read(b)
	switch {
	case err != nil:
		return "", h.problem(err)
	case a.Refuse == "":
		return a.Note, nil
	case e.Stage != runner.HookBefore:
		return a.Note, fault.New(fault.HookRefused, "it can refuse a call only at the event before: %s", a.Refuse)
	}
	return a.Note, fault.New(fault.HookRefused, "%s", a.Refuse)
}

// problem is the error of a hook that failed.
func (h *hook) problem(err error) error {
	text := err.Error()
	if fault.CodeOf(err) != fault.Internal {
		text = fault.Message(err)
	}
	return fault.Wrap(fault.HookRefused, err, "it failed: %s", text).ForOperator("see hooks.%s in config.yaml", h.Name)
}

// event is an event as a hook gets it.
type event struct {
	Version   int             `json:"version"`
	Event     string          `json:"event"`
	At        time.Time       `json:"timestamp"`
	Run       string          `json:"run_id"`
	Session   string          `json:"session_id,omitempty"`
	Holder    string          `json:"holder"`
	Call      int             `json:"call"`
	Step      string          `json:"step,omitempty"`
	Tool      string          `json:"tool"`
	Risk      string          `json:"risk"`
	Status    string          `json:"status,omitempty"`
	Code      string          `json:"code,omitempty"`
	Arguments json.RawMessage `json:"arguments,omitempty"`
	Error     string          `json:"error,omitempty"`
	Reason    string          `json:"reason,omitempty"`
}

// document encodes an event. Errors and reasons can repeat arguments, so they go with them.
func (h *hook) document(e runner.HookEvent) ([]byte, error) {
	out := event{Version: 1, Event: string(e.Stage), At: time.Now().UTC(), Run: e.Run.String(), Holder: e.Holder, Call: e.Index, Step: e.Step, Tool: string(e.Tool), Risk: e.Risk.String()}
	if e.Session != uuid.Nil {
		out.Session = e.Session.String()
	}
	if e.Stage == runner.HookAfter || e.Stage == runner.HookDenied {
		out.Status = e.Status.String()
	}
	if e.Err != nil {
		out.Code = fault.CodeOf(e.Err).Error()
	}
	if h.Arguments {
		out.Arguments, out.Reason = e.Args, e.Reason
		if e.Err != nil {
			out.Error = fault.Message(e.Err)
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the event cannot be encoded")
	}
	return h.conf.Redact(b), nil
}

// answer is what a hook answers. Anything else is an error: a hook that says "allow" has
// misunderstood its role.
type answer struct {
	Refuse string `json:"refuse"`
	Note   string `json:"note"`
}

func read(b []byte) (a answer, err error) {
	if len(b) >= notify.MaxAnswer {
		return a, fault.New(fault.OutputInvalid, "its answer has more than %d bytes", notify.MaxAnswer-1)
	}
	v, err := canon.Decode(b)
	if _, object := v.(map[string]any); err != nil || !object {
		return a, fault.New(fault.OutputInvalid, `its answer is not a JSON object; expected {}, {"note": "…"} or {"refuse": "…"}`)
	}
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&a); err != nil {
		return answer{}, fault.New(fault.OutputInvalid, `its answer has other fields than "note" and "refuse", or one that is not a string`)
	}
	return a, nil
}

// post sends an event to a webhook.
func (h *hook) post(ctx context.Context, e runner.HookEvent, body []byte) ([]byte, error) {
	id := strings.Join([]string{string(e.Stage), e.Run.String(), strconv.Itoa(e.Index)}, ".")
	status, b, err := h.sender.Post(ctx, id, "application/json", body, nil)
	switch {
	case err != nil:
		return nil, err
	case status != http.StatusOK:
		return nil, fmt.Errorf("the receiver answered with status %d", status)
	}
	return b, nil
}

// run gives an event to a program.
func (h *hook) run(ctx context.Context, e runner.HookEvent, body []byte) ([]byte, error) {
	if h.conf.Box == nil {
		return nil, fault.New(fault.SandboxMissing, "programs cannot run: the sandbox is not available")
	}
	out, err := h.conf.Box.Run(ctx, e.Permit, sandbox.Command{
		Argv: h.Command, Dir: "/", Stdin: append(body, '\n'), Starts: command.Actions(h.Command, e.Env, "/"), Timeout: h.Timeout, MaxOutput: notify.MaxAnswer,
	})
	if err == nil {
		err = out.Failure("the program", "its timeout")
	}
	if err != nil {
		return nil, err
	}
	return out.Stdout.Data, nil
}

// chain is the policy of a hook's program: it starts that program alone, and sees only files that
// its command line names.
func (h *hook) chain(env policy.Env) (policy.Chain, error) {
	words, files := make([]string, len(h.Command)), []string{}
	for i, w := range h.Command {
		words[i] = command.Escape(w)
		if path.IsAbs(w) {
			files = append(files, glob.Escape(w))
		}
	}
	src, err := json.Marshal(map[string]any{"version": 1, "name": "hook " + h.Name, "files": map[string]any{"read": map[string]any{"allow": files}},
		"commands": map[string]any{"allow": []string{strings.Join(words, " ")}}})
	if err != nil {
		return nil, fault.Wrap(fault.Internal, err, "the policy of the hook cannot be written")
	}
	p, err := policy.Parse("(hook "+h.Name+")", src)
	if err != nil {
		return nil, err
	}
	rules, err := p.Bind(env)
	if err != nil {
		return nil, err
	}
	return policy.Chain{rules}, nil
}
