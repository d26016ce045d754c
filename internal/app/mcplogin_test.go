package app

import (
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/servers"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

func TestALoginIsForOneServerAndOneUser(t *testing.T) {
	dir := t.TempDir()
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + dir, "HOME=" + dir, "USER=tester"})
	if err != nil {
		t.Fatal(err)
	}
	a, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := servers.Server{Name: "far", URL: "http://127.0.0.1:1/mcp"}
	other := servers.Server{Name: "far", URL: "http://127.0.0.1:2/mcp"}
	first := mcpsource.Login{Server: s.URL, TokenURL: "http://127.0.0.1:1/token", ClientID: "c", Access: "first-access-token", Expires: time.Now().Add(time.Hour)}
	of := func(s servers.Server) string {
		t.Helper()
		l, err := a.Servers.Login(s)
		must(err)
		return l.Access
	}
	must(a.Servers.Add(s, false))
	must(a.Servers.KeepLogin(s, first))
	if now, err := a.Servers.Find("far"); err != nil || now.TokenURL != first.TokenURL || of(s) != first.Access {
		t.Fatalf("%+v, %v", now, err)
	}

	renewed := first
	renewed.Access = "renewed-access-token"
	must(a.Servers.RenewLogin(s, first, renewed))
	newer := first
	newer.Access = "newer-access-token"
	must(a.Servers.KeepLogin(s, newer))
	if err := a.Servers.RenewLogin(s, renewed, first); !errors.Is(err, fault.LoginNeeded) || of(s) != newer.Access {
		t.Errorf("an older login was put over a newer one: %v, %q", err, of(s))
	}
	must(a.Servers.LogOut("far"))
	if err := a.Servers.RenewLogin(s, newer, renewed); !errors.Is(err, fault.LoginNeeded) || of(s) != "" {
		t.Errorf("a logout was undone: %v, %q", err, of(s))
	}

	must(a.Servers.KeepLogin(s, first))
	if of(other) != "" {
		t.Error("the login of one server is given to another of its name")
	}
	must(a.Servers.Add(other, true))
	if err := a.Servers.KeepLogin(s, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that is not there any more: %v", err)
	}
	if now, err := a.Servers.Find("far"); err != nil || now.URL != other.URL || now.TokenURL != "" || of(s) != "" {
		t.Errorf("%+v, %v, %q", now, err, of(s))
	}
	must(a.Servers.Remove("far"))
	if err := a.Servers.KeepLogin(other, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that was removed: %v", err)
	}
	if list, err := a.Servers.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
