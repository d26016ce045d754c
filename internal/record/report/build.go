package report

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/commitment"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// builder turns the record into a report. All text passes its redactor.
type builder struct {
	d Data
	r *redact.Redactor
}

// Build makes the report with all steps, and with secrets taken out.
func Build(d Data) (Report, error) {
	var all allSteps
	rep, err := build(d, &all)
	return rep, err
}

// Head makes the report without steps. It does not read the calls.
func Head(d Data) Report {
	d.Calls = nil
	rep, _ := Build(d) // only reading calls fails
	return rep
}

// MakeStep makes the step of one call of the run, with secrets taken out.
func MakeStep(d Data, c Call) Step {
	b := &builder{d, d.Redactor}
	return b.step(c, b.policies())
}

// steps takes the steps of a report one after the other.
type steps interface {
	begin(rep *Report) error // before the first; rep has no steps and no summary
	add(s Step) error
	end(rep *Report) error // after the last; rep has the summary
}

// allSteps keeps all steps.
type allSteps []Step

func (a *allSteps) begin(*Report) error { *a = []Step{}; return nil }

func (a *allSteps) add(s Step) error {
	*a = append(*a, s)
	return nil
}

func (a *allSteps) end(rep *Report) error {
	rep.Steps = *a
	return nil
}

// build makes the report, and gives the steps to whoever draws them. It holds none of them.
func build(d Data, to steps) (Report, error) {
	b := &builder{d, d.Redactor}
	rep := Report{
		Version: Version, GeneratedAt: d.Generated.UTC(), Remit: d.Remit,
		Run: b.run(), Record: b.d.Record, Plan: b.plan(), Policy: b.policies(), Steps: []Step{}, Summary: Summary{Resources: newResources().sorted()},
	}
	if err := to.begin(&rep); err != nil {
		return rep, err
	}
	sum := newSummarizer(d.Run)
	if d.Calls != nil {
		for c, err := range d.Calls {
			if err != nil {
				return rep, err
			}
			s := b.step(c, rep.Policy)
			sum.add(&s)
			if err := to.add(s); err != nil {
				return rep, err
			}
		}
	}
	rep.Summary = sum.summary()
	return rep, to.end(&rep)
}

// text takes secrets out, and bytes that JSON could not carry.
func (b *builder) text(s string) string {
	return strings.ToValidUTF8(b.r.Text(s), "\uFFFD")
}

func (b *builder) run() Run {
	r := b.d.Run
	out := Run{
		ID: r.ID.String(), Name: b.text(r.Name), Mode: r.Mode.String(), Status: r.Status,
		Principal: b.text(r.Principal), Workspace: b.text(r.Workspace), Client: b.text(r.Client), StartedAt: r.Started.UTC(), Unverified: r.Unverified,
	}
	out.Phase = b.text(string(b.d.Parts[ledger.PartPhase]))
	var frozen struct {
		Digest string `json:"digest"`
	}
	if json.Unmarshal(b.d.Parts[ledger.PartFrozen], &frozen) == nil {
		out.Frozen = b.text(frozen.Digest)
	}
	if r.ReplayOf != uuid.Nil {
		out.ReplayOf = r.ReplayOf.String()
	}
	if !r.Ended.IsZero() {
		end := r.Ended.UTC()
		out.EndedAt = &end
	}
	return out
}

