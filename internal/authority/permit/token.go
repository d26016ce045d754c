package permit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"sync/atomic"
	"time"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Intent names the recorded intent that a permit rests on.
type Intent struct {
	Run  string      `json:"run"`         // its ID
	Call int         `json:"call"`        // the call's index in the run, from 1
	Seq  uint64      `json:"intent"`      // of the event; 0: the call has no intent, so it can only run on this machine
	Tool tool.Digest `json:"tool_digest"` // of the tool's description
}

// Work is a node's permission for one worker: one command of one recorded call.
type Work struct {
	Intent

	Ledger   string          `json:"ledger"` // the origin of the node's ledger
	Leaf     tool.Digest     `json:"leaf"`   // of the intent in the ledger's tree
	Digest   tool.Digest     `json:"call_digest"`
	ToolID   tool.ID         `json:"tool"`
	Policies []Policy        `json:"policies"` // the chain
	Bound    policy.Env      `json:"bound"`    // of the policies
	Approved []tool.Action   `json:"approved,omitempty"`
	Limits   policy.Limits   `json:"limits"`
	Command  json.RawMessage `json:"command"`
	Tree     string          `json:"tree"` // the digest of the workspace that the command sees
	TreeSize int64           `json:"tree_size"`
	Worker   []byte          `json:"worker"`
	Node     string          `json:"node"`
	Epoch    int64           `json:"epoch"`
	NotAfter time.Time       `json:"not_after"`
}

// Policy is one policy of a chain, as it was read.
type Policy struct {
	File   string `json:"file"`
	Source string `json:"source"`
}

// Token is signed Work, or a signed renewal of it.
type Token struct {
	Body      []byte `json:"body"`
	Signature []byte `json:"signature"`
}

// renewal moves the end of a token.
type renewal struct {
	Token    tool.Digest `json:"token"` // of the token's body
	NotAfter time.Time   `json:"not_after"`
}

// Each kind of signed text has a prefix of its own, so that none can be taken for another.
const (
	tokenPrefix   = "remit permit token v1\n"
	renewalPrefix = "remit permit renewal v1\n"
)

// MaxTokenLife is the longest time that a token is valid without a renewal.
const MaxTokenLife = time.Minute

// Work returns the part of a token that follows from a permit. It fails if the call has no
// recorded intent, or if the permit cannot be expressed as a token.
func (p Permit) Work() (Work, error) {
	if !p.Live() {
		return Work{}, fault.New(fault.HandleRefused, "the call that this permit belongs to is over")
	}
	t := &p.s.terms
	if t.Intent.Seq == 0 || t.Intent.Run == "" {
		return Work{}, fault.New(fault.HandleRefused, "the call has no recorded intent, so no worker may carry it out")
	}
	if t.Chain.Own() != "" {
		return Work{}, fault.New(fault.HandleRefused, "the tool has a folder of its own on this machine, so its commands can only run here")
	}
	w := Work{Intent: t.Intent, Digest: t.Call, ToolID: t.Tool, Approved: t.Approved, Limits: t.Limits}
	w.Limits.PerTool = nil // the node counts calls
	for i, r := range t.Chain {
		if i == 0 {
			w.Bound = r.Env()
			w.Bound.Repository = "" // the worker has a copy of the workspace alone
		}
		w.Policies = append(w.Policies, Policy{File: r.Policy().File(), Source: string(r.Policy().Source())})
	}
	return w, nil
}

// SignWork makes a token.
func SignWork(key ed25519.PrivateKey, w Work) (Token, error) {
	b, err := json.Marshal(w)
	if err != nil {
		return Token{}, fault.Wrap(fault.Internal, err, "the permit token cannot be encoded")
	}
	return Token{b, ed25519.Sign(key, append([]byte(tokenPrefix), b...))}, nil
}

// Renew makes a renewal of a token.
func (t Token) Renew(key ed25519.PrivateKey, until time.Time) (Token, error) {
	b, err := json.Marshal(renewal{sha256.Sum256(t.Body), until})
	if err != nil {
		return Token{}, fault.Wrap(fault.Internal, err, "the renewal of a permit token cannot be encoded")
	}
	return Token{b, ed25519.Sign(key, append([]byte(renewalPrefix), b...))}, nil
}

