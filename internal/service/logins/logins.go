// Package logins signs in programs that have no browser (OAuth 2.0 Device Authorization Grant,
// RFC 8628). A program asks a service and shows its user a short code; a person who is signed in
// to the web UI enters the code, sees who asks for what, narrows it, and confirms; then the
// program gets the token of a grant. Start at [Logins.Begin]; [LogIn] is the program's half.
//
// Requests wait in memory: nobody who is not signed in can have the service write anything. The
// program's code is kept as a hash.
package logins

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"math/big"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/redact"
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

// Request is what a program asks for. All of it but From is the program's word.
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

// Begun is what a program is told of its request.
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

// Logins are the requests that wait. The zero value is ready to use, by several goroutines.
type Logins struct {
	Now func() time.Time // nil: time.Now

	mu  sync.Mutex
	all []*login
}

type login struct {
	Waiting
	secret [sha256.Size]byte // of the program's code
	every  time.Duration     // between polls
	next   time.Time         // a poll before that is too early
	taken  bool              // a person decides, or has decided
	denied bool
	given  *Given
}

func (l *Logins) now() time.Time {
	if l.Now != nil {
		return l.Now()
	}
	return time.Now()
}

// Begin files a request.
func (l *Logins) Begin(q Request) (Begun, error) {
	q.Client, q.Device = label(q.Client), label(q.Device)
	if q.Client == "" || len(q.Policy) > maxPolicy || q.Lasts < 0 || q.Lasts > maxLasts {
		return Begun{}, fault.New(fault.Usage, "client_id is missing, or what is asked for is too large")
	}
	device := rand.Text() + rand.Text()
	user, err := userCode()
	if err != nil {
		return Begun{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.all = slices.DeleteFunc(l.all, func(x *login) bool { return !now.Before(x.Until.Add(life)) }) // Expired is told for a while
	ofOne := 0
	for _, x := range l.all {
		if x.From == q.From {
			ofOne++
		}
	}
	if len(l.all) >= maxWaiting || ofOne >= maxOfOne {
		return Begun{}, fault.New(fault.LimitReached, "too many programs wait to be signed in").WithHint("try again in some minutes")
	}
	l.all = append(l.all, &login{Waiting: Waiting{Request: q, Code: user, Since: now, Until: now.Add(life)}, secret: sha256.Sum256([]byte(device)), every: interval})
	return Begun{Device: device, User: user, Expires: life, Interval: interval}, nil
}

// Poll gives a program what a person gave it, once. Its error is a Refusal.
func (l *Logins) Poll(device, client string) (Given, error) {
	sum := sha256.Sum256([]byte(device))
	l.mu.Lock()
	defer l.mu.Unlock()
	at := slices.IndexFunc(l.all, func(x *login) bool { return subtle.ConstantTimeCompare(x.secret[:], sum[:]) == 1 })
	if at < 0 || l.all[at].Client != label(client) {
		return Given{}, Invalid
	}
	x, now := l.all[at], l.now()
	if !now.Before(x.Until) {
		return Given{}, Expired
	}
	if now.Before(x.next) {
		x.every += interval
		x.next = now.Add(x.every)
		return Given{}, SlowDown
	}
	x.next = now.Add(x.every)
	switch {
	case x.denied:
		l.all = slices.Delete(l.all, at, at+1)
		return Given{}, Denied
	case x.given != nil:
		l.all = slices.Delete(l.all, at, at+1)
		return *x.given, nil
	}
	return Given{}, Pending
}

// Find gives the request with a user's code that nobody has decided about.
func (l *Logins) Find(code string) (Waiting, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	x, err := l.find(code)
	if err != nil {
		return Waiting{}, err
	}
	return x.Waiting, nil
}

// find needs the lock.
func (l *Logins) find(code string) (*login, error) {
	code, now := normal(code), l.now()
	at := slices.IndexFunc(l.all, func(x *login) bool { return x.Code == code && !x.taken && now.Before(x.Until) })
	if at < 0 {
		return nil, fault.New(fault.NotFound, "no program waits with this code").WithHint("codes count once and for 10 minutes: start the program's login again")
	}
	return l.all[at], nil
}

// Decide gives a request what grant gives, or denies it if that is nil. Of several people the
// first one decides. If grant fails, the request still waits.
func (l *Logins) Decide(code string, grant func(Waiting) (Given, error)) error {
	l.mu.Lock()
	x, err := l.find(code)
	if err == nil {
		x.taken = true
	}
	l.mu.Unlock()
	if err != nil {
		return err
	}
	var given Given
	if grant != nil {
		given, err = grant(x.Waiting)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case err != nil:
		x.taken = false
	case grant == nil:
		x.denied = true
	default:
		x.given = &given
	}
	return err
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

// userCode makes a code of 34 bits, which only people who are signed in can try.
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
