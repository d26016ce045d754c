// Package devices signs browsers in to the web UI. The owner of $REMIT_HOME asks for an
// invitation, a link with a code that is valid once and for a minute. A browser that uses
// the code becomes a device: it gets a cookie, and a grant of its own that is narrowed from
// the person's. Start at [Devices.Invite], [Devices.SignIn] and [Devices.Enter].
//
// Codes and cookies are kept in the ledger's database as hashes, for all nodes that serve one host.
// The token of a device's grant is encrypted with its cookie, so that the rows alone sign nobody
// in.
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
	"encoding/json"
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

const (
	codeLife  = time.Minute
	maxCodes  = 20                 // that wait to be used
	maxIdle   = 12 * time.Hour     // without a request
	maxLife   = 7 * 24 * time.Hour // since the sign-in
	seenEvery = time.Minute        // how often the last use of a device is written down
	maxLabel  = 80                 // bytes of a device's description

	maxDevices = 10_000

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

// record is a browser as it is kept, under the digest of its cookie.
type record struct {
	Device
	Sealed []byte `json:"token"` // encrypted with the cookie

	in store.Ephemeral
}

// Kinds of records. Their owner is the host that codes and cookies are of.
const (
	kindCode    = "ui.code"
	kindBrowser = "ui.browser"
)

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

// save writes a record; false: another process has changed it.
func (r *record) save(ctx context.Context, st store.Ephemera) (bool, error) {
	var err error
	if r.in.Data, err = json.Marshal(r); err != nil {
		return false, fault.Wrap(fault.Internal, err, "a browser cannot be encoded")
	}
	r.in.Kind, r.in.Until = kindBrowser, earlier(r.Until, r.Seen.Add(maxIdle))
	return st.SaveEphemeral(ctx, r.in, store.EphemeralBounds{All: maxDevices})
}

// recordOf reads a record; nil: its time is over.
func (d *Devices) recordOf(in store.Ephemeral) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(in.Data, r); err != nil {
		return nil, fault.Wrap(fault.StoreCorrupt, err, "a browser cannot be read")
	}
	if now := d.now(); !now.Before(r.Until) || now.Sub(r.Seen) >= maxIdle {
		return nil, nil //nolint:nilnil // signed out
	}
	r.in = in
	return r, nil
}

// records are the browsers of a host.
func (d *Devices) records(ctx context.Context, host string) ([]*record, error) {
	st, err := d.Grants.Ephemera(ctx)
	if err != nil || host == "" {
		return nil, err
	}
	all, err := st.Ephemerals(ctx, kindBrowser, host)
	if err != nil {
		return nil, err
	}
	var out []*record
	for _, in := range all {
		r, err := d.recordOf(in)
		if err != nil {
			return nil, err
		}
		if r != nil {
			out = append(out, r)
		}
	}
	return out, nil
}

// find finds a browser of this host by its ID; nil: there is none.
func (d *Devices) find(ctx context.Context, id string) (*record, error) {
	all, err := d.records(ctx, d.Host)
	if i := slices.IndexFunc(all, func(r *record) bool { return r.ID == id }); i >= 0 {
		return all[i], nil
	}
	return nil, err
}

// Code makes a code that signs one browser in to a host, once and within a minute.
func (d *Devices) Code(ctx context.Context, host string) (string, error) {
	st, err := d.Grants.Ephemera(ctx)
	if err != nil {
		return "", err
	}
	text, now := newSecret(), d.now()
	waiting, err := st.Ephemerals(ctx, kindCode, host)
	if err != nil {
		return "", err
	}
	if waiting = slices.DeleteFunc(waiting, func(c store.Ephemeral) bool { return !now.Before(c.Until) }); len(waiting) >= maxCodes {
		return "", fault.New(fault.LimitReached, "%d sign-in codes wait to be used", len(waiting)).WithHint("use one, or try again in a minute")
	}
	_, err = st.SaveEphemeral(ctx, store.Ephemeral{Kind: kindCode, Key: hashOf(text), Owner: host, Until: now.Add(codeLife)}, store.EphemeralBounds{})
	return text, err
}