// Verified is a token that a worker has verified. Only [Verify] makes one that can be
// redeemed.
type Verified struct {
	work  Work
	body  tool.Digest
	key   ed25519.PublicKey // of the node
	until *atomic.Int64     // Unix nanoseconds; nil: not verified
}

func refusedToken(format string, args ...any) error {
	return fault.New(fault.GrantInvalid, "the permit token is refused: "+format, args...)
}

// Verify checks a token: signed by the node's key, for this worker, and valid now.
func Verify(t Token, node, worker ed25519.PublicKey, now time.Time) (Verified, error) {
	if len(node) != ed25519.PublicKeySize || !ed25519.Verify(node, append([]byte(tokenPrefix), t.Body...), t.Signature) {
		return Verified{}, refusedToken("the node did not sign it")
	}
	var w Work
	d := json.NewDecoder(bytes.NewReader(t.Body))
	d.DisallowUnknownFields()
	if err := d.Decode(&w); err != nil {
		return Verified{}, refusedToken("its fields cannot be read: %v", err)
	}
	switch {
	case len(worker) != ed25519.PublicKeySize || !bytes.Equal(w.Worker, worker):
		return Verified{}, refusedToken("it is for another worker")
	case w.Run == "" || w.Call <= 0 || w.Seq == 0 || w.Leaf.IsZero() || w.Digest.IsZero() || w.Tool.IsZero() || w.Ledger == "" || w.Node == "":
		return Verified{}, refusedToken("it names no recorded intent")
	}
	if err := checkEnd(w.NotAfter, now); err != nil {
		return Verified{}, err
	}
	v := Verified{work: w, body: sha256.Sum256(t.Body), key: node, until: &atomic.Int64{}}
	v.until.Store(w.NotAfter.UnixNano())
	return v, nil
}

func checkEnd(end, now time.Time) error {
	switch {
	case !now.Before(end):
		return refusedToken("it expired at %s, and the clock here says %s", end.UTC().Format(time.RFC3339), now.UTC().Format(time.RFC3339))
	case end.Sub(now) > MaxTokenLife:
		return refusedToken("it is valid for %s, longer than %s: compare the clocks of the node and the worker", end.Sub(now).Round(time.Second), MaxTokenLife)
	}
	return nil
}

// Renewed takes a renewal, which can only move the end of this token later.
func (v Verified) Renewed(t Token, now time.Time) error {
	if v.until == nil || !ed25519.Verify(v.key, append([]byte(renewalPrefix), t.Body...), t.Signature) {
		return refusedToken("the node did not sign its renewal")
	}
	var r renewal
	if err := json.Unmarshal(t.Body, &r); err != nil || r.Token != v.body {
		return refusedToken("the renewal is of another token")
	}
	if err := checkEnd(r.NotAfter, now); err != nil {
		return err
	}
	for {
		was := v.until.Load()
		if r.NotAfter.UnixNano() <= was || v.until.CompareAndSwap(was, r.NotAfter.UnixNano()) {
			return nil
		}
	}
}

// Work is what the token permits.
func (v Verified) Work() Work { return v.work }

// Until is when the token ends, unless it is renewed.
func (v Verified) Until() time.Time {
	if v.until == nil {
		return time.Time{}
	}
	return time.Unix(0, v.until.Load())
}

// Redeem mints the permit of a verified token, for a command whose writes go to the held
// layers. Only the worker's runner may call it; a test sees to that.
func Redeem(v Verified, held Held) (Permit, error) {
	if v.until == nil || held == nil {
		return Permit{}, refusedToken("it was not verified, or nothing holds the writes")
	}
	w := v.work
	var chain policy.Chain
	for _, p := range w.Policies {
		pol, err := policy.Parse(p.File, []byte(p.Source))
		if err != nil {
			return Permit{}, err
		}
		r, err := pol.Bind(w.Bound)
		if err != nil {
			return Permit{}, err
		}
		chain = append(chain, r)
	}
	if !chain.Placement().Allows(policy.Remote) {
		return Permit{}, refusedToken("its policies do not allow commands on workers")
	}
	return Mint(Terms{Call: w.Digest, Tool: w.ToolID, Chain: chain, Approved: w.Approved, Env: w.Limits.ToolEnv(w.Bound.Workspace, w.Bound.Home),
		Limits: w.Limits, Held: held, Intent: w.Intent}), nil
}
