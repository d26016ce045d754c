package servers

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/policies"
	"github.com/remitrun/remit/internal/service/secrets"
	mcpsource "github.com/remitrun/remit/internal/tools/source/mcp"
)

func TestALoginIsForOneServerAndOneUser(t *testing.T) {
	dir := t.TempDir()
	cfg, err := home.FromEnv([]string{"REMIT_HOME=" + dir, "HOME=" + dir, "USER=tester"})
	if err != nil {
		t.Fatal(err)
	}
	ledger, err := sqlite.Open(t.Context(), sqlite.Options{Home: dir, Durability: sqlite.Process})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := ledger.Close(); err != nil {
			t.Error(err)
		}
	})
	h := &home.Home{Config: cfg, Ledger: func(context.Context) (store.Backend, error) { return ledger, nil }}
	m := &Servers{Home: h, Secrets: secrets.New(h, &policies.Policies{Home: h})}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	s := Server{Name: "far", URL: "http://127.0.0.1:1/mcp"}
	other := Server{Name: "far", URL: "http://127.0.0.1:2/mcp"}
	first := mcpsource.Login{Server: s.URL, TokenURL: "http://127.0.0.1:1/token", ClientID: "c", Access: "first-access-token", Expires: time.Now().Add(time.Hour)}
	of := func(s Server) string {
		t.Helper()
		l, err := m.login(s)
		must(err)
		return l.Access
	}
	must(m.Add(s, false))
	must(m.keepLogin(s, first))
	if now, err := m.Find("far"); err != nil || now.TokenURL != first.TokenURL || of(s) != first.Access {
		t.Fatalf("%+v, %v", now, err)
	}

	renewed := first
	renewed.Access = "renewed-access-token"
	must(m.renewLogin(s, first, renewed))
	newer := first
	newer.Access = "newer-access-token"
	must(m.keepLogin(s, newer))
	if err := m.renewLogin(s, renewed, first); !errors.Is(err, fault.LoginNeeded) || of(s) != newer.Access {
		t.Errorf("an older login was put over a newer one: %v, %q", err, of(s))
	}
	must(m.LogOut("far"))
	if err := m.renewLogin(s, newer, renewed); !errors.Is(err, fault.LoginNeeded) || of(s) != "" {
		t.Errorf("a logout was undone: %v, %q", err, of(s))
	}

	must(m.keepLogin(s, first))
	if of(other) != "" {
		t.Error("the login of one server is given to another of its name")
	}
	must(m.Add(other, true))
	if err := m.keepLogin(s, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that is not there any more: %v", err)
	}
	if now, err := m.Find("far"); err != nil || now.URL != other.URL || now.TokenURL != "" || of(s) != "" {
		t.Errorf("%+v, %v, %q", now, err, of(s))
	}
	must(m.Remove("far"))
	if err := m.keepLogin(other, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that was removed: %v", err)
	}
	if list, err := m.List(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
