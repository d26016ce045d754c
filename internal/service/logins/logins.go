// Package logins signs in programs that have no browser (OAuth 2.0 Device Authorization Grant, RFC
// 8628). A program asks a service and shows its user a short code; a person enters the code in the
// web UI, signed in, reviews and narrows the request, and confirms; then the program gets the token
// of a grant. Start at [Logins.Begin]; [LogIn] is the program's half.
//
// Requests wait in the ledger's database, so that any node gives the token. Requests without a
// sign-in are bounded in number, and further for each address. The program's code is kept as a
// hash.
package logins

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"maps"
	"math/big"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
	"github.com/remitrun/remit/internal/record/store"
)

const (
	life       = 10 * time.Minute
	interval   = 5 * time.Second // between two polls of a program
	maxWaiting = 200             // requests that wait
	maxOfOne   = 5               // of them from one address
	maxLabel   = 80              // bytes of a program's name, and of its device's
	maxPolicy  = 16 << 10        // bytes of the policy that a program asks for
	maxLasts   = 366 * 24 * time.Hour
	userDigits = 8
	alphabet   = "BCDFGHJKLMNPQRSTVWXZ" // as RFC 8628 proposes: no words, nothing that is misread
)

// Refusal is an error code of RFC 8628 or RFC 6749, which a program is told.
type Refusal string

// Refusals of polls.
const (
	Pending  Refusal = "authorization_pending"
	SlowDown Refusal = "slow_down"
	Denied   Refusal = "access_denied"
	Expired  Refusal = "expired_token"
	Invalid  Refusal = "invalid_grant"
)

// Error implements error.
func (r Refusal) Error() string { return string(r) }

// Request is a program's request for a grant. All of it but From is the program's word.
type Request struct {
	Client string        // the program, as "remit"
	Device string        // where it says that it runs, as "ann@laptop"
	Policy string        // that is enough for it; "": it does not say
	Lasts  time.Duration // how long it wants to be signed in; 0: it does not say
	From   string        // the address that the request came from
}

// Waiting is a request that a person decides about.
type Waiting struct {
	Request
	Code  string // that its user sees, as "BCDF-GHJK"
	Since time.Time
	Until time.Time
}

// Begun is the answer to a program's request.
type Begun struct {
	Device   string // the secret with which it asks for the token
	User     string // the code for its user
	Expires  time.Duration
	Interval time.Duration
}

// Given is what a person gave.
type Given struct {
	Token string
	Until time.Time // zero: it does not expire
}

// Logins are the requests that wait. They are safe for concurrent use, and all processes of a
// ledger share them.
type Logins struct {
	Store func(ctx context.Context) (store.Ephemera, error) // keeps the requests
	Now   func() time.Time                                  // nil: time.Now

	mu    sync.Mutex
	full  time.Time // when too many requests waited; for a second no other is filed
	paces map[[sha256.Size]byte]pace
}

// pace is how often a program may poll this process.
type pace struct {
	every time.Duration
	next  time.Time // a poll before that is too early
	until time.Time // the request expires
}

const (
	kind   = "login"
	fullTo = time.Second
)

// login is a request as it is kept.
type login struct {
	Waiting
	Secret []byte `json:"secret"` // digest of the program's code
	Taken  bool   `json:"taken"`  // a person decides, or has decided
	Denied bool   `json:"denied"`
	Given  *Given `json:"given,omitempty"`

	in store.Ephemeral
}

func (l *Logins) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

func keyOf(code string) [sha256.Size]byte { return sha256.Sum256([]byte("remit login\n" + code)) }

// Begin files a request.
func (l *Logins) Begin(ctx context.Context, q Request) (Begun, error) {
	q.Client, q.Device = label(q.Client), label(q.Device)
	if q.Client == "" || len(q.Policy) > maxPolicy || q.Lasts < 0 || q.Lasts > maxLasts {
		return Begun{}, fault.New(fault.Usage, "client_id is missing, or the request is too large")
	}
	user, err := userCode()
	if err != nil {
		return Begun{}, err
	}
	st, err := l.Store(ctx)
	if err != nil {
		return Begun{}, err
	}
	now := l.now()
	if err := l.room(ctx, st, q.From, now); err != nil {
		return Begun{}, err
	}
	device := rand.Text() + rand.Text() + "." + user
	secret := sha256.Sum256([]byte(device))
	x := login{Waiting: Waiting{Request: q, Code: user, Since: now, Until: now.Add(life)}, Secret: secret[:]}
	x.in = store.Ephemeral{Kind: kind, Key: keyOf(user), Owner: q.From, Until: now.Add(2 * life)} // Expired is told for a while
	switch saved, err := x.save(ctx, st); {
	case fault.CodeOf(err) == fault.LimitReached:
		l.mu.Lock()
		l.full = now
		l.mu.Unlock()
		return Begun{}, errTooMany()
	case err != nil:
		return Begun{}, err
	case !saved: // another request has this code
		return Begun{}, errTooMany()
	}
	return Begun{Device: device, User: user, Expires: life, Interval: interval}, nil
}

// room refuses a request before anything is written, if one address or all together have too many.
func (l *Logins) room(ctx context.Context, st store.Ephemera, from string, now time.Time) error {
	l.mu.Lock()
	full := now.Sub(l.full) < fullTo
	l.mu.Unlock()
	if full {
		return errTooMany()
	}
	ofOne, err := st.Ephemerals(ctx, kind, from)
	if err == nil && len(ofOne) >= maxOfOne {
		err = errTooMany()
	}
	return err
}

