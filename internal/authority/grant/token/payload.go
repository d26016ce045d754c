package token

import (
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/base/tool"
)

// wirePayload is the encoded content of a block: a map with numbers as keys, without
// keys for empty fields. Keys 1 to 4 are the root's.
type wirePayload struct {
	Ledger    []byte       `cbor:"1,keyasint,omitempty"`
	Key       []byte       `cbor:"2,keyasint,omitempty"`
	ID        []byte       `cbor:"3,keyasint,omitempty"`
	Nonce     []byte       `cbor:"4,keyasint,omitempty"`
	Holder    string       `cbor:"5,keyasint,omitempty"`
	HolderKey []byte       `cbor:"6,keyasint,omitempty"`
	Policies  []wirePolicy `cbor:"7,keyasint,omitempty"`
	Issued    uint64       `cbor:"8,keyasint,omitempty"` // these three in milliseconds since 1970
	NotBefore uint64       `cbor:"9,keyasint,omitempty"`
	Expires   uint64       `cbor:"10,keyasint,omitempty"`
	Budgets   *wireBudgets `cbor:"11,keyasint,omitempty"`
	Pins      []wirePin    `cbor:"12,keyasint,omitempty"`
	Delegate  *[]string    `cbor:"13,keyasint,omitempty"`
	Audience  string       `cbor:"14,keyasint,omitempty"`
	Workspace string       `cbor:"15,keyasint,omitempty"`
}

type wirePolicy struct {
	_      struct{} `cbor:",toarray"`
	File   string
	Source string
}

type wirePin struct {
	_      struct{} `cbor:",toarray"`
	Tool   string
	Digest []byte
}

type wireBudgets struct {
	Calls     int64      `cbor:"1,keyasint,omitempty"`
	PerTool   []wireTool `cbor:"2,keyasint,omitempty"`
	EachTool  int64      `cbor:"3,keyasint,omitempty"`
	BytesIn   int64      `cbor:"4,keyasint,omitempty"`
	BytesOut  int64      `cbor:"5,keyasint,omitempty"`
	Tokens    int64      `cbor:"6,keyasint,omitempty"`
	Money     int64      `cbor:"7,keyasint,omitempty"`
	Time      int64      `cbor:"8,keyasint,omitempty"` // nanoseconds
	Children  *int       `cbor:"9,keyasint,omitempty"`
	Depth     *int       `cbor:"10,keyasint,omitempty"`
	TokensIn  int64      `cbor:"11,keyasint,omitempty"`
	TokensOut int64      `cbor:"12,keyasint,omitempty"`
	PerKind   []wireTool `cbor:"13,keyasint,omitempty"`
}

type wireTool struct {
	_     struct{} `cbor:",toarray"`
	Tool  string
	Calls int64
}

// payloadOf returns the encoded form of a block's content.
func payloadOf(b *Block) wirePayload {
	w := wirePayload{
		Holder: b.Holder, HolderKey: b.HolderKey, Issued: millis(b.Issued), NotBefore: millis(b.NotBefore), Expires: millis(b.Expires),
		Budgets: budgetsOf(b.Budgets), Audience: b.Audience, Workspace: b.Workspace,
	}
	for _, p := range b.Policies {
		w.Policies = append(w.Policies, wirePolicy{File: p.File, Source: p.Source})
	}
	for id, d := range b.Pins {
		w.Pins = append(w.Pins, wirePin{Tool: string(id), Digest: d[:]})
	}
	slices.SortFunc(w.Pins, func(x, y wirePin) int { return strings.Compare(x.Tool, y.Tool) })
	if b.Delegate != nil {
		w.Delegate = &b.Delegate
	}
	return w
}

// block returns the content of an encoded block, without the root's part.
func (w *wirePayload) block() (Block, error) {
	b := Block{
		Holder: w.Holder, Issued: timeOf(w.Issued), NotBefore: timeOf(w.NotBefore), Expires: timeOf(w.Expires),
		Budgets: w.Budgets.budgets(), Audience: w.Audience, Workspace: w.Workspace,
	}
	if len(w.HolderKey) > 0 {
		b.HolderKey = w.HolderKey
	}
	for _, p := range w.Policies {
		b.Policies = append(b.Policies, Policy{p.File, p.Source})
	}
	for _, p := range w.Pins {
		if len(p.Digest) != len(tool.Digest{}) {
			return Block{}, malformed("the digest of a tool has %d bytes", len(p.Digest)).In("pins")
		}
		if b.Pins == nil {
			b.Pins = make(map[tool.ID]tool.Digest, len(w.Pins))
		}
		b.Pins[tool.ID(p.Tool)] = tool.Digest(p.Digest)
	}
	if w.Delegate != nil {
		b.Delegate = append([]string{}, *w.Delegate...)
	}
	return b, nil
}

// maxMillis is the end of the year 9999.
const maxMillis = 253402300799999

// millis encodes a time. A time that cannot be encoded becomes a value beyond the
// maximum, which is refused.
func millis(t time.Time) uint64 {
	if t.IsZero() {
		return 0
	}
	if ms := t.UnixMilli(); ms > 0 && ms <= maxMillis {
		return uint64(ms)
	}
	return maxMillis + 1
}

func timeOf(ms uint64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(int64(min(ms, maxMillis+1))).UTC() //nolint:gosec // far below the largest
}

func budgetsOf(b grant.Budgets) *wireBudgets {
	if b.IsZero() {
		return nil
	}
	w := &wireBudgets{
		Calls: b.Calls, EachTool: b.EachTool, BytesIn: b.BytesIn, BytesOut: b.BytesOut, Tokens: b.Tokens, Money: b.Money,
		Time: int64(b.Time), Children: b.Children, Depth: b.Depth, TokensIn: b.TokensIn, TokensOut: b.TokensOut,
	}
	for _, k := range b.PerKind {
		w.PerKind = append(w.PerKind, wireTool{Tool: k.Kind, Calls: k.Calls})
	}
	for _, t := range b.PerTool {
		w.PerTool = append(w.PerTool, wireTool{Tool: t.Tool, Calls: t.Calls})
	}
	return w
}

func (w *wireBudgets) budgets() grant.Budgets {
	if w == nil {
		return grant.Budgets{}
	}
	b := grant.Budgets{
		Calls: w.Calls, EachTool: w.EachTool, BytesIn: w.BytesIn, BytesOut: w.BytesOut, Tokens: w.Tokens, Money: w.Money,
		Time: time.Duration(w.Time), Children: w.Children, Depth: w.Depth, TokensIn: w.TokensIn, TokensOut: w.TokensOut,
	}
	for _, k := range w.PerKind {
		b.PerKind = append(b.PerKind, grant.KindBudget{Kind: k.Tool, Calls: k.Calls})
	}
	for _, t := range w.PerTool {
		b.PerTool = append(b.PerTool, grant.ToolBudget{Tool: t.Tool, Calls: t.Calls})
	}
	return b
}

// isV7 reports whether an ID is a UUIDv7, as a grant's must be.
func isV7(b []byte) bool {
	id, err := uuid.FromBytes(b)
	return err == nil && id.Version() == 7 && id.Variant() == uuid.RFC4122
}
