package agent

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/model"
)

// setup holds the parts with which a session's turns are carried out. It is made for each run.
type setup struct {
	session uuid.UUID
	agent   Agent
	model   string
	system  string
	tools   []model.Tool // as the model sees them
	offers  map[string]capability.Offer
	own     []permit.Tool // not in the catalog
	hooks   []runner.Hook // of the capabilities
	limits  Limits
	chat    *chat

	commitments []commitment.Commitment // of the agent, and of the sub-agent
	answer      json.RawMessage         // the schema of a quarantined sub-agent's answer; nil: it is none

	// Recorded with the run, so that a replay has the same tools:
	matched map[string][]tool.ID     // tools by the patterns that matched them
	sources map[string]string        // texts of capabilities that are files, by their IDs
	brought map[tool.ID]RecordedTool // tools of sources

	toolsDigest tool.Digest
}

// match gives a function that finds tools of the catalog by a pattern. In a replay it
// finds those that the recorded run found.
func (set *setup) match(find func(string) []tool.ID) func(string) []tool.ID {
	if recorded := set.matched; recorded != nil {
		return func(pattern string) []tool.ID { return recorded[pattern] }
	}
	set.matched = map[string][]tool.ID{}
	if find == nil {
		return nil
	}
	return func(pattern string) []tool.ID {
		ids := find(pattern)
		set.matched[pattern] = ids
		return ids
	}
}

func (set *setup) addSource(id, text string) {
	if set.sources == nil {
		set.sources = map[string]string{}
	}
	set.sources[id] = text
}

// Defaults of an agent's limits, if neither it nor the settings have one.
const (
	defaultSteps    = 50
	defaultOutput   = 16 << 10
	defaultContext  = 100_000
	defaultAttempts = 3
	answerReserve   = 8_000 // tokens kept free for an answer
)

// prepare makes the setup of a session from its agent as it is now.
func (s *Service) prepare(id uuid.UUID, a Agent, d sessionDoc, kids capability.Children) (*setup, error) {
	name := cmp.Or(a.Model, s.o.Models.Default)
	if _, _, err := s.o.Models.Find(name); err != nil {
		return nil, err
	}
	in := RunInputs{Session: id, Agent: a, Model: name, Limits: s.limits(a)}
	if d.Child != nil {
		in.Commitments, in.Answer = d.Child.Commitments, d.Child.Answer
	}
	return s.assemble(in, kids)
}

// assemble makes a setup from the inputs of a run.
func (s *Service) assemble(in RunInputs, kids capability.Children) (*setup, error) {
	id, a := in.Session, in.Agent
	set := &setup{session: id, agent: a, model: in.Model, limits: in.Limits, offers: map[string]capability.Offer{}, matched: in.Matched, brought: in.Tools,
		commitments: slices.Concat(a.Commitments, in.Commitments), answer: canonical(in.Answer)}
	with := capability.Session{ID: id, Match: set.match(s.o.Match), Children: kids}
	if s.o.Files != nil {
		with.Files = s.o.Files(id)
	}
	res, err := s.resolve(a, with)
	if err != nil {
		return nil, err
	}
	for _, p := range res.Parts {
		if p.Part.Source != "" {
			set.addSource(p.Info.ID, p.Part.Source)
		}
		if h, ok := p.Hook(); ok {
			set.hooks = append(set.hooks, h)
		}
	}
	set.system = prompt(res, a.SystemPrompt)
	reader := newReadOutput(outputs{s.o.Record, id}.read, set.limits.Output)
	own := []capability.Offer{capability.Own(readName, reader)}
	if set.quarantined() {
		own = append(own, capability.Own(answerName, newAnswer(set.answer)))
		set.system = strings.TrimSpace(set.system + "\n\n" + answerPrompt)
	}
	for _, o := range append(res.Tools, own...) {
		if err := s.offer(set, o); err != nil {
			return nil, err
		}
	}
	set.chat = &chat{}
	set.own = append(set.own, s.o.Chat(ChatRequest{Session: id, Request: set.chat.request}))
	set.toolsDigest = textDigest(toJSON(set.tools))
	return set, nil
}

// resolve finds an agent's capabilities.
func (s *Service) resolve(a Agent, with capability.Session) (capability.Resolved, error) {
	refs := make([]capability.Ref, len(a.Capabilities))
	for i, c := range a.Capabilities {
		refs[i] = capability.Ref{Ref: c.Ref, Config: c.Config}
	}
	return capability.Resolve(s.o.Capabilities, refs, with)
}

