package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
)

// Bounds of the fields of an agent.
const (
	maxName     = 100       // bytes
	maxPrompt   = 256 << 10 // bytes
	maxSteps    = 10_000
	maxAttempts = 100
)

// The statuses of an agent.
const (
	activeAgent  = "active"
	deletedAgent = "deleted"
)

// Check reports all invalid fields of an agent.
func (s *Service) Check(a Agent) error {
	var errs fault.List
	bad := func(field, format string, args ...any) {
		errs = append(errs, fault.New(fault.AgentInvalid, format, args...).In(field))
	}
	if strings.TrimSpace(a.Name) == "" || len(a.Name) > maxName || !printable(a.Name) {
		bad("name", "a name must have 1 to %d bytes of visible characters", maxName)
	}
	if len(a.SystemPrompt) > maxPrompt || !utf8.ValidString(a.SystemPrompt) {
		bad("system_prompt", "a prompt must be UTF-8 text of at most %d bytes", maxPrompt)
	}
	l := a.Limits
	for _, n := range []struct {
		field string
		value int64
		most  int64
	}{{"steps", int64(l.Steps), maxSteps}, {"max_tokens", l.MaxTokens, 10_000_000}, {"output", int64(l.Output), 4 << 20}, {"context", l.Context, 1 << 40}, {"attempts", int64(l.Attempts), maxAttempts}} {
		if n.value < 0 || n.value > n.most {
			bad("limits."+n.field, "must be a number from 0 to %d", n.most)
		}
	}
	if a.Policy != "" {
		if _, err := policy.Parse("the agent's policy", []byte(a.Policy)); err != nil {
			errs = append(errs, coded(err, fault.PolicyInvalid).In("policy"))
		}
	}
	if a.Model != "" {
		if _, _, err := s.o.Models.Find(a.Model); err != nil {
			errs = append(errs, coded(err, fault.ModelUnknown).In("model"))
		}
	}
	if err := commitment.Check(fault.AgentInvalid, "commitments", a.Commitments); err != nil {
		errs = append(errs, coded(err, fault.AgentInvalid))
	}
	if err := checkAnswer(fault.AgentInvalid, a.Quarantine, a.Answer); err != nil {
		errs = append(errs, coded(err, fault.AgentInvalid))
	}
	if err := errs.Err(); err != nil {
		return err
	}
	if err := s.checkSecrets("commitments", toJSON(a.Commitments)); err != nil {
		return err
	}
	if err := s.checkSecrets("answer", string(a.Answer)); err != nil {
		return err
	}
	if err := s.checkSecrets("system_prompt", a.SystemPrompt, a.Name, a.Policy); err != nil {
		return err
	}
	_, err := s.resolve(a, capability.Session{Match: s.o.Match})
	return err
}

func coded(err error, otherwise fault.Code) *fault.Error {
	var e *fault.Error
	if errors.As(err, &e) {
		return e
	}
	return fault.Wrap(otherwise, err, "%v", err)
}

func printable(text string) bool {
	return utf8.ValidString(text) && !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) })
}

// CreateAgent records a new agent and gives it with its ID.
func (s *Service) CreateAgent(ctx context.Context, by Caller, a Agent) (Agent, error) {
	var err error
	if a.ID, err = newID(); err != nil {
		return a, err
	}
	a.Status, a.Version, a.Created = activeAgent, 0, s.o.Now().UTC()
	if err := s.Check(a); err != nil {
		return a, err
	}
	return s.saveAgent(ctx, by, a)
}

// saveAgent records an agent, if its record is at the version that it has.
func (s *Service) saveAgent(ctx context.Context, by Caller, a Agent) (Agent, error) {
	was := a.Version
	a.Version, a.Updated = was+1, s.o.Now().UTC()
	if a.Capabilities == nil {
		a.Capabilities = []CapabilityRef{}
	}
	doc, err := json.Marshal(a)
	if err != nil {
		return a, fault.Wrap(fault.AgentInvalid, err, "the agent cannot be written as JSON")
	}
	r, err := s.o.Record.SaveAgent(ctx, store.AgentRecord{
		ID: a.ID, Name: a.Name, Version: was, Deleted: a.Status == deletedAgent, Doc: doc, By: by.Name, Created: a.Created, Saved: a.Updated,
	})
	if err != nil {
		return a, err
	}
	return readAgent(r)
}

func readAgent(r store.AgentRecord) (Agent, error) {
	var a Agent
	if err := json.Unmarshal(r.Doc, &a); err != nil {
		return a, fault.Wrap(fault.StoreCorrupt, err, "the agent %s cannot be read", r.ID)
	}
	a.ID, a.Version, a.Created, a.Updated = r.ID, r.Version, r.Created, r.Saved
	return a, nil
}

// UpdateAgent changes an agent if it is at a version; 0: at any.
func (s *Service) UpdateAgent(ctx context.Context, by Caller, id string, ifVersion int, change func(*Agent) error) (Agent, error) {
	for try := 0; ; try++ {
		was, err := s.Agent(ctx, id)
		if err != nil {
			return was, err
		}
		if ifVersion != 0 && was.Version != ifVersion {
			return was, fault.New(fault.Stale, "the agent is at version %d, not %d", was.Version, ifVersion).WithHint("read it again, and make the change on that version")
		}
		a := was
		if err := change(&a); err != nil {
			return was, err
		}
		a.ID, a.Version, a.Created, a.Status = was.ID, was.Version, was.Created, was.Status
		if err := s.Check(a); err != nil {
			return was, err
		}
		out, err := s.saveAgent(ctx, by, a)
		if ifVersion == 0 && errors.Is(err, fault.Stale) && try < 4 {
			continue
		}
		return out, err
	}
}

// Agent finds an agent by its ID or name.
func (s *Service) Agent(ctx context.Context, id string) (Agent, error) {
	r, err := s.o.Record.Agent(ctx, id)
	if err != nil {
		return Agent{}, err
	}
	if r.Deleted {
		return Agent{}, fault.New(fault.AgentUnknown, "the agent %s was deleted", r.ID)
	}
	return readAgent(r)
}

// agentOf finds the agent of a session.
func (s *Service) agentOf(ctx context.Context, id uuid.UUID) (Agent, error) {
	return s.Agent(ctx, id.String())
}

// Agents lists agents, newest first: those older than before (uuid.Nil: from the newest
// on).
func (s *Service) Agents(ctx context.Context, before uuid.UUID, limit int) ([]Agent, error) {
	list, err := s.o.Record.Agents(ctx, store.PageFilter{Before: before, Limit: limit})
	if err != nil {
		return nil, err
	}
	out := make([]Agent, len(list))
	for i, r := range list {
		if out[i], err = readAgent(r); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// DeleteAgent deletes an agent. Its sessions stay, and take no more messages.
func (s *Service) DeleteAgent(ctx context.Context, by Caller, id string) error {
	a, err := s.Agent(ctx, id)
	if err != nil {
		return err
	}
	a.Status = deletedAgent
	_, err = s.saveAgent(ctx, by, a)
	return err
}
