package notify_test

import (
	"bufio"
	"context"
	"log/slog"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"github.com/remitrun/remit/internal/service/notify"
)

// sessionBus starts a session bus and returns its address.
func sessionBus(t *testing.T) string {
	t.Helper()
	if _, err := exec.LookPath("dbus-daemon"); err != nil {
		t.Skip("dbus-daemon is not installed: the desktop notification is NOT tested (make test-deps installs it)")
	}
	cmd := exec.Command("dbus-daemon", "--session", "--print-address", "--nofork", "--nopidfile")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(line)
}

// shown is a notification as the desktop gets it.
type shown struct {
	App, Icon, Summary, Body string
	Actions                  []string
}

// server is a notification server.
type server struct {
	can []string
	got chan shown
}

// GetCapabilities implements org.freedesktop.Notifications.
func (s server) GetCapabilities() ([]string, *dbus.Error) { return s.can, nil }

// Notify implements org.freedesktop.Notifications.
func (s server) Notify(app string, _ uint32, icon, summary, body string, actions []string, _ map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
	s.got <- shown{app, icon, summary, body, actions}
	return 1, nil
}

func serve(t *testing.T, address string, can ...string) chan shown {
	t.Helper()
	conn, err := dbus.Connect(address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	s := server{can, make(chan shown, 10)}
	if err := conn.Export(s, "/org/freedesktop/Notifications", "org.freedesktop.Notifications"); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.RequestName("org.freedesktop.Notifications", dbus.NameFlagDoNotQueue); err != nil {
		t.Fatal(err)
	}
	return s.got
}

func TestDesktopNotification(t *testing.T) {
	for name, can := range map[string][]string{"with markup": {"body", "body-markup", "actions"}, "plain": {"body"}} {
		t.Run(name, func(t *testing.T) {
			address := sessionBus(t)
			got := serve(t, address, can...)
			c := notify.Desktop(func(string) (string, bool) { return address, true })
			n := notify.New([]notify.Channel{c}, func() *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) })
			e := event()
			e.Title, e.Do = "shell.run\x1b[2J needs approval", "remit <b>approvals</b> show 0199"
			n.Notify(e)
			n.Close()
			var s shown
			select {
			case s = <-got:
			case <-time.After(time.Minute):
				t.Fatal("no notification")
			}
			body := e.Do
			if len(can) > 1 {
				body = "remit &lt;b&gt;approvals&lt;/b&gt; show 0199"
			}
			if s.App != "Remit" || s.Icon != "" || s.Summary != `shell.run\x1b[2J needs approval` || s.Body != body || len(s.Actions) != 0 {
				t.Errorf("%+v", s)
			}
		})
	}
}

// TestDesktopAddresses: an address of a bus may only be a socket; others could start programs.
func TestDesktopAddresses(t *testing.T) {
	address := sessionBus(t)
	for name, at := range map[string]string{
		"no server": address, "a program": "unixexec:path=/bin/true", "another host": "tcp:host=127.0.0.1,port=1", "a second address": "unix:path=/nonexistent;unixexec:path=/bin/true", "automatic": "autolaunch:",
	} {
		t.Run(name, func(t *testing.T) {
			if err := notify.Desktop(func(string) (string, bool) { return at, true }).Deliver(context.Background(), event()); err == nil {
				t.Error("delivered")
			}
		})
	}
}
