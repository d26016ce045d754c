// Package devices signs browsers in to the web UI. The owner of $REMIT_HOME asks for an
// invitation, a link with a code that is valid once and for a minute. A browser that uses
// the code becomes a device: it gets a cookie, and a grant of its own that is narrowed from
// the person's. Start at [Devices.Invite], [Devices.SignIn] and [Devices.Enter].
//
// Codes and cookies are kept as hashes. The token of a device's grant is encrypted with its
// cookie, so that the file alone signs nobody in.
//
// Each start of the service has a host name of its own, and codes and cookies count for that
// name alone, unless a certificate proves the name ([Devices.Lasting]). While the service is stopped, another process can listen on its port, and open
// pages send it their cookie: that cookie is worthless from then on. An invitation is given
// only for a service that proves that it knows the key in $REMIT_HOME.
package devices

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/grants"
	"github.com/remitrun/remit/internal/service/home"
)

// Files below $REMIT_HOME.
const (
	stateFile = "ui/devices.json"
	stateLock = "ui.lock"
)

const (
	codeLife  = time.Minute
	maxCodes  = 20                 // that wait to be used
	maxIdle   = 12 * time.Hour     // without a request
	maxLife   = 7 * 24 * time.Hour // since the sign-in
	seenEvery = time.Minute        // how often the last use of a device is written down
	maxLabel  = 80                 // bytes of a device's description

	// ConfirmedFor is how long a confirmation of the person counts.
	ConfirmedFor = 10 * time.Minute
)

// Devices are the browsers that are signed in.
type Devices struct {
	Home      *home.Home
	Grants    *grants.Grants
	Workspace string           // absolute; the workspace of the grants
	Host      string           // of this start of the service, as NewHost makes it; "": nobody signs in
	Lasting   bool             // a certificate proves Host, which later starts have too: browsers stay signed in
	Now       func() time.Time // nil: time.Now

	key string // proves the service to remit ui; Announce makes it
}

// Device is a browser that is signed in.
type Device struct {
	ID     string    `json:"id"` // of its grant
	Holder string    `json:"holder"`
	Label  string    `json:"label"` // as "Firefox on Linux"
	Since  time.Time `json:"signed_in_at"`
	Seen   time.Time `json:"seen_at"`
	Until  time.Time `json:"until"`
	Token  string    `json:"-"` // of its grant

	Confirmed time.Time `json:"confirmed_at"` // when the person last used a code in it
}

// Fresh reports whether the person was confirmed so lately that dangerous actions count.
func (d Device) Fresh(now time.Time) bool {
	since := now.Sub(d.Confirmed)
	return since >= 0 && since < ConfirmedFor
}

// state is the content of the file.
type state struct {
	Codes   []code   `json:"codes,omitempty"`
	Devices []record `json:"devices,omitempty"`
}

type code struct {
	Host  string    `json:"host"` // that it signs in to
	Hash  string    `json:"sha256"`
	Until time.Time `json:"until"`
}

type record struct {
	Device
	Host   string `json:"host"` // that the cookie is of
	Hash   string `json:"cookie_sha256"`
	Sealed []byte `json:"token"` // encrypted with the cookie
}

func (d *Devices) now() time.Time {
	if d.Now != nil {
		return d.Now().UTC()
	}
	return time.Now().UTC()
}

// errSignedOut is the error of a cookie without a device.
func errSignedOut() error {
	return fault.New(fault.GrantInvalid, "this browser is not signed in").WithHint("run remit ui")
}

// change changes the file under its lock. Entries whose time is over are removed.
func (d *Devices) change(do func(s *state) error) error {
	return d.Home.Locked(stateLock, func() error {
		s, err := d.read()
		if err != nil {
			return err
		}
		now := d.now()
		s.Codes = slices.DeleteFunc(s.Codes, func(c code) bool { return !now.Before(c.Until) })
		s.Devices = slices.DeleteFunc(s.Devices, func(r record) bool { return r.over(now) })
		if err := do(&s); err != nil {
			return err
		}
		return d.Home.Write(stateFile, s)
	})
}

func (d *Devices) read() (state, error) {
	var s state
	if err := d.Home.Read(stateFile, &s); err != nil {
		return s, fault.Wrap(fault.StoreFailed, err, "%s cannot be read: %v", stateFile, err).
			WithHint("remove %s; all browsers must then sign in again", filepath.Join(d.Home.Dir, stateFile))
	}
	return s, nil
}

// owns reports whether a browser is signed in to this start of the service.
func (d *Devices) owns(r record) bool { return d.Host != "" && r.Host == d.Host }

func (r record) over(now time.Time) bool {
	return !now.Before(r.Until) || now.Sub(r.Seen) >= maxIdle
}

// Code makes a code that signs one browser in to a host, once and within a minute.
func (d *Devices) Code(host string) (string, error) {
	text := newSecret()
	err := d.change(func(s *state) error {
		if len(s.Codes) >= maxCodes {
			return fault.New(fault.LimitReached, "%d sign-in codes wait to be used", len(s.Codes)).WithHint("use one, or try again in a minute")
		}
		s.Codes = append(s.Codes, code{Host: host, Hash: hashOf(text), Until: d.now().Add(codeLife)})
		return nil
	})
	return text, err
}