func errTooMany() error {
	return fault.New(fault.LimitReached, "too many programs wait to be signed in").WithHint("try again in some minutes")
}

// save writes the request; false: another process has changed it.
func (x *login) save(ctx context.Context, st store.Ephemera) (bool, error) {
	b, err := json.Marshal(x)
	if err != nil {
		return false, fault.Wrap(fault.Internal, err, "a login cannot be encoded")
	}
	x.in.Data = b
	return st.SaveEphemeral(ctx, x.in, store.EphemeralBounds{All: maxWaiting, Each: maxOfOne})
}

// load reads the request with a user's code; nil: there is none.
func load(ctx context.Context, st store.Ephemera, code string) (*login, error) {
	in, there, err := st.Ephemeral(ctx, kind, keyOf(code))
	if err != nil || !there {
		return nil, err
	}
	x := &login{}
	if err := json.Unmarshal(in.Data, x); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "a login cannot be read")
	}
	x.in = in
	return x, nil
}

// Poll gives a program what a person gave it, once. A refusal is an error of type Refusal.
func (l *Logins) Poll(ctx context.Context, device, client string) (Given, error) {
	_, code, _ := strings.Cut(device, ".")
	st, err := l.Store(ctx)
	if err != nil {
		return Given{}, err
	}
	x, err := load(ctx, st, code)
	if err != nil {
		return Given{}, err
	}
	sum := sha256.Sum256([]byte(device))
	if x == nil || subtle.ConstantTimeCompare(x.Secret, sum[:]) != 1 || x.Client != label(client) {
		return Given{}, Invalid
	}
	now := l.now()
	if !now.Before(x.Until) {
		return Given{}, Expired
	}
	if l.early(x, now) {
		return Given{}, SlowDown
	}
	if !x.Denied && x.Given == nil {
		return Given{}, Pending
	}
	switch dropped, err := st.DropEphemeral(ctx, x.in); {
	case err != nil:
		return Given{}, err
	case !dropped: // another poll has it
		return Given{}, Invalid
	case x.Denied:
		return Given{}, Denied
	}
	return *x.Given, nil
}

// early reports whether a poll comes too early, and makes the program wait longer then. Each
// process counts by itself: it only spares the service work.
func (l *Logins) early(x *login, now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.paces) >= 2*maxWaiting {
		maps.DeleteFunc(l.paces, func(_ [sha256.Size]byte, p pace) bool { return !now.Before(p.until) })
	}
	if l.paces == nil {
		l.paces = map[[sha256.Size]byte]pace{}
	}
	p, known := l.paces[x.in.Key]
	if !known {
		p = pace{every: interval, until: x.Until}
	}
	early := now.Before(p.next)
	if early {
		p.every += interval
	}
	p.next = now.Add(p.every)
	l.paces[x.in.Key] = p
	return early
}

// Find gives the request with a user's code that nobody has decided about.
func (l *Logins) Find(ctx context.Context, code string) (Waiting, error) {
	st, err := l.Store(ctx)
	if err != nil {
		return Waiting{}, err
	}
	x, err := l.find(ctx, st, code)
	if err != nil {
		return Waiting{}, err
	}
	return x.Waiting, nil
}

func (l *Logins) find(ctx context.Context, st store.Ephemera, code string) (*login, error) {
	x, err := load(ctx, st, normal(code))
	if err == nil && (x == nil || x.Taken || !l.now().Before(x.Until)) {
		err = errNoLogin()
	}
	return x, err
}

func errNoLogin() error {
	return fault.New(fault.NotFound, "no program waits with this code").WithHint("codes count once and for 10 minutes: start the program's login again")
}

// Decide answers a request with the result of grant, or denies it if that is nil. Of several people
// the first one decides. If grant fails, the request still waits.
func (l *Logins) Decide(ctx context.Context, code string, grant func(Waiting) (Given, error)) error {
	st, err := l.Store(ctx)
	if err != nil {
		return err
	}
	x, err := l.find(ctx, st, code)
	if err != nil {
		return err
	}
	x.Taken = true
	if saved, err := x.save(ctx, st); err != nil || !saved {
		if err == nil {
			err = errNoLogin()
		}
		return err
	}
	x.in.Version++
	x.Denied = grant == nil
	if grant != nil {
		var given Given
		if given, err = grant(x.Waiting); err == nil {
			x.Given = &given
		}
	}
	x.Taken = err == nil
	// The decision stands even if the person leaves the page.
	saved, serr := x.save(context.WithoutCancel(ctx), st)
	if serr == nil && !saved {
		serr = errNoLogin()
	}
	return cmp.Or(err, serr)
}

// label makes a program's word of itself one short line.
func label(text string) string {
	return clip.Text(redact.Show(strings.TrimSpace(text)), maxLabel)
}

// normal is a code as [Logins.Begin] wrote it, however it was typed.
func normal(code string) string {
	plain := strings.Map(func(r rune) rune {
		if r = unicode.ToUpper(r); strings.ContainsRune(alphabet, r) {
			return r
		}
		return -1
	}, clip.Text(code, maxLabel))
	if len(plain) != userDigits {
		return cmp.Or(plain, "-")
	}
	return plain[:userDigits/2] + "-" + plain[userDigits/2:]
}

// userCode makes a code of 34 bits, which only signed-in people can try.
func userCode() (string, error) {
	var b strings.Builder
	for range userDigits {
		n, err := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet))))
		if err != nil {
			return "", fault.Wrap(fault.Internal, err, "no random numbers")
		}
		b.WriteByte(alphabet[n.Int64()])
	}
	return normal(b.String()), nil
}