// offer adds a tool to a setup.
func (s *Service) offer(set *setup, o capability.Offer) error {
	var spec *tool.Spec
	if o.Tool != nil {
		spec = o.Tool.Spec()
		set.own = append(set.own, o.Tool)
	} else {
		var err error
		if spec, err = s.catalogTool(set, o.ID); err != nil {
			return fault.Wrap(fault.CodeOf(err), err, "the agent's tool %q cannot be used: %s", o.Name, fault.Message(err))
		}
	}
	if _, twice := set.offers[o.Name]; twice {
		return fault.New(fault.CapabilityInvalid, "two tools of the agent have the name %q", o.Name).
			WithHint("rename one of them with %s in the configuration of its capability", capability.RenameKey)
	}
	set.offers[o.Name] = o
	set.tools = append(set.tools, model.Tool{Name: o.Name, Description: spec.Description, Input: o.Input(spec.Input)})
	return nil
}

// catalogTool finds a tool of the catalog. In a replay, a tool of a source is as it was.
func (s *Service) catalogTool(set *setup, id tool.ID) (*tool.Spec, error) {
	if t, ok := set.brought[id]; ok {
		return &tool.Spec{ID: id, Description: t.Description, Input: json.RawMessage(t.Input)}, nil
	}
	e, err := s.o.Lookup(id)
	if err != nil {
		return nil, err
	}
	if e.Source != "" {
		if set.brought == nil {
			set.brought = map[tool.ID]RecordedTool{}
		}
		set.brought[id] = RecordedTool{e.Spec.Description, string(e.Spec.Input), e.Spec.Effects.List()}
	}
	return e.Spec, nil
}

// readsOnly reports whether calls of a tool change nothing, so that they may run in
// parallel.
func (l *loop) readsOnly(id tool.ID) bool {
	if t, ok := l.set.brought[id]; ok {
		return !tool.EffectSet(t.Effects...).Effectful()
	}
	e, err := l.run.Lookup(id)
	return err == nil && !e.Spec.Effects.Effectful()
}

// limits gives the limits of an agent's turns, with their defaults.
func (s *Service) limits(a Agent) Limits {
	l, d := a.Limits, s.o.Defaults
	l.Steps = cmp.Or(l.Steps, d.Steps, defaultSteps)
	l.MaxTokens = cmp.Or(l.MaxTokens, d.MaxTokens)
	l.Output = cmp.Or(l.Output, d.Output, defaultOutput)
	l.Attempts = cmp.Or(l.Attempts, d.Attempts, defaultAttempts)
	known := s.o.Models.Limits(cmp.Or(a.Model, s.o.Models.Default)).Context
	if known > 0 {
		known = max(known-max(l.MaxTokens, answerReserve), known/2) * 9 / 10
	}
	if l.Context = cmp.Or(l.Context, d.Context, known, defaultContext); known > 0 {
		l.Context = min(l.Context, known)
	}
	return l
}

// prompt joins the prompts of capabilities, each in a block of its own, and the agent's.
func prompt(res capability.Resolved, own string) string {
	var b strings.Builder
	for _, p := range res.Parts {
		if text := strings.TrimSpace(p.Part.Prompt); text != "" {
			fmt.Fprintf(&b, "<capability id=%q>\n%s\n</capability>\n\n", p.Info.ID, text)
		}
	}
	b.WriteString(own)
	return strings.TrimSpace(b.String())
}

// ChatRequest asks for a session's tool model.chat.
type ChatRequest struct {
	Session uuid.UUID
	// Request gives the request that a call stands for. The call names the conversation
	// by digests only, so that the record does not repeat it.
	Request func(messages int) (OpenRequest, error)
}

// OpenRequest is a request to a model, with the digests by which a call names it.
type OpenRequest struct {
	model.Request

	Messages, System, Tools tool.Digest
}

// chatID is the tool that calls models.
const chatID tool.ID = "model.chat"

// chat has the request that the call of model.chat under way stands for. A request that
// is set does not change any more.
type chat struct{ open atomic.Pointer[OpenRequest] }

// ask sets the request and gives the arguments that stand for it.
func (c *chat) ask(set *setup, req model.Request, digest tool.Digest) tool.Args {
	asked := OpenRequest{Request: req, Messages: digest, System: textDigest(req.System), Tools: set.toolsDigest}
	if len(req.Tools) == 0 {
		asked.Tools = textDigest("")
	}
	c.open.Store(&asked)
	args := tool.Args{
		"model": set.model, "session": set.session.String(), "upto": jsonNumber(int64(len(req.Messages))),
		"digest": digest.String(), "system_digest": asked.System.String(), "tools_digest": asked.Tools.String(),
	}
	if req.MaxTokens > 0 {
		args["max_tokens"] = jsonNumber(req.MaxTokens)
	}
	return args
}

// request gives the request that a call stands for. The tool compares the digests.
func (c *chat) request(messages int) (OpenRequest, error) {
	if a := c.open.Load(); a != nil && len(a.Request.Messages) == messages {
		return *a, nil
	}
	return OpenRequest{}, fault.New(fault.ArgsInvalid, "the session has no open request with %d messages", messages).In("upto")
}

func jsonNumber(n int64) json.Number { return json.Number(strconv.FormatInt(n, 10)) }

func textDigest(s string) tool.Digest { return sha256.Sum256([]byte(s)) }
