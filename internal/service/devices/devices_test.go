package devices_test

import (
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/app/apptest"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/service/devices"
	"github.com/remitrun/remit/internal/service/grants"
)

// clock is a time that a test moves.
type clock struct{ ahead atomic.Int64 }

func (c *clock) now() time.Time        { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *clock) after(d time.Duration) { c.ahead.Add(int64(d)) }

func newDevices(t *testing.T) (*devices.Devices, *clock) {
	t.Helper()
	a, dir := apptest.New(t, t.TempDir()), t.TempDir()
	if _, err := a.Grants.Admin(t.Context(), grants.AdminTerms{Workspace: dir}); err != nil {
		t.Fatal(err)
	}
	c := &clock{}
	return &devices.Devices{Home: a.Home, Grants: a.Grants, Workspace: dir, Host: devices.NewHost(), Now: c.now}, c
}

func signIn(t *testing.T, d *devices.Devices) (string, devices.Device) {
	t.Helper()
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	cookie, one, err := d.SignIn(t.Context(), code, "Firefox on Linux")
	if err != nil {
		t.Fatal(err)
	}
	return cookie, one
}

func TestACodeIsForAMinute(t *testing.T) {
	d, c := newDevices(t)
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	c.after(time.Minute)
	if cookie, _, err := d.SignIn(t.Context(), code, "x"); !errors.Is(err, fault.GrantInvalid) || cookie != "" {
		t.Errorf("an old code gave %q, %v", cookie, err)
	}
}

func TestACodeIsForOneBrowser(t *testing.T) {
	d, _ := newDevices(t)
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	var tries sync.WaitGroup
	var in atomic.Int64
	for range 8 {
		tries.Go(func() {
			if _, _, err := d.SignIn(t.Context(), code, "x"); err == nil {
				in.Add(1)
			}
		})
	}
	tries.Wait()
	if in.Load() != 1 {
		t.Errorf("%d browsers signed in with one code", in.Load())
	}
}

