package devices_test

import (
	"errors"
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
	return &devices.Devices{Home: a.Home, Grants: a.Grants, Workspace: dir, Now: c.now}, c
}

func signIn(t *testing.T, d *devices.Devices) (string, devices.Device) {
	t.Helper()
	code, err := d.Code()
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
	code, err := d.Code()
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
	code, err := d.Code()
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
		if _, err := d.Code(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := d.Code(); !errors.Is(err, fault.LimitReached) {
		t.Errorf("one more code: %v", err)
	}
	c.after(time.Minute)
	if _, err := d.Code(); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

func TestSessionsEnd(t *testing.T) {
	for name, use := range map[string]func(d *devices.Devices, c *clock, cookie string){
		"after 12 hours without use": func(_ *devices.Devices, c *clock, _ string) { c.after(12 * time.Hour) },
		"after 7 days of use": func(d *devices.Devices, c *clock, cookie string) {
			for range 7 * 3 {
				c.after(8 * time.Hour)
				_, _ = d.Enter(cookie) // the last one is refused
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			d, c := newDevices(t)
			cookie, _ := signIn(t, d)
			use(d, c, cookie)
			if one, err := d.Enter(cookie); !errors.Is(err, fault.GrantInvalid) || one.Token != "" {
				t.Errorf("the session gave %v, %v", one.ID, err)
			}
			if list, err := d.List(); err != nil || len(list) != 0 {
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
		got, err := d.Enter(cookie)
		if err != nil || got.ID != one.ID || got.Token != one.Token {
			t.Fatalf("got %v, %v", got.ID, err)
		}
	}
}

func TestOnlyTheCookieSignsIn(t *testing.T) {
	d, _ := newDevices(t)
	cookie, _ := signIn(t, d)
	for _, wrong := range []string{"", "x", cookie + "x", cookie[:len(cookie)-1]} {
		if one, err := d.Enter(wrong); !errors.Is(err, fault.GrantInvalid) || one.Token != "" {
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
	if _, err := d.Enter(cookie); !errors.Is(err, fault.GrantInvalid) {
		t.Errorf("after signing out: %v", err)
	}
	if _, err := d.Enter(other); err != nil {
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

func TestTheHostStays(t *testing.T) {
	d, _ := newDevices(t)
	first, err := d.Host()
	if err != nil {
		t.Fatal(err)
	}
	again, err := d.Host()
	if err != nil || again != first || len(first) < 20 {
		t.Errorf("the hosts are %q and %q, %v", first, again, err)
	}
}