func digestText(d tool.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

func (b *builder) plan() Plan {
	p := Plan{Digest: digestText(b.d.Run.Plan), Source: b.text(string(b.d.Parts[ledger.PartPlan]))}
	p.Inputs, _ = b.value(b.d.Run.Parts, b.d.Parts, ledger.PartInputs, MaxPart)
	return p
}

// policies gives the chain: its digests are in the run's event, the sources in
// a part that may have been erased.
func (b *builder) policies() []Policy {
	var parts []ledger.PolicySource
	if json.Unmarshal(b.d.Parts[ledger.PartPolicy], &parts) != nil {
		parts = nil
	}
	out := make([]Policy, max(len(parts), len(b.d.Run.Policies)))
	for i := range out {
		if i < len(parts) {
			out[i] = Policy{Name: b.text(parts[i].Name), File: b.text(parts[i].File), Source: b.text(parts[i].Source)}
		}
		if i < len(b.d.Run.Policies) {
			out[i].Digest = digestText(b.d.Run.Policies[i])
		}
	}
	return out
}

func (b *builder) step(c Call, chain []Policy) Step {
	s := Step{
		Index: c.Index, ID: b.text(c.Step), Name: b.text(string(c.Loaded[ledger.PartName])), Tool: b.text(string(c.Tool)),
		Risk: c.Risk.String(), Status: c.Status.String(), StartedAt: c.Created.UTC(), DurationMS: millis(c.Duration),
		Timeline: timeline(c.Timeline), Client: b.text(c.Client), Reported: c.Reported, Erased: c.Erased, offset: max(0, c.Created.Sub(b.d.Run.Started)),
	}
	s.Hashes.Tool = digestText(c.Digest)
	asked := b
	if c.Effect == policy.Ask { // as shown to the person in the question
		asked = &builder{b.d, b.r.Known()}
	}
	s.Args, s.Hashes.Args = asked.value(c.Parts, c.Loaded, ledger.PartArgs, c.MaxArgs())
	s.Output, s.Hashes.Output = b.value(c.Parts, c.Loaded, ledger.PartOutput, MaxPart)
	if msg := c.Loaded[ledger.PartError]; c.Code != 0 || len(msg) > 0 {
		text := string(msg)
		if hint := c.Loaded[ledger.PartHint]; len(hint) > 0 {
			text += " (" + string(hint) + ")"
		}
		s.Error = &Error{c.Code.Error(), b.text(text)}
		if len(msg) == 0 && c.Code == fault.Interrupted {
			s.Error.Message = "Remit ended before the call's outcome was known"
		}
	}
	for name, note := range c.Loaded {
		if at, ok := strings.CutPrefix(name, ledger.PartNote); ok {
			if s.Notes == nil {
				s.Notes = map[string]string{}
			}
			s.Notes[b.text(at)] = b.text(string(note))
		}
	}
	if src := c.Loaded[ledger.PartCommitment]; len(src) > 0 {
		var condition commitment.Commitment
		if json.Unmarshal(src, &condition) == nil {
			s.Commitment = b.text(condition.String())
		}
	}
	if b.d.Output != nil && HasPictures(c.Call) {
		s.pictures = func() ([]Picture, error) {
			out, err := b.d.Output(c.Call)
			return Pictures(out), err
		}
	}
	s.Decision = asked.decision(c, chain)
	s.SideEffects = b.sideEffects(c)
	return s
}

// value gives a part of at most so many bytes as a value, and its hash where nothing
// was redacted.
func (b *builder) value(parts map[string]ledger.Part, loaded map[string][]byte, name string, most int64) (Value, string) {
	src, ok := loaded[name]
	if !ok || int64(len(src)) > most {
		return unloaded(parts[name], int64(len(src))), ""
	}
	var compact bytes.Buffer
	if !utf8.Valid(src) || json.Compact(&compact, src) != nil { // no JSON: shown as a text
		quoted, err := json.Marshal(b.text(string(src)))
		if err != nil {
			return Value{Bytes: int64(len(src))}, ""
		}
		return Value{JSON: quoted}, ""
	}
	clean := b.r.JSON(compact.Bytes())
	if !bytes.Equal(clean, compact.Bytes()) {
		return Value{JSON: clean}, ""
	}
	sum := sha256.Sum256(src)
	return Value{JSON: clean}, tool.Digest(sum).String()
}

func unloaded(p ledger.Part, have int64) Value {
	v := Value{Bytes: max(p.Size(), have)}
	if p.Blob != nil {
		v.Blob = hex.EncodeToString(p.Blob.Address[:])
	}
	return v
}

func (b *builder) decision(c Call, chain []Policy) Decision {
	if c.Rule == "" { // it did not come to a decision
		return Decision{}
	}
	d := Decision{Effect: c.Effect.String(), Rule: b.text(c.Rule), Approved: c.Approved}
	var refusals []ledger.Refusal
	if json.Unmarshal(c.Loaded[ledger.PartRefusals], &refusals) != nil {
		refusals = nil
	}
	for i, x := range refusals {
		refusals[i] = ledger.Refusal{Effect: b.text(x.Effect), Rule: b.text(x.Rule), Policy: b.text(x.Policy), File: b.text(x.File), Line: x.Line, Action: b.text(x.Action), Reason: b.text(x.Reason)}
	}
	d.Refusals = refusals
	if c.Rule != "" && c.Link >= 0 && c.Link < len(chain) { // without a rule it never came to a decision
		d.Policy, d.File = chain[c.Link].Name, chain[c.Link].File
	}
	if d.Line = c.Line; c.Effect == policy.Allow {
		d.Reason = "allowed by " + d.Rule
	}
	for _, x := range refusals {
		if x.Rule == d.Rule && (d.Policy == "" || x.Policy == d.Policy) {
			d.Policy, d.File, d.Line, d.Reason = x.Policy, x.File, x.Line, x.Reason
			break
		}
	}
	return d
}

func (b *builder) sideEffects(c Call) SideEffects {
	out := SideEffects{Declared: []string{}, Happened: []Happened{}}
	for _, e := range c.Declared.List() {
		out.Declared = append(out.Declared, e.String())
	}
	var tried ledger.Attempts
	if json.Unmarshal(c.Loaded[ledger.PartAttempts], &tried) != nil {
		tried = ledger.Attempts{}
	}
	for _, r := range tried.Refused {
		out.Refused = append(out.Refused, tool.Refused{Action: b.text(r.Action), Rule: b.text(r.Rule), Reason: b.text(r.Reason), Count: r.Count})
	}
	out.RefusedMore = max(0, c.Refused-(tried.Count()-tried.More)) // the event's count is always there
	var t ledger.Touched
	if json.Unmarshal(c.Loaded[ledger.PartHappened], &t) != nil {
		return out
	}
	for _, h := range t.Effects {
		out.Happened = append(out.Happened, Happened{h.Effect.String(), b.text(h.On), h.Bytes, h.Received, h.Address, b.text(h.Rule), b.text(h.Purpose), b.text(h.Place)})
	}
	out.More = t.More
	return out
}

// attempts is how often something was refused.
func (s SideEffects) attempts() int {
	return ledger.Attempts{Refused: s.Refused, More: s.RefusedMore}.Count()
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func timeline(marks []int64) Timeline {
	zero := 0.0
	t := Timeline{Created: &zero}
	for i, at := range []**float64{&t.Validating, &t.Executing, &t.Processing, &t.Logging, &t.Ended} {
		if i < len(marks) && marks[i] >= 0 {
			ms := float64(marks[i]) / 1000
			*at = &ms
		}
	}
	return t
}

// summarizer makes a summary of steps that it sees once.
type summarizer struct {
	run    ledger.Run
	counts Counts
	steps  int
	used   *usedResources
	checks []Commitment
	until  float64 // when the last step ended, in milliseconds since the run began
}

func newSummarizer(r ledger.Run) *summarizer { return &summarizer{run: r, used: newResources()} }

func (x *summarizer) add(s *Step) {
	x.steps++
	x.counts.add(s.Status)
	x.counts.Refused += s.SideEffects.attempts()
	x.used.addStep(s)
	x.addCheck(s)
	x.until = millis(s.offset) + s.DurationMS
}

// addCheck notes how a condition was checked last.
func (x *summarizer) addCheck(s *Step) {
	if s.Commitment == "" {
		return
	}
	c := Commitment{s.Commitment, s.Status == tool.Completed.String(), s.Index}
	at := slices.IndexFunc(x.checks, func(was Commitment) bool { return was.Text == c.Text })
	if at < 0 {
		x.checks = append(x.checks, c)
		return
	}
	x.checks[at] = c
}

func (x *summarizer) summary() Summary {
	s := Summary{Counts: x.counts, Commitments: x.checks, Resources: x.used.sorted(), TotalDurationMS: x.until} // still running: until the last known event
	s.Counts.Total = max(x.run.Total, x.steps)
	if !x.run.Ended.IsZero() {
		s.TotalDurationMS = millis(x.run.Ended.Sub(x.run.Started))
	}
	return s
}

func (c *Counts) add(status string) {
	switch status {
	case tool.Completed.String():
		c.Completed++
	case tool.StatusDenied.String():
		c.Denied++
	case tool.Skipped.String():
		c.Skipped++
	case tool.Failed.String():
		c.Failed++
	case tool.TimedOut.String():
		c.Failed++
		c.Timeout++
	case tool.Cancelled.String():
		c.Failed++
		c.Cancelled++
	case tool.StatusInterrupted.String():
		c.Failed++
		c.Interrupted++
	}
}
