package grant

import (
	"bytes"
	"encoding/json"
	"io"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/base/fault"
)

// The JSON forms of budgets and of a descent are those of the ledger: additions
// only.

type budgetsJSON struct {
	Calls     int64            `json:"calls,omitempty"`
	PerTool   []toolBudgetJSON `json:"per_tool,omitempty"`
	EachTool  int64            `json:"each_tool,omitempty"`
	BytesIn   int64            `json:"bytes_in,omitempty"`
	BytesOut  int64            `json:"bytes_out,omitempty"`
	Tokens    int64            `json:"tokens,omitempty"`
	Money     int64            `json:"money,omitempty"`
	Time      time.Duration    `json:"time,omitempty"` // nanoseconds
	Children  *int             `json:"children,omitempty"`
	Depth     *int             `json:"depth,omitempty"`
	TokensIn  int64            `json:"tokens_in,omitempty"`
	TokensOut int64            `json:"tokens_out,omitempty"`
	PerKind   []KindBudget     `json:"per_kind,omitempty"`
}

type toolBudgetJSON struct {
	Tool  string `json:"tool"`
	Calls int64  `json:"calls"`
}

// MarshalJSON writes the limits that are set, under the names that Check uses.
// Time is in nanoseconds.
func (b Budgets) MarshalJSON() ([]byte, error) {
	w := budgetsJSON{Calls: b.Calls, EachTool: b.EachTool, BytesIn: b.BytesIn, BytesOut: b.BytesOut, Tokens: b.Tokens, Money: b.Money,
		Time: b.Time, Children: b.Children, Depth: b.Depth, TokensIn: b.TokensIn, TokensOut: b.TokensOut, PerKind: b.PerKind}
	for _, t := range b.PerTool {
		w.PerTool = append(w.PerTool, toolBudgetJSON(t))
	}
	return json.Marshal(w)
}

// UnmarshalJSON reads the form of MarshalJSON. It refuses invalid budgets and unknown
// fields.
func (b *Budgets) UnmarshalJSON(text []byte) error {
	var w budgetsJSON
	if err := strict(text, &w); err != nil {
		return fault.Wrap(fault.GrantInvalid, err, "the budgets cannot be read: %s", err)
	}
	out := Budgets{Calls: w.Calls, EachTool: w.EachTool, BytesIn: w.BytesIn, BytesOut: w.BytesOut, Tokens: w.Tokens, Money: w.Money,
		Time: w.Time, Children: w.Children, Depth: w.Depth, TokensIn: w.TokensIn, TokensOut: w.TokensOut, PerKind: w.PerKind}
	for _, t := range w.PerTool {
		out.PerTool = append(out.PerTool, ToolBudget(t))
	}
	if err := out.Check(); err != nil {
		return err
	}
	*b = out
	return nil
}

// strict reads one JSON value and nothing else.
func strict(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); err != io.EOF {
		return fault.New(fault.GrantInvalid, "more follows")
	}
	return nil
}

type nodeJSON struct {
	ID        uuid.UUID `json:"id"`
	Holder    string    `json:"holder"`
	Links     int       `json:"links"`
	Budgets   Budgets   `json:"budgets"`
	NotBefore time.Time `json:"not_before,omitzero"`
	Expires   time.Time `json:"expires,omitzero"`
	Kept      bool      `json:"kept,omitempty"`
}

// EncodeDescent returns a grant's descent as JSON, the content of a run's
// ledger.PartGrant.
func EncodeDescent(nodes []Node) ([]byte, error) {
	out := make([]nodeJSON, len(nodes))
	for i, n := range nodes {
		out[i] = nodeJSON(n)
	}
	return json.Marshal(out)
}

// DecodeDescent reads the form of EncodeDescent; the error is fault.GrantInvalid. The
// result is a record and gives no authority.
func DecodeDescent(text []byte) ([]Node, error) {
	var in []nodeJSON
	if err := strict(text, &in); err != nil {
		return nil, fault.Wrap(fault.GrantInvalid, err, "the descent of a grant cannot be read: %s", fault.Message(err))
	}
	out := make([]Node, len(in))
	for i, n := range in {
		out[i] = Node(n)
	}
	return out, nil
}