func TestCodesAreBounded(t *testing.T) {
	d, c := newDevices(t)
	for range 20 {
		if _, err := d.Code(t.Context(), d.Host); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Code(t.Context(), d.Host); !errors.Is(err, fault.LimitReached) {
		t.Errorf("one more code: %v", err)
	}
	c.after(time.Minute)
	if _, err := d.Code(t.Context(), d.Host); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	for name, use := range map[string]func(t *testing.T, d *devices.Devices, c *clock, cookie string){
		"after 12 hours without use": func(_ *testing.T, _ *devices.Devices, c *clock, _ string) { c.after(12 * time.Hour) },
		"after 7 days of use": func(t *testing.T, d *devices.Devices, c *clock, cookie string) {
			for range 7 * 3 {
				c.after(8 * time.Hour)
				_, _ = d.Enter(t.Context(), cookie) // the last one is refused
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := newDevices(t)
			cookie, _ := signIn(t, d)
			use(t, d, c, cookie)
			if one, err := d.Enter(t.Context(), cookie); !errors.Is(err, fault.GrantInvalid) || one.Token != "" {
				t.Errorf("the session gave %v, %v", one.ID, err)
			}
			if list, err := d.List(t.Context()); err != nil || len(list) != 0 {
				t.Errorf("the list has %v, %v", list, err)
			}
		})
	}
}

func TestUseKeepsASessionOpen(t *testing.T) {
	d, c := newDevices(t)
	cookie, one := signIn(t, d)
	for range 4 {
		c.after(11 * time.Hour)
		got, err := d.Enter(t.Context(), cookie)
		if err != nil || got.ID != one.ID || got.Token != one.Token {
			t.Fatalf("got %v, %v", got.ID, err)
		}
	}
}

func TestOnlyTheCookieSignsIn(t *testing.T) {
	d, _ := newDevices(t)
	cookie, _ := signIn(t, d)
	for _, wrong := range []string{"", "x", cookie + "x", cookie[:len(cookie)-1]} {
		if one, err := d.Enter(t.Context(), wrong); !errors.Is(err, fault.GrantInvalid) || one.Token != "" {
			t.Errorf("the cookie %q gave %v, %v", wrong, one.ID, err)
		}
	}
}

func TestSigningOutRevokesTheGrant(t *testing.T) {
	d, _ := newDevices(t)
	cookie, one := signIn(t, d)
	other, _ := signIn(t, d)
	if err := d.SignOut(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Enter(t.Context(), cookie); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("after signing out: %v", err)
	}
	if _, err := d.Enter(t.Context(), other); err != nil {
		t.Errorf("the other browser: %v", err)
	}
	_, st, err := d.Grants.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	g, err := st.Grant(t.Context(), one.ID)
	if err != nil || g.Standing != store.Revoked || g.Device != "Firefox on Linux" {
		t.Errorf("the grant is %s, of the device %q, %v", g.Standing, g.Device, err)
	}
	if err := d.SignOut(t.Context(), one.ID); !errors.Is(err, fault.GrantUnknown) {
		t.Errorf("signing out twice: %v", err)
	}
}

func TestANarrowedGrantHasNoDevices(t *testing.T) {
	d, _ := newDevices(t)
	_, one := signIn(t, d)
	if _, err := d.Grants.Device(t.Context(), one.Token, "a device of a device", grants.Terms{Workspace: d.Workspace}); !errors.Is(err, fault.NotDelegable) {
		t.Errorf("a device made a device: %v", err)
	}
}

// restarted is the same home with the next start of the service.
func restarted(d *devices.Devices) *devices.Devices {
	return &devices.Devices{Home: d.Home, Grants: d.Grants, Workspace: d.Workspace, Host: devices.NewHost(), Now: d.Now}
}

func TestASignInIsForOneStartOfTheService(t *testing.T) {
	d, _ := newDevices(t)
	cookie, one := signIn(t, d)
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	next := restarted(d)
	if next.Host == d.Host || len(next.Host) < 30 {
		t.Errorf("the hosts are %q and %q", d.Host, next.Host)
	}
	if got, err := next.Enter(t.Context(), cookie); !errors.Is(err, fault.GrantInvalid) || got.Token != "" {
		t.Errorf("the cookie of the last start gave %v, %v", got.ID, err)
	}
	if got, _, err := next.SignIn(t.Context(), code, "x"); !errors.Is(err, fault.GrantInvalid) || got != "" {
		t.Errorf("the code of the last start gave %q, %v", got, err)
	}
	if err := next.SignOut(t.Context(), one.ID); !errors.Is(err, fault.GrantUnknown) {
		t.Errorf("signing out a browser of the last start: %v", err)
	}
	if list, err := next.List(t.Context()); err != nil || len(list) != 0 {
		t.Errorf("the list has %v, %v", list, err)
	}
	if _, err := d.Enter(t.Context(), cookie); err != nil { // two services can run at once
		t.Errorf("the other service: %v", err)
	}
}

func TestWithACertificateBrowsersStaySignedIn(t *testing.T) {
	d, _ := newDevices(t)
	d.Host, d.Lasting = "https://remit.example", true
	withdraw, err := d.Announce(t.Context(), "https://remit.example:1/ui", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	cookie, one := signIn(t, d)
	withdraw()
	next := restarted(d)
	next.Host, next.Lasting = d.Host, true
	if _, err := next.Announce(t.Context(), "https://remit.example:1/ui", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if got, err := next.Enter(t.Context(), cookie); err != nil || got.Token != one.Token {
		t.Errorf("after a restart: %v, %v", got.ID, err)
	}
	plain := restarted(d) // without the certificate
	if _, err := plain.Announce(t.Context(), "http://"+plain.Host+":1/ui", "127.0.0.1:1"); err != nil {
		t.Fatal(err)
	}
	if got, err := plain.Enter(t.Context(), cookie); !errors.Is(err, fault.GrantInvalid) || got.Token != "" {
		t.Errorf("without a certificate: %v, %v", got.ID, err)
	}
	if _, err := next.Enter(t.Context(), cookie); err != nil { // without the certificate, nobody could receive the cookie
		t.Errorf("with it again: %v", err)
	}
}

// TestNodesShareBrowsers: two nodes with homes of their own serve one name. A code of one signs
// in at the other, once, and what is done at one counts at both.
func TestNodesShareBrowsers(t *testing.T) {
	d, c := newDevices(t)
	d.Host, d.Lasting = "https://remit.example", true
	other := restarted(d)
	other.Host, other.Lasting = d.Host, true
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	cookie, one, err := other.SignIn(t.Context(), code, "Firefox on Linux")
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := d.SignIn(t.Context(), code, "x"); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("the code again at its own node: %v", err)
	}
	if got, err := d.Enter(t.Context(), cookie); err != nil || got.ID != one.ID || got.Token != one.Token {
		t.Fatalf("at the other node: %v, %v", got.ID, err)
	}
	c.after(devices.ConfirmedFor)
	if code, err = d.Code(t.Context(), d.Host); err != nil {
		t.Fatal(err)
	}
	if err := d.Confirm(t.Context(), one.ID, code); err != nil {
		t.Fatal(err)
	}
	if got, err := other.Enter(t.Context(), cookie); err != nil || !got.Fresh(c.now()) {
		t.Errorf("confirmed at the other node: %v", err)
	}
	if err := d.SignOut(t.Context(), one.ID); err != nil {
		t.Fatal(err)
	}
	if _, err := other.Enter(t.Context(), cookie); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("signed out at the other node: %v", err)
	}
}

func TestAConfirmationIsFreshForAWhile(t *testing.T) {
	d, c := newDevices(t)
	cookie, one := signIn(t, d)
	other, _ := signIn(t, d)
	fresh := func(cookie string) bool {
		t.Helper()
		got, err := d.Enter(t.Context(), cookie)
		if err != nil {
			t.Fatal(err)
		}
		return got.Fresh(c.now())
	}
	if !fresh(cookie) {
		t.Error("a sign-in does not count as a confirmation")
	}
	c.after(devices.ConfirmedFor)
	if fresh(cookie) {
		t.Error("a confirmation lasts too long")
	}
	code, err := d.Code(t.Context(), d.Host)
	if err != nil {
		t.Fatal(err)
	}
	for _, wrong := range []string{"", "x", "http://a.test/ui/sign-in?code=x", "http://a.test/?code=", code + "x"} {
		if err := d.Confirm(t.Context(), one.ID, wrong); !errors.Is(err, fault.GrantInvalid) {
			t.Errorf("%q confirmed: %v", wrong, err)
		}
	}
	if err := d.Confirm(t.Context(), one.ID, " http://a.test:1/ui/sign-in?code="+code+"\n"); err != nil || !fresh(cookie) || fresh(other) {
		t.Errorf("after the code: %v, this browser %v, the other %v", err, fresh(cookie), fresh(other))
	}
	if err := d.Confirm(t.Context(), one.ID, code); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("a code confirmed twice: %v", err)
	}
	if (devices.Device{}).Fresh(c.now()) || (devices.Device{Confirmed: c.now().Add(time.Hour)}).Fresh(c.now()) {
		t.Error("a device without a confirmation, or with one in the future, is fresh")
	}
}

