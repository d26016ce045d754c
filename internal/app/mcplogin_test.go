package app

import (
	"errors"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
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
	s := MCPServer{Name: "far", URL: "http://127.0.0.1:1/mcp"}
	other := MCPServer{Name: "far", URL: "http://127.0.0.1:2/mcp"}
	first := mcpsource.Login{Server: s.URL, TokenURL: "http://127.0.0.1:1/token", ClientID: "c", Access: "first-access-token", Expires: time.Now().Add(time.Hour)}
	of := func(s MCPServer) string {
		t.Helper()
		l, err := a.login(s)
		must(err)
		return l.Access
	}
	must(a.AddMCPServer(s, false))
	must(a.keepLogin(s, first))
	if now, err := a.MCPServer("far"); err != nil || now.TokenURL != first.TokenURL || of(s) != first.Access {
		t.Fatalf("%+v, %v", now, err)
	}

	renewed := first
	renewed.Access = "renewed-access-token"
	must(a.renewLogin(s, first, renewed))
	newer := first
	newer.Access = "newer-access-token"
	must(a.keepLogin(s, newer))
	if err := a.renewLogin(s, renewed, first); !errors.Is(err, fault.LoginNeeded) || of(s) != newer.Access {
		t.Errorf("an older login was put over a newer one: %v, %q", err, of(s))
	}
	must(a.LogOutMCP("far"))
	if err := a.renewLogin(s, newer, renewed); !errors.Is(err, fault.LoginNeeded) || of(s) != "" {
		t.Errorf("a logout was undone: %v, %q", err, of(s))
	}

	must(a.keepLogin(s, first))
	if of(other) != "" {
		t.Error("the login of one server is given to another of its name")
	}
	must(a.AddMCPServer(other, true))
	if err := a.keepLogin(s, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that is not there any more: %v", err)
	}
	if now, err := a.MCPServer("far"); err != nil || now.URL != other.URL || now.TokenURL != "" || of(s) != "" {
		t.Errorf("%+v, %v, %q", now, err, of(s))
	}
	must(a.RemoveMCPServer("far"))
	if err := a.keepLogin(other, newer); !errors.Is(err, fault.Conflict) {
		t.Errorf("a login at a server that was removed: %v", err)
	}
	if list, err := a.MCPServers(); err != nil || len(list) != 0 {
		t.Errorf("%+v, %v", list, err)
	}
}
