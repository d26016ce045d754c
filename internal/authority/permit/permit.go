// Package permit proves that one call was decided, recorded and allowed. Only the
// runner mints a permit. Executors receive it, and the handle packages (files,
// network, processes) act only with it and call [Permit.Check] again at the moment of
// use. Start at [Permit].
package permit

import (
	"context"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Permit is authority for one call while it runs. The zero Permit permits
// nothing. Copies are the same permit: when the call ends, all of them end.
type Permit struct{ s *state }

type state struct {
	terms Terms
	ended atomic.Bool

	mu       sync.Mutex
	happened []tool.Happened
	dropped  int
	refused  []tool.Refused
	missed   int
	changed  []string
	knows    bool // changed holds all
	denied   tool.ActionKind

	in, out                    atomic.Int64
	tokensIn, tokensOut, money atomic.Int64
}

// Terms are the values from which a permit is minted.
type Terms struct {
	Call     tool.Digest   // the call's digest
	Tool     tool.ID       // the tool that is called
	Chain    policy.Chain  // the grant's policies
	Whole    policy.Chain  // Chain before labels of data narrowed it; nil: they did not
	Holder   string        // of the grant
	Approved []tool.Action // actions that need approval and that a person approved for this call
	Env      tool.Env
	Limits   policy.Limits
	Ask      Asker         // nil: approvals are not possible while the call runs
	Request  Requester     // only of a call of authority.request; nil: it cannot request authority
	Keep     Keeper        // keeps the files that tools replace; nil: none are kept
	Replaced CommandKeeper // keeps the files that commands change; nil: none are kept
	Held     Held          // the layers that writes go to; nil: writes reach the workspace
	Released bool          // actions that the policies hold back for review may be done: they were reviewed
	Intent   Intent        // the record of the call
	Scope    string        // names the session or run whose state (an open browser) the call shares; "": nothing is shared

	// Bytes that may be received and sent over the network; 0: no limit.
	BytesIn, BytesOut int64
	// Limits of model use, in tokens and in millionths of a US dollar; 0: no limit.
	Tokens, TokensIn, TokensOut, Money int64
}

// Asker asks a person to approve an action while the call runs, and waits for the
// answer.
type Asker func(ctx context.Context, a tool.Action, d policy.Decision) bool

// Requester requests authority that the run does not have, or has only with a person's
// approval, and waits for the answer. It gives none itself: every later call is decided as
// if nothing had been requested, except that it can use an approval given here.
type Requester func(ctx context.Context, w Wanted) (Reply, error)

// Wanted is the requested authority: one call, or operations.
type Wanted struct {
	Tool       tool.ID
	Args       tool.Args
	Operations []string // as reports print them: "files.write out/a.txt"
	Reason     string   // the caller's words: untrusted
}

// Reply is the answer to a request.
type Reply struct {
	Status   ReplyStatus
	Question string    // ID of the proposal; "": none was filed
	By       string    // who answered
	Reason   string    // of a refusal or of a decision
	Until    time.Time // when a proposal lapses
}

// ReplyStatus says what became of a request.
type ReplyStatus string

// The statuses of replies. The zero status grants nothing.
const (
	ReplyAllowed  ReplyStatus = "allowed"              // nobody needs to be asked
	ReplyAsks     ReplyStatus = "asks"                 // each such operation asks a person when a call needs it
	ReplyOnce     ReplyStatus = "approved"             // for one call that is exactly the requested one
	ReplySession  ReplyStatus = "approved_for_session" // for matching calls of the run
	ReplyRefused  ReplyStatus = "refused"
	ReplyProposed ReplyStatus = "proposed" // a change of the policy awaits a person
)

// Keeper keeps files before a call replaces them, so that they can be restored.
type Keeper interface {
	// Before keeps the file with a name in an open folder; real is the file's
	// absolute path. After an error the file must not be changed.
	Before(real string, dir int, name string) error
	// After notes the file's state after the change.
	After(real string, dir int, name string) error
}

// CommandKeeper keeps files before commands change them. A file that it cannot keep stops no command.
type CommandKeeper interface {
	// Keep keeps the file, folder or link at an absolute path without links.
	Keep(real string)
	// KeepMoved keeps a file, or a folder with all files in it, at its old path and at its new one.
	KeepMoved(from, to string)
	// LeaveOut notes a folder that a command changes, and of which nothing is kept.
	LeaveOut(folder string)
	// Kept notes the state of all these paths, after a command.
	Kept()
}

// Held gives access to the layers of a run with held writes.
type Held interface {
	// Enter waits until no caller has the layers alone. It returns the open
	// folder that stands for the workspace, which is valid until leave is called.
	Enter(ctx context.Context) (root int, leave func(), err error)
	// Room fails with fault.LimitReached if the run has no room for n more bytes. It
	// may be called at any time, also with 0 while a command writes.
	Room(ctx context.Context, n int64) error
	// Alone waits until no one else uses the layers, and returns their folders for a
	// mount elsewhere. They are reserved until leave is called.
	Alone(ctx context.Context) (lower, upper, work string, leave func(), err error)
}

// Mint makes a permit. Only package runner may call it; a test sees to that.
func Mint(t Terms) Permit { return Permit{&state{terms: t}} }

// End makes the permit, and every handle opened from it, refuse from now on.
func (p Permit) End() {
	if p.s != nil {
		p.s.ended.Store(true)
	}
}

// Minted reports whether the permit was minted, even if it has ended. The zero
// Permit was not.
func (p Permit) Minted() bool { return p.s != nil }

// Live reports whether the permit still permits anything.
func (p Permit) Live() bool { return p.s != nil && !p.s.ended.Load() }

// Check decides an action at the moment of use, with the facts that the handle
// has found (the real path it opened, the address it is about to dial). The error
// is fault.HandleRefused and names the rule.
func (p Permit) Check(a tool.Action) error {
	if !p.Live() {
		return fault.New(fault.HandleRefused, "%s: the call that this belongs to is over", a)
	}
	d := p.s.terms.Chain.DecideAction(a)
	if d.Effect == policy.Allow || d.Effect == policy.Ask && p.approved(a) {
		hold, rule := p.s.terms.Chain.HoldingAction(a)
		if hold == policy.NoHold || p.s.terms.Released || hold == policy.HoldAsk && p.approved(a) {
			return nil
		}
		d.Reason = rule.String() + " lets it wait for review, and the actions of a running call cannot wait"
	}
	p.s.mu.Lock()
	p.s.denied = a.Kind
	p.s.mu.Unlock()
	return fault.New(fault.HandleRefused, "%s: %s", a, d.Reason)
}

// Denied returns the kind of the last action that Check refused; the zero kind if
// there was none.
func (p Permit) Denied() tool.ActionKind {
	if p.s == nil {
		return tool.NoAction
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return p.s.denied
}

// Transferred counts bytes received and sent over the network. Above the call's
// limit it returns fault.BudgetSpent, and the transfer must stop.
func (p Permit) Transferred(in, out int64) error {
	if p.s == nil {
		return nil
	}
	t := &p.s.terms
	if n := p.s.in.Add(in); t.BytesIn > 0 && n > t.BytesIn {
		return fault.New(fault.BudgetSpent, "the call may receive %d bytes over the network: no more is left of its budgets", t.BytesIn)
	}
	if n := p.s.out.Add(out); t.BytesOut > 0 && n > t.BytesOut {
		return fault.New(fault.BudgetSpent, "the call may send %d bytes over the network: no more is left of its budgets", t.BytesOut)
	}
	return nil
}

// Traffic returns the counts of Transferred so far.
func (p Permit) Traffic() (in, out int64) {
	if p.s == nil {
		return 0, 0
	}
	return p.s.in.Load(), p.s.out.Load()
}

// approved reports whether a person approved this action for this call. Facts may
// have been added since; the action itself must be the same.
func (p Permit) approved(a tool.Action) bool {
	return slices.ContainsFunc(p.s.terms.Approved, func(ok tool.Action) bool {
		return ok.Kind == a.Kind && ok.Unknown == a.Unknown && ok.Argument == a.Argument && ok.Entry == a.Entry && ok.Path == a.Path && ok.Target == a.Target &&
			slices.Equal(ok.Argv, a.Argv) && ok.Dir == a.Dir && ok.Typed == a.Typed && ok.Model == a.Model && ok.API == a.API && ok.Database == a.Database && ok.SQL == a.SQL &&
			(ok.Real == "" || ok.Real == a.Real) && (ok.Exe == "" || ok.Exe == a.Exe)
	})
}

// ApprovedContents returns the content that the files of an action had when a person
// approved it; false if the action needed no approval.
func (p Permit) ApprovedContents(a tool.Action) ([]tool.Content, bool) {
	if p.s == nil {
		return nil, false
	}
	for _, ok := range p.s.terms.Approved {
		if ok.Kind == a.Kind && ok.Path == a.Path && ok.Dir == a.Dir && slices.Equal(ok.Argv, a.Argv) {
			return ok.Contents, true
		}
	}
	return nil, false
}

// Asker returns the way to ask for approvals while the call runs; nil: approvals
// are not possible. An approval is for one action only.
func (p Permit) Asker() Asker {
	if p.s == nil {
		return nil
	}
	return p.s.terms.Ask
}

// Requester returns the way to request authority; nil: the call cannot.
func (p Permit) Requester() Requester {
	if !p.Live() {
		return nil
	}
	return p.s.terms.Request
}

// Tool returns the ID of the called tool; "" for the zero Permit.
func (p Permit) Tool() tool.ID {
	if p.s == nil {
		return ""
	}
	return p.s.terms.Tool
}

// Chain returns the policies that limit the call, for compiling them into a
// sandbox.
func (p Permit) Chain() policy.Chain {
	if p.s == nil {
		return nil
	}
	return p.s.terms.Chain
}

// Intent names the record of the call.
func (p Permit) Intent() Intent {
	if p.s == nil {
		return Intent{}
	}
	return p.s.terms.Intent
}

// Scope names the session or run whose state the call shares with others; "": it shares
// nothing.
func (p Permit) Scope() string {
	if p.s == nil {
		return ""
	}
	return p.s.terms.Scope
}

// Authority identifies the holder and the extent of the call's authority: calls that may share a
// sign-in have the same. Labels, which change with the data that a run reads, do not change it. ok
// is false if the policies cannot be told from others: such a call shares nothing.
func (p Permit) Authority() (id string, ok bool) {
	if p.s == nil {
		return "", false
	}
	chain := p.s.terms.Whole
	if chain == nil {
		chain = p.s.terms.Chain
	}
	d, ok := chain.FilesDigest()
	return string(d[:]) + p.s.terms.Holder, ok
}

// Limits returns the limits of the call.
func (p Permit) Limits() policy.Limits {
	if p.s == nil {
		return policy.Limits{}
	}
	return p.s.terms.Limits
}

// Spend counts the cost of a model: tokens, and millionths of a US dollar. The cost
// may exceed the amount reserved for the call. All of it is charged to the budgets,
// and the answer is kept.
func (p Permit) Spend(s Spending) {
	if p.s == nil {
		return
	}
	p.s.tokensIn.Add(max(s.In, 0))
	p.s.tokensOut.Add(max(s.Out, 0))
	p.s.money.Add(max(s.Money, 0))
}

// Spending is the cost of models: tokens sent to them and answered by them, and
// millionths of a US dollar.
type Spending struct{ In, Out, Money int64 }

// Tokens are all tokens together.
func (s Spending) Tokens() int64 { return s.In + s.Out }

// Spent returns the counts of Spend so far.
func (p Permit) Spent() Spending {
	if p.s == nil {
		return Spending{}
	}
	return Spending{p.s.tokensIn.Load(), p.s.tokensOut.Load(), p.s.money.Load()}
}

// Spendable returns the limits of the call's spending on models: all tokens together, and the
// limits of each part; 0: no limit.
func (p Permit) Spendable() (tokens int64, each Spending) {
	if p.s == nil {
		return 0, Spending{}
	}
	t := &p.s.terms
	return t.Tokens, Spending{t.TokensIn, t.TokensOut, t.Money}
}

// Allowance returns how many bytes may be received and sent over the network; 0:
// no limit.
func (p Permit) Allowance() (in, out int64) {
	if p.s == nil {
		return 0, 0
	}
	return p.s.terms.BytesIn, p.s.terms.BytesOut
}

// Keeper returns the keeper of the files that the call's tools replace; nil: none
// are kept.
func (p Permit) Keeper() Keeper {
	if p.s == nil {
		return nil
	}
	return p.s.terms.Keep
}

// Replaced returns the keeper of the files that the call's commands change; nil: none are kept.
func (p Permit) Replaced() CommandKeeper {
	if p.s == nil {
		return nil
	}
	return p.s.terms.Replaced
}

// Held returns the layers that hold the call's writes; nil: writes reach the
// workspace.
func (p Permit) Held() Held {
	if p.s == nil {
		return nil
	}
	return p.s.terms.Held
}

// Env returns the call's environment.
func (p Permit) Env() tool.Env {
	if p.s == nil {
		return tool.Env{}
	}
	return p.s.terms.Env
}

// maxHappened bounds the notes of one call. Further side effects are only
// counted.
const maxHappened = 256

// Note records a side effect that happened. Handles call it at once, also if a later
// step fails.
func (p Permit) Note(h tool.Happened) {
	if p.s == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	if len(p.s.happened) < maxHappened {
		p.s.happened = append(p.s.happened, h)
		return
	}
	p.s.dropped++
	sum := tool.Happened{Effect: h.Effect, On: tool.Further, Rule: h.Rule}
	for i := maxHappened; i < len(p.s.happened); i++ {
		if in := &p.s.happened[i]; in.Effect == sum.Effect && in.Rule == sum.Rule {
			in.Bytes, in.Received = in.Bytes+h.Bytes, in.Received+h.Received
			return
		}
	}
	if len(p.s.happened) < 2*maxHappened {
		sum.Bytes, sum.Received = h.Bytes, h.Received
		p.s.happened = append(p.s.happened, sum)
	}
}

// Happened returns the notes so far, and the number that did not fit.
func (p Permit) Happened() (notes []tool.Happened, more int) {
	if p.s == nil {
		return nil, 0
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return slices.Clone(p.s.happened), p.s.dropped
}

// Change tells that the call's processes changed no other files of the machine than these, of absolute paths
// without links. A tool calls it if it knows of all that they did.
func (p Permit) Change(files []string) {
	if p.s == nil {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.changed, p.s.knows = append(p.s.changed, files...), true
}

// Changed returns the files that Change was told of; known: it was called.
func (p Permit) Changed() (files []string, known bool) {
	if p.s == nil {
		return nil, false
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return slices.Clone(p.s.changed), p.s.knows
}

// maxText bounds the texts of a refusal, in bytes, because a process chose parts
// of them.
const maxText = 1024

func bounded(s string) string { return clip.Text(strings.ToValidUTF8(s, "\uFFFD"), maxText) }

// maxRefused bounds the distinct refusals kept for one call. Further ones are
// only counted.
const maxRefused = 256

// Refuse records a refused attempt of a confined process. The component that refuses
// calls it at once. Equal refusals are only counted, so that repeated attempts cannot
// crowd out others.
func (p Permit) Refuse(r tool.Refused) {
	if p.s == nil {
		return
	}
	r.Action, r.Reason, r.Count = bounded(r.Action), bounded(r.Reason), max(r.Count, 1)
	r.Rule = bounded(r.Rule)
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	same := func(x tool.Refused) bool { return x.Action == r.Action && x.Rule == r.Rule && x.Reason == r.Reason }
	if i := slices.IndexFunc(p.s.refused, same); i >= 0 {
		p.s.refused[i].Count += r.Count
		return
	}
	if len(p.s.refused) >= maxRefused {
		p.s.missed += r.Count
		return
	}
	p.s.refused = append(p.s.refused, r)
}

// RefuseMore counts attempts whose details are unknown.
func (p Permit) RefuseMore(n int) {
	if p.s == nil || n <= 0 {
		return
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	p.s.missed += n
}

// Refused returns the refusals so far, and the number of further attempts that are
// not listed.
func (p Permit) Refused() (list []tool.Refused, more int) {
	if p.s == nil {
		return nil, 0
	}
	p.s.mu.Lock()
	defer p.s.mu.Unlock()
	return slices.Clone(p.s.refused), p.s.missed
}