func TestWithoutAHostNobodySignsIn(t *testing.T) {
	d, _ := newDevices(t)
	none := restarted(d)
	none.Host = ""
	code, err := none.Code(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if cookie, _, err := none.SignIn(t.Context(), code, "x"); !errors.Is(err, fault.GrantInvalid) || cookie != "" {
		t.Errorf("got %q, %v", cookie, err)
	}
}

func TestTheEndOfAServiceRevokesItsGrants(t *testing.T) {
	for name, end := range map[string]func(t *testing.T, d *devices.Devices, withdraw func()){
		"stopped": func(_ *testing.T, _ *devices.Devices, withdraw func()) { withdraw() },
		"killed, and started again": func(t *testing.T, d *devices.Devices, _ func()) {
			if _, err := restarted(d).Announce(t.Context(), "http://b.localhost:1/ui", "127.0.0.1:1"); err != nil {
				t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, _ := newDevices(t)
			withdraw, err := d.Announce(t.Context(), "http://"+d.Host+":1/ui", "127.0.0.1:1")
			if err != nil {
				t.Fatal(err)
			}
			_, one := signIn(t, d)
			end(t, d, withdraw)
			_, st, err := d.Grants.Open(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if g, err := st.Grant(t.Context(), one.ID); err != nil || g.Standing != store.Revoked {
				t.Errorf("the grant is %s, %v", g.Standing, err)
			}
		})
	}
}

func TestAProofIsOfOneAddressAndStart(t *testing.T) {
	d, _ := newDevices(t)
	var proofs []string
	for _, one := range []*devices.Devices{d, restarted(d)} {
		if _, err := one.Announce(t.Context(), "http://a.localhost:1/ui", "127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
		proofs = append(proofs, one.Prove("a", "127.0.0.1:1"), one.Prove("a", "[::1]:1"), one.Prove("b", "127.0.0.1:1"))
	}
	for i, p := range proofs {
		if slices.Contains(proofs[:i], p) {
			t.Errorf("two proofs are %s", p)
		}
	}
}
