package agent

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/record/ledger"
	"github.com/remitrun/remit/internal/tools/model"
)

// outputs finds the stored outputs of a session: long ones and outputs withheld from its model. It
// implements [runner.Outputs].
type outputs struct {
	record  Record
	session uuid.UUID
}

var _ runner.Outputs = outputs{}

// Output implements [runner.Outputs].
func (o outputs) Output(ctx context.Context, id string) (runner.StoredOutput, error) {
	out, _, err := o.find(ctx, id)
	return out, err
}

// read gives an output for the session's model, as JSON.
func (o outputs) read(ctx context.Context, id string) ([]byte, error) {
	out, b, err := o.find(ctx, id)
	if err == nil && out.Withheld {
		err = fault.New(fault.ArgsInvalid, "the output %.100q is withheld from the conversation", id).
			WithHint("give it to a tool: %s in place of an argument", `{"$output": "`+id+`"}`)
	}
	return b, err
}

// find finds an output of the session, or of the sessions that it is a fork of.
func (o outputs) find(ctx context.Context, id string) (runner.StoredOutput, []byte, error) {
	for at := o.session; at != uuid.Nil && validOutputID(id); {
		out, b, err := o.findIn(ctx, at, id)
		if b != nil || err != nil {
			return out, b, err
		}
		if out, b, err = o.answers(ctx, at, id); b != nil || err != nil {
			return out, b, err
		}
		r, err := o.record.Session(ctx, at.String())
		if err != nil {
			return out, nil, err
		}
		if r.Erased() {
			break
		}
		d, err := readSession(r)
		if err != nil {
			return out, nil, err
		}
		at = d.ForkOf
	}
	return runner.StoredOutput{}, nil, fault.New(fault.NotFound, "unknown output %.100q: the session has no output with this ID", id).
		WithHint("use the output_id of a shortened output")
}

// findIn finds an output of one session: by the message with its ID, and the call that this message
// is the result of.
func (o outputs) findIn(ctx context.Context, session uuid.UUID, id string) (runner.StoredOutput, []byte, error) {
	var cut cutOutput
	call, answer := "", 0
	for r, err := range o.record.Messages(ctx, session, 0, true) {
		if err != nil {
			return runner.StoredOutput{}, nil, err
		}
		if call == "" && !bytes.Contains(r.Doc, []byte(id)) {
			continue
		}
		m, err := decode(r)
		if err != nil {
			return runner.StoredOutput{}, nil, err
		}
		if call == "" && m.Role == model.ToolRole {
			if cut = (cutOutput{}); json.Unmarshal([]byte(m.Text), &cut) == nil && (cut.Truncated || cut.Withheld) && cut.ID == id {
				call = m.CallID
			}
		} else if call != "" && m.Role == model.Assistant {
			answer = r.Number
			break
		}
	}
	if answer == 0 {
		return runner.StoredOutput{}, nil, nil
	}
	step := StepOf(answer, call)
	return o.load(ctx, session, step, func(b []byte) bool { return outputID(b) == id || withheldID(session, step) == id })
}

// load loads the newest output of a step that is meant. It fails with fault.NotFound if the outputs
// of the step were erased.
func (o outputs) load(ctx context.Context, session uuid.UUID, step string, meant func([]byte) bool) (runner.StoredOutput, []byte, error) {
	var out runner.StoredOutput
	erased := false
	runs, err := o.record.SessionRuns(ctx, session)
	if err != nil {
		return out, nil, err
	}
	for i := len(runs) - 1; i >= 0; i-- {
		for c, err := range o.record.Calls(ctx, runs[i].Seq) {
			if err != nil {
				return out, nil, err
			}
			p, ok := c.Parts[ledger.PartOutput]
			erased = erased || c.Step == step && c.Erased
			if c.Step != step || !ok {
				continue
			}
			b, err := o.record.Load(ctx, p)
			if err != nil {
				return out, nil, err
			}
			if meant(b) {
				out, err = o.stored(ctx, runs[i], &c, b)
				return out, b, err
			}
		}
	}
	if erased {
		return out, nil, fault.New(fault.NotFound, "the output was erased from the record").WithHint("make the call again that gave it")
	}
	return out, nil, nil
}

// stored describes the output of a call. The context of its session has its labels, except the
// labels of withheld outputs that it was made of.
func (o outputs) stored(ctx context.Context, run ledger.Run, c *ledger.Call, b []byte) (runner.StoredOutput, error) {
	out := runner.StoredOutput{Run: runner.RunName(run.ID), Call: c.Index, Tool: string(c.Tool)}
	refs, err := references(ctx, o.record, c)
	if err == nil && c.Tool == answerID { // of another context
		out.Labels, err = o.contextLabels(ctx, c)
	}
	if err != nil {
		return out, err
	}
	for _, r := range refs {
		out.Labels = append(out.Labels, r.Labels...)
		out.Withheld = out.Withheld || r.Withheld
	}
	out.Value, err = canon.Decode(b)
	return out, err
}

// references reads the outputs that a call's arguments refer to.
func references(ctx context.Context, rec partReader, c *ledger.Call) (list []ledger.Reference, err error) {
	p, ok := c.Parts[ledger.PartReferences]
	if !ok {
		return nil, nil
	}
	b, err := rec.Load(ctx, p)
	if err == nil {
		err = json.Unmarshal(b, &list)
	}
	if err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "the references of call %d cannot be read", c.Index)
	}
	return list, nil
}

// withheldID names a withheld output by its place, so that the name says nothing of its content.
func withheldID(session uuid.UUID, step string) string {
	sum := sha256.Sum256([]byte(session.String() + " " + step))
	return outputPrefix + hex.EncodeToString(sum[:outputDigits/2])
}

// The form of an output's ID.
const (
	outputPrefix = "out_"
	outputDigits = 16
)

// validOutputID reports whether a text has the form of an output's ID.
func validOutputID(id string) bool {
	if len(id) != len(outputPrefix)+outputDigits || id[:len(outputPrefix)] != outputPrefix {
		return false
	}
	_, err := hex.DecodeString(id[len(outputPrefix):])
	return err == nil
}

// withheldResult is the result of a call that was given withheld data: the model gets neither the
// output nor the text of an error.
func withheldResult(o runner.Outcome, session uuid.UUID, step string) result {
	r := result{status: o.Status, err: o.Err}
	if o.Status != tool.Completed {
		r.text = toJSON(errorResult{errorBody{Code: fault.CodeOf(o.Err).Error(), Status: o.Status.String(), Message: withheldError}})
		return r
	}
	r.text = toJSON(cutOutput{Withheld: true, ID: withheldID(session, step), How: withheldHow})
	return r
}

const (
	withheldError = "the call was given an output that is withheld from the conversation, and so is what the error says"
	withheldHow   = "it was made of an output that is withheld from the conversation; give it to a tool, as {\"$output\": ID} in place of an argument"
)
