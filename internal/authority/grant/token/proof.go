package token

import (
	"bytes"
	"container/heap"
	"crypto/ed25519"
	"crypto/sha256"
	"io"
	"sync"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// DefaultWindow is how far a proof's time may be from the verifier's.
const DefaultWindow = 30 * time.Second

// MaxProof bounds the text of a holder's proof.
const MaxProof = 1 << 10

// Held is the evidence that the user of a key-bound token is its holder. The zero
// Held proves nothing.
type Held struct {
	Proof   string        // the result of [Prove]
	Request tool.Digest   // the request that the proof must name; zero: any request
	Window  time.Duration // maximum difference between the proof's time and the verifier's; 0: DefaultWindow
	Seen    Seen          // remembers proofs; if nil, every proof is refused
	// Proven says that the caller has verified a proof of another form for this use, such as
	// that of an HTTP request.
	Proven bool
}

// Seen remembers a proof until a time and reports whether it is fresh: not
// remembered before. [Replay.Use] remembers within one process. A ledger can
// remember for all its processes.
type Seen func(id [32]byte, at, until time.Time) (fresh bool, err error)

// Proving describes the use that a holder's proof is for.
type Proving struct {
	At       time.Time
	Audience string      // who will verify the proof; another verifier refuses it
	Request  tool.Digest // the request; zero: any
}

// wireHeld is the encoded form of a proof: [version, digest of the token,
// audience, milliseconds, nonce, request, signature].
type wireHeld struct {
	_        struct{} `cbor:",toarray"`
	Version  uint64
	Token    []byte
	Audience string
	Time     uint64
	Nonce    []byte
	Request  []byte
	Sig      []byte
}

// Prove makes a proof, for one use, that the token's user has the private key. The
// proof does not reveal the key.
func Prove(token string, holder ed25519.PrivateKey, p Proving, rand io.Reader) (string, error) {
	c, err := Decode(token)
	if err != nil {
		return "", err
	}
	if len(holder) != ed25519.PrivateKeySize || !c.holderKey.Equal(holder.Public()) {
		return "", fault.New(fault.GrantHolder, "the token is not bound to this key").
			WithHint("use the private key that the token was issued for")
	}
	if p.Audience != "" && !isPlainText(p.Audience, MaxText) || millis(p.At) == 0 || millis(p.At) > maxMillis {
		return "", fault.New(fault.Usage, "a proof is for an audience of at most %d bytes that can be seen, at a time", MaxText)
	}
	w := &wireHeld{Version: version, Token: c.digest[:], Audience: p.Audience, Time: millis(p.At), Nonce: make([]byte, nonceSize), Request: p.Request[:]}
	if err := draw(rand, w.Nonce); err != nil {
		return "", err
	}
	w.Sig = ed25519.Sign(holder, w.message())
	return ProofPrefix + text64.EncodeToString(encoded(w)), nil
}

// readProof decodes a proof. It accepts only one spelling.
func readProof(s string) (*wireHeld, error) {
	if len(s) > MaxProof {
		return nil, fault.New(fault.GrantTooLarge, "the proof has %d bytes, it may have %d", len(s), MaxProof)
	}
	b, err := bytesOf(s, ProofPrefix, "proof")
	if err != nil {
		return nil, err
	}
	w := &wireHeld{}
	err = decMode.Unmarshal(b, w)
	if err != nil || !bytes.Equal(encoded(w), b) || w.Version != version || w.Time == 0 || w.Time > maxMillis ||
		len(w.Token) != len(tool.Digest{}) || len(w.Request) != len(tool.Digest{}) || len(w.Nonce) != nonceSize || len(w.Sig) != ed25519.SignatureSize {
		return nil, malformed("the holder's proof cannot be read: it is cut off or was changed").WithHint("make a new one")
	}
	return w, nil
}

// verify checks that the holder makes this use, if the token is bound to a key.
func (h *Held) verify(c *Content, u Use) error {
	if c.holderKey == nil {
		if h.Proof != "" {
			return notHolder("the token is bound to no key, yet a proof came with it", "use it without a proof")
		}
		return nil
	}
	if h.Proven {
		return nil
	}
	if h.Proof == "" {
		return notHolder("the token is bound to its holder's key, and no proof came with it", "use it where the holder's private key is")
	}
	w, err := readProof(h.Proof)
	if err != nil {
		return err
	}
	msg := w.message()
	switch {
	case !ed25519.Verify(c.holderKey, msg, w.Sig):
		return notHolder("the proof was not made with the key that the token is bound to", "use the private key that the token was issued for")
	case tool.Digest(w.Token) != c.digest:
		return notHolder("the proof is for another token", "make one for this token")
	case w.Audience != u.Audience:
		return fault.New(fault.GrantAudience, "the proof is for %q, not for %q", w.Audience, u.Audience).WithHint("make a proof for this audience")
	case tool.Digest(w.Request) != h.Request && tool.Digest(w.Request) != tool.Digest{}:
		return notHolder("the proof is for another request", "make one for this request")
	case tool.Digest(w.Request) != h.Request:
		return notHolder("the proof is for no request in particular", "make one for this request")
	}
	return h.fresh(sha256.Sum256(msg), timeOf(w.Time), u.At)
}

func notHolder(msg, hint string) error {
	return fault.New(fault.GrantHolder, "%s", msg).WithHint("%s", hint)
}

// fresh checks that a proof's time is near and that it was not used before.
func (h *Held) fresh(id [32]byte, made, at time.Time) error {
	window := h.Window
	if window <= 0 {
		window = DefaultWindow
	}
	if d := at.Sub(made); d > window || d < -window {
		return fault.New(fault.GrantReplayed, "the proof was made at %s, more than %s from now", stamp(made), window).
			WithHint("make a new one for each use; look at the clocks if it is new")
	}
	if h.Seen == nil {
		return fault.New(fault.Internal, "nothing remembers the proofs that were used, so none is accepted")
	}
	fresh, err := h.Seen(id, at, made.Add(window))
	if err != nil {
		return err
	}
	if !fresh {
		return fault.New(fault.GrantReplayed, "the proof was used before").WithHint("make a new one for each use")
	}
	return nil
}

// Replay remembers the proofs that were used in one process, since it began. It
// is safe for concurrent use.
type Replay struct {
	mu     sync.Mutex
	most   int
	latest time.Time // proofs that expired by this time may be forgotten, and count as used
	known  map[[32]byte]bool
	ends   endings
}

// NewReplay makes a Replay for at most that many proofs at once.
func NewReplay(most int) *Replay { return &Replay{most: most, known: map[[32]byte]bool{}} }

// Use implements [Seen]. It refuses new proofs while it is full.
func (r *Replay) Use(id [32]byte, at, until time.Time) (bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at.After(r.latest) {
		r.latest = at // forgotten proofs stay used if the clock is set back
	}
	for len(r.ends) > 0 && r.ends[0].until.Before(r.latest) {
		first, _ := heap.Pop(&r.ends).(ending) // nothing else is pushed
		delete(r.known, first.id)
	}
	if r.known[id] || until.Before(r.latest) {
		return false, nil
	}
	if len(r.known) >= r.most {
		return false, fault.New(fault.GrantReplayed, "%d proofs are in use at once, as many as can be remembered", r.most).
			WithHint("try again in a moment")
	}
	r.known[id] = true
	heap.Push(&r.ends, ending{id, until})
	return true, nil
}

// endings is a heap of remembered proofs; the first to end is on top.
type endings []ending

type ending struct {
	id    [32]byte
	until time.Time
}

func (h endings) Len() int           { return len(h) }
func (h endings) Less(i, j int) bool { return h[i].until.Before(h[j].until) }
func (h endings) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push is for package heap.
func (h *endings) Push(x any) {
	e, _ := x.(ending) // nothing else is pushed
	*h = append(*h, e)
}

// Pop is for package heap.
func (h *endings) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}
