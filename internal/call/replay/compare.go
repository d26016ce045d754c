package replay

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Mismatch is one difference between a replay and the record.
type Mismatch struct {
	Index int    `json:"index"` // the call, from 1; 0: the run as a whole
	What  string `json:"what"`  // "plan", "tool", "arguments", "decision", "status", "output", ...
	Was   string `json:"was"`
	Is    string `json:"is"`
}

func (m Mismatch) String() string {
	where := "the run"
	if m.Index > 0 {
		where = fmt.Sprintf("call %d", m.Index)
	}
	return fmt.Sprintf("%s: %s differs: recorded %s, now %s", where, m.What, m.Was, m.Is)
}

// Err is the mismatch as an error.
func (m Mismatch) Err() error { return fault.New(fault.ReplayMismatch, "%s", m) }

// Compare returns the first difference between a recorded call and the one that
// the replay just made, or nil.
func (r *Recording) Compare(ctx context.Context, c runner.Call, o runner.Outcome) (*Mismatch, error) {
	rec, ok := r.calls[o.Index]
	if !ok {
		return &Mismatch{Index: o.Index, What: "step", Was: "no such call", Is: string(o.Tool)}, nil
	}
	was, err := r.texts(ctx, rec)
	if err != nil {
		return nil, err
	}
	out := []byte(nil)
	if o.Output != nil {
		if out, err = canon.Marshal(o.Output); err != nil {
			return nil, err
		}
	}
	refs, err := r.sameReferences(ctx, rec, o)
	if err != nil || refs != nil {
		return refs, err
	}
	status := rec.Status
	if status == tool.Pending {
		status = tool.StatusInterrupted
	}
	if status == tool.Skipped && o.Status == tool.Skipped {
		return nil, nil // why it was skipped may be a matter of timing
	}
	if rec.Tool == c.Tool && !rec.Digest.IsZero() && o.Digest.IsZero() && errors.Is(o.Err, fault.ToolUnknown) {
		return &Mismatch{Index: o.Index, What: "tool", Was: fmt.Sprintf("%s (%s)", c.Tool, rec.Digest), Is: "none: " + fault.Message(o.Err)}, nil
	}
	checks := []struct {
		what    string
		was, is string
		hidden  bool // compared by hash: the value may be large or private
	}{
		{"step", rec.Step, c.Step, false},
		{"tool", string(rec.Tool), string(c.Tool), false},
		{"arguments", was.args, string(o.Args), true},
		{"tool's digest", digestText(rec.Digest), digestText(o.Digest), false},
		{"decision", decision(rec.Effect.String(), rec.Rule, rec.Approved), decision(o.Decision.Effect.String(), ruleText(o), o.Approved && !askedByClient(rec)), false},
		{"labels", strings.Join(rec.Labels, " "), strings.Join(o.Labels, " "), false},
		{"origins", was.origins, origins(o.Decision.Steered), false},
		{"status", status.String(), o.Status.String(), false},
		{"error", was.err, errText(o.Err, was.err), false},
		{"output", was.output, string(out), true},
		{"number of refusals", strconv.Itoa(rec.Refused), strconv.Itoa(o.Attempts.Count()), false},
	}
	for _, k := range checks {
		if k.was == k.is {
			continue
		}
		m := &Mismatch{Index: o.Index, What: k.what, Was: quoteOrNone(k.was), Is: quoteOrNone(k.is)}
		if k.hidden {
			m.Was, m.Is = hashText(k.was), hashText(k.is)
		}
		return m, nil
	}
	return nil, nil
}

// recordedTexts are the parts of a recorded call that are loaded to compare them.
type recordedTexts struct{ args, output, err, origins string }

func (r *Recording) texts(ctx context.Context, c ledger.Call) (t recordedTexts, err error) {
	args, err := r.part(ctx, c, ledger.PartArgs)
	if err != nil {
		return t, err
	}
	out, err := r.part(ctx, c, ledger.PartOutput)
	if err != nil {
		return t, err
	}
	flow, err := r.flow(ctx, c)
	if err != nil {
		return t, err
	}
	t = recordedTexts{args: string(args), output: string(out), origins: origins(flow.Steered)}
	t.err, err = r.errorText(ctx, c)
	return t, err
}

// sameReferences compares the outputs that arguments refer to, and their labels, where the replay
// resolved them again. One that was erased since is a difference, too.
func (r *Recording) sameReferences(ctx context.Context, rec ledger.Call, o runner.Outcome) (*Mismatch, error) {
	gone := errors.Is(o.Err, fault.NotFound) && rec.Code != fault.NotFound
	if len(o.References) == 0 && !gone {
		return nil, nil //nolint:nilnil // the arguments are compared
	}
	list, err := r.references(ctx, rec)
	if gone && len(list) > 0 && len(o.References) == 0 {
		return &Mismatch{Index: o.Index, What: "references", Was: referenceTexts(list), Is: fault.Message(o.Err)}, err
	}
	if err != nil || slices.EqualFunc(list, o.References, func(a, b ledger.Reference) bool { return referenceText(a) == referenceText(b) }) {
		return nil, err
	}
	return &Mismatch{Index: o.Index, What: "references", Was: referenceTexts(list), Is: referenceTexts(o.References)}, nil
}

func referenceText(r ledger.Reference) string { return fmt.Sprintf("%+v", r) }

func referenceTexts(list []ledger.Reference) string {
	out := make([]string, len(list))
	for i, r := range list {
		out[i] = referenceText(r)
	}
	return quoteOrNone(strings.Join(out, " | "))
}

func (r *Recording) part(ctx context.Context, c ledger.Call, name string) ([]byte, error) {
	p, ok := c.Parts[name]
	if !ok {
		return nil, nil
	}
	return r.src.Load(ctx, p)
}

func ruleText(o runner.Outcome) string {
	if o.Decision.Rule == nil {
		return ""
	}
	return o.Decision.Rule.String()
}

func decision(effect, rule string, approved bool) string {
	s := effect
	if rule != "" {
		s += " by " + rule
	}
	if approved {
		s += ", approved"
	}
	return s
}

func digestText(d tool.Digest) string {
	if d.IsZero() {
		return ""
	}
	return d.String()
}

// errText is how an error is recorded. An older record has the hint to operators,
// too, or another reason where no policy applied or a name is sensitive.
func errText(err error, was string) string {
	switch {
	case err == nil:
		return ""
	case was == fault.Message(err):
		return was
	}
	text := fault.ForModel(err)
	before, after, found := strings.Cut(text, policy.NoPolicy)
	if found && strings.HasPrefix(was, before+"no entry of tools.allow matches ") && strings.HasSuffix(was, after) {
		return was
	}
	if before, _, found := strings.Cut(was, " is a sensitive name: an entry must spell it, "); found {
		for _, why := range policy.Sensitivities() {
			if strings.HasPrefix(text, before+" "+why) {
				return was
			}
		}
	}
	return text
}

func quoteOrNone(s string) string {
	if s == "" {
		return "none"
	}
	return fmt.Sprintf("%q", s)
}

func hashText(s string) string {
	if s == "" {
		return "none"
	}
	return runner.DigestOf([]byte(s)).String() + fmt.Sprintf(" (%d bytes)", len(s))
}