// SignIn uses a code up, and makes a device with a cookie. Label describes the browser.
func (d *Devices) SignIn(ctx context.Context, code, label string) (cookie string, out Device, err error) {
	if err := d.burn(code); err != nil {
		return "", out, err
	}
	parent, err := grants.ReadToken("@" + filepath.Join(d.Home.Dir, grants.AdminFile))
	if err != nil {
		return "", out, err
	}
	return d.Admit(ctx, parent, d.now(), label)
}

// Admit makes a device with a cookie of the person whose grant's token it is given. Confirmed
// is when the person last showed to be there.
func (d *Devices) Admit(ctx context.Context, parent string, confirmed time.Time, label string) (cookie string, out Device, err error) {
	label = cleanLabel(label)
	t, err := d.Grants.Device(ctx, parent, label, grants.Terms{Workspace: d.Workspace, Expires: maxLife})
	if err != nil {
		return "", out, err
	}
	cookie = newSecret()
	sealed, err := seal(cookie, t.Text)
	if err != nil {
		return "", out, err
	}
	now := d.now()
	out = Device{ID: t.Claims.Leaf().String(), Holder: t.Claims.Holder(), Label: label, Since: now, Seen: now, Confirmed: confirmed, Until: earlier(now.Add(maxLife), t.Claims.Expires()), Token: t.Text}
	err = d.change(func(s *state) error {
		s.Devices = append(s.Devices, record{Device: out, Host: d.Host, Hash: hashOf(cookie), Sealed: sealed})
		return nil
	})
	return cookie, out, err
}

// Confirm uses a code up to show that the person is at a device. Text is the code, or the link
// that has it.
func (d *Devices) Confirm(id, text string) error {
	code := strings.TrimSpace(text)
	if u, err := url.Parse(code); err == nil && u.Query().Has("code") {
		code = u.Query().Get("code")
	}
	if err := d.burn(code); err != nil {
		return err
	}
	return d.change(func(s *state) error {
		for i, r := range s.Devices {
			if d.owns(r) && r.ID == id {
				s.Devices[i].Confirmed = d.now()
				return nil
			}
		}
		return errSignedOut()
	})
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b.UTC()
}

// burn removes a code. A code that is unknown, used or too old is refused.
func (d *Devices) burn(text string) error {
	s, err := d.read()
	if err != nil {
		return err
	}
	same := func(c code) bool { return d.Host != "" && c.Host == d.Host && equal(c.Hash, hashOf(text)) }
	if !slices.ContainsFunc(s.Codes, same) { // nothing is written for a wrong code
		return errUsed()
	}
	used := false
	err = d.change(func(s *state) error {
		left := slices.DeleteFunc(slices.Clone(s.Codes), same)
		used, s.Codes = len(left) < len(s.Codes), left
		return nil
	})
	if err == nil && !used {
		err = errUsed()
	}
	return err
}

// errUsed is the error of a code that signs nobody in.
func errUsed() error {
	return fault.New(fault.GrantInvalid, "this sign-in link was used already, or is older than a minute").WithHint("run remit ui again")
}

// Enter finds the device of a cookie. It does not check the device's grant, which the
// service does for each request.
func (d *Devices) Enter(cookie string) (Device, error) {
	s, err := d.read()
	if err != nil {
		return Device{}, err
	}
	now, hash := d.now(), hashOf(cookie)
	i := slices.IndexFunc(s.Devices, func(r record) bool { return d.owns(r) && equal(r.Hash, hash) })
	if i < 0 || s.Devices[i].over(now) {
		return Device{}, errSignedOut()
	}
	r := s.Devices[i]
	if r.Token, err = open(cookie, r.Sealed); err != nil {
		return Device{}, errSignedOut()
	}
	if now.Sub(r.Seen) < seenEvery {
		return r.Device, nil
	}
	return r.Device, d.change(func(s *state) error {
		for i := range s.Devices {
			if s.Devices[i].ID == r.ID {
				s.Devices[i].Seen = now
			}
		}
		return nil
	})
}

// List lists the devices, the last one used first.
func (d *Devices) List() ([]Device, error) {
	s, err := d.read()
	if err != nil {
		return nil, err
	}
	out := []Device{}
	for _, r := range s.Devices {
		if d.owns(r) && !r.over(d.now()) {
			out = append(out, r.Device)
		}
	}
	slices.SortFunc(out, func(a, b Device) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID)) })
	return out, nil
}

// SignOut revokes a device's grant, which also ends its event stream, and forgets it.
func (d *Devices) SignOut(ctx context.Context, id string) error {
	s, err := d.read()
	if err != nil {
		return err
	}
	if !slices.ContainsFunc(s.Devices, func(r record) bool { return d.owns(r) && r.ID == id }) {
		return fault.New(fault.GrantUnknown, "no signed-in browser has the ID %.80q", id)
	}
	if _, err := d.Grants.SetStanding(ctx, id, store.Revoked, "signed out of the web UI"); err != nil {
		return err
	}
	return d.change(func(s *state) error {
		s.Devices = slices.DeleteFunc(s.Devices, func(r record) bool { return r.ID == id })
		return nil
	})
}

func hashOf(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
