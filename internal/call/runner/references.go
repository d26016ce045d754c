package runner

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/provenance"
	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/record/ledger"
)

// Outputs finds the stored outputs of a run's session, for arguments that refer to them.
type Outputs interface {
	// Output returns the output with an ID, or fault.NotFound.
	Output(ctx context.Context, id string) (StoredOutput, error)
}

// StoredOutput is the output of an earlier call.
type StoredOutput struct {
	Value any    // decoded JSON, of this caller alone
	Run   string // as RunName
	Call  int
	Tool  string
	// Labels are the labels of the output that the context may not have.
	Labels []string
	// Withheld: the session's model has not seen the output and must not.
	Withheld bool
}

// The members of an argument that refers to an output.
const (
	refersTo = "$output"
	refersAt = "at" // a JSON pointer into the output; missing: all of it
)

const (
	maxReferences = 16      // in one call
	maxReferred   = 1 << 20 // bytes that they stand for
)

// takeOutputs replaces the references among the call's arguments by what they stand for. The value
// is decided, approved and recorded.
func (f *flight) takeOutputs(ctx context.Context) error {
	if f.run.Outputs == nil || !bytes.Contains(f.args, []byte(`"`+refersTo+`"`)) {
		return nil
	}
	t := taking{outputs: f.run.Outputs}
	v, err := t.value(ctx, map[string]any(f.c.Args), "")
	if err != nil || len(t.found) == 0 {
		return err
	}
	args, ok := v.(map[string]any)
	if !ok {
		return fault.New(fault.ArgsInvalid, "the arguments as a whole cannot be a reference")
	}
	b, err := canon.Marshal(args)
	if err != nil {
		return fault.New(fault.ArgsInvalid, "the arguments cannot be written as JSON: %v", err)
	}
	f.c.Args, f.args, f.references = args, b, t.found
	return nil
}

// taking resolves the references of one call.
type taking struct {
	outputs Outputs
	found   []ledger.Reference
	bytes   int
}

// value gives a value with its references resolved. The value of a reference is data: it can have
// no references.
func (t *taking) value(ctx context.Context, v any, at string) (any, error) {
	switch v := v.(type) {
	case map[string]any:
		if id, within, ok := reference(v); ok {
			return t.take(ctx, id, within, at)
		}
		out := make(map[string]any, len(v))
		for _, k := range slices.Sorted(maps.Keys(v)) {
			var err error
			if out[k], err = t.value(ctx, v[k], canon.Below(at, k)); err != nil {
				return nil, err
			}
		}
		return out, nil
	case []any:
		out := make([]any, len(v))
		for i := range v {
			var err error
			if out[i], err = t.value(ctx, v[i], canon.Below(at, strconv.Itoa(i))); err != nil {
				return nil, err
			}
		}
		return out, nil
	}
	return v, nil
}

// reference reads a value that is exactly a reference.
func reference(m map[string]any) (id, at string, ok bool) {
	id, ok = m[refersTo].(string)
	if within, there := m[refersAt]; there && len(m) == 2 {
		at, isText := within.(string)
		return id, at, ok && isText
	}
	return id, "", ok && len(m) == 1
}

// take gives what a reference stands for, and notes it.
func (t *taking) take(ctx context.Context, id, within, at string) (any, error) {
	if len(t.found) == maxReferences {
		return nil, fault.New(fault.ArgsInvalid, "a call can have at most %d references to outputs", maxReferences)
	}
	o, err := t.outputs.Output(ctx, id)
	if err != nil {
		return nil, err
	}
	v, there := canon.At(o.Value, within)
	if !there {
		return nil, fault.New(fault.ArgsInvalid, "the output %.100q has nothing at %.100q", id, within).
			WithHint("at is a JSON pointer, as /content; without it, the reference stands for the whole output")
	}
	b, err := canon.Marshal(v)
	if err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the output %.100q cannot be read", id)
	}
	if t.bytes += len(b); t.bytes > maxReferred {
		return nil, fault.New(fault.ArgsInvalid, "the references of the call stand for more than %d bytes", maxReferred)
	}
	sum := sha256.Sum256(b)
	t.found = append(t.found, ledger.Reference{
		Argument: at, Output: id, At: within, SHA256: hex.EncodeToString(sum[:]), Bytes: len(b), Run: o.Run, Call: o.Call, Tool: o.Tool,
		Labels: o.Labels, Withheld: o.Withheld,
	})
	return v, nil
}

// Withheld reports whether the call was given data that its caller must not see, so that it must
// see neither the output nor the message of an error.
func (o *Outcome) Withheld() bool { return withheld(o.References) }

func withheld(list []ledger.Reference) bool {
	return slices.ContainsFunc(list, func(r ledger.Reference) bool { return r.Withheld })
}

// referred are the labels of the outputs that the call refers to, sorted.
func (f *flight) referred() []string {
	var out []string
	for _, r := range f.references {
		out = append(out, r.Labels...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// checkReferences refuses withheld data to a tool that could show it to the caller later.
func (f *flight) checkReferences() error {
	if !withheld(f.references) || f.entry.Source != "" {
		return nil
	}
	if id := string(f.entry.Spec.ID); slices.ContainsFunc(takers, func(p string) bool { return strings.HasPrefix(id, p) }) {
		return nil
	}
	return fault.New(fault.ArgsInvalid, "%s cannot be given an output that is withheld from the conversation", f.entry.Spec.ID).
		WithHint("tools of files, requests, commands and of servers can be given it")
}

// takers are the built-in tools that accept withheld data: they keep it in files, which have
// labels, or outside.
var takers = []string{"fs.", "http.", "shell.run"}

// AddReferences adds the values of withheld outputs to the values of a context, where a call's
// arguments have them. The context has those of other outputs already.
func AddReferences(x *provenance.Index, list []ledger.Reference, args tool.Args) {
	for _, r := range list {
		v, there := canon.At(map[string]any(args), r.Argument)
		if !r.Withheld || !there {
			continue
		}
		x.Add(provenance.Result{
			Origin: provenance.Origin{Kind: provenance.Outside, Run: r.Run, Call: r.Call, Tool: r.Tool},
			Output: map[string]any{strings.ReplaceAll(strings.TrimPrefix(r.At, "/"), "/", "."): v},
		})
	}
}