// SignIn uses a code up, and makes a device with a cookie. Label describes the browser.
func (d *Devices) SignIn(ctx context.Context, code, label string) (cookie string, out Device, err error) {
	if err := d.burn(ctx, code); err != nil {
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
	r := record{Device: out, Sealed: sealed, in: store.Ephemeral{Key: hashOf(cookie), Owner: d.Host}}
	st, err := d.Grants.Ephemera(ctx)
	if err == nil {
		_, err = r.save(ctx, st)
	}
	return cookie, out, err
}

// Confirm uses a code up to show that the person is at a device. Text is the code, or the link
// that has it.
func (d *Devices) Confirm(ctx context.Context, id, text string) error {
	code := strings.TrimSpace(text)
	if u, err := url.Parse(code); err == nil && u.Query().Has("code") {
		code = u.Query().Get("code")
	}
	if err := d.burn(ctx, code); err != nil {
		return err
	}
	return d.update(ctx, id, func(r *record) { r.Confirmed = d.now() })
}

// update changes a browser of this host.
func (d *Devices) update(ctx context.Context, id string, do func(r *record)) error {
	st, err := d.Grants.Ephemera(ctx)
	if err != nil {
		return err
	}
	for {
		r, err := d.find(ctx, id)
		if err != nil {
			return err
		}
		if r == nil {
			return errSignedOut()
		}
		do(r)
		if saved, err := r.save(ctx, st); err != nil || saved {
			return err
		}
	}
}

func earlier(a, b time.Time) time.Time {
	if b.IsZero() || a.Before(b) {
		return a
	}
	return b.UTC()
}

// burn removes a code. A code that is unknown, used or too old is refused.
func (d *Devices) burn(ctx context.Context, text string) error {
	st, err := d.Grants.Ephemera(ctx)
	if err != nil {
		return err
	}
	c, there, err := st.Ephemeral(ctx, kindCode, hashOf(text))
	if err != nil {
		return err
	}
	if !there || d.Host == "" || c.Owner != d.Host || !d.now().Before(c.Until) { // nothing is written for a wrong code
		return errUsed()
	}
	dropped, err := st.DropEphemeral(ctx, c)
	if err == nil && !dropped {
		err = errUsed()
	}
	return err
}

// errUsed is the error of a code that signs nobody in.
func errUsed() error {
	return fault.New(fault.GrantInvalid, "this sign-in link was used already, or is older than a minute").WithHint("run remit ui again")
}

// Enter finds the device of a cookie. It does not check the device's grant, which the web UI
// does for each request.
func (d *Devices) Enter(ctx context.Context, cookie string) (Device, error) {
	st, err := d.Grants.Ephemera(ctx)
	if err != nil {
		return Device{}, err
	}
	in, there, err := st.Ephemeral(ctx, kindBrowser, hashOf(cookie))
	if err != nil {
		return Device{}, err
	}
	if !there || d.Host == "" || in.Owner != d.Host {
		return Device{}, errSignedOut()
	}
	r, err := d.recordOf(in)
	if err != nil {
		return Device{}, err
	}
	if r == nil {
		return Device{}, errSignedOut()
	}
	token, err := open(cookie, r.Sealed)
	if err != nil {
		return Device{}, errSignedOut()
	}
	if now := d.now(); now.Sub(r.Seen) >= seenEvery {
		r.Seen = now
		if _, err := r.save(ctx, st); err != nil { // a concurrent writer has seen it, too
			return Device{}, err
		}
	}
	r.Token = token
	return r.Device, nil
}

// List lists the devices, the last one used first.
func (d *Devices) List(ctx context.Context) ([]Device, error) {
	all, err := d.records(ctx, d.Host)
	out := make([]Device, 0, len(all))
	for _, r := range all {
		out = append(out, r.Device)
	}
	slices.SortFunc(out, func(a, b Device) int { return cmp.Or(b.Seen.Compare(a.Seen), cmp.Compare(a.ID, b.ID)) })
	return out, err
}

// SignOut revokes a device's grant, which also ends its event stream, and forgets it.
func (d *Devices) SignOut(ctx context.Context, id string) error {
	r, err := d.find(ctx, id)
	if err != nil {
		return err
	}
	if r == nil {
		return fault.New(fault.GrantUnknown, "no signed-in browser has the ID %.80q", id)
	}
	if _, err := d.Grants.SetStanding(ctx, id, store.Revoked, "signed out of the web UI"); err != nil {
		return err
	}
	return d.forget(ctx, r)
}

// forget removes a browser, also one that is being used.
func (d *Devices) forget(ctx context.Context, r *record) error {
	st, err := d.Grants.Ephemera(ctx)
	for err == nil {
		var dropped, there bool
		if dropped, err = st.DropEphemeral(ctx, r.in); err != nil || dropped {
			return err
		}
		if r.in, there, err = st.Ephemeral(ctx, kindBrowser, r.in.Key); !there {
			return err
		}
	}
	return err
}

func hashOf(text string) [sha256.Size]byte { return sha256.Sum256([]byte("remit web ui\n" + text)) }

func equal(a, b string) bool { return subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1 }
