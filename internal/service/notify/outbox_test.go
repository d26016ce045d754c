package notify_test

import (
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/service/notify"
	"github.com/remitrun/remit/internal/service/settings"
)

// sender opens a Notifier with an outbox, as a process does.
func sender(dir, url string) *notify.Notifier {
	var log logText
	n := notify.NewQuick([]notify.Channel{notify.Webhook(settings.Webhook{Name: "ops", URL: url}, none)}, log.logger)
	n.Outbox = &notify.Outbox{Dir: dir}
	return n
}

func kept(t *testing.T, n *notify.Notifier) []notify.Kept {
	t.Helper()
	list, err := n.Outbox.List()
	if err != nil {
		t.Fatal(err)
	}
	return list
}

func recent() notify.Event {
	e := event()
	e.At = time.Now()
	return e
}

func TestNotificationsOutliveTheirProcess(t *testing.T) {
	url, got := receiver(t, 500)
	dir := filepath.Join(t.TempDir(), "outbox")
	n := sender(dir, url)
	n.Notify(recent())
	first := next(t, got)
	n.Close()
	later := sender(dir, url)
	defer later.Close()
	list := kept(t, later)
	if len(list) != 1 || list[0].Dead || list[0].Attempts != 1 || !strings.Contains(list[0].Error, "status 500") {
		t.Fatalf("%+v", list)
	}
	later.SendDue(context.Background(), time.Now()) // it is not due yet
	if len(got) != 0 {
		t.Error("sent too early")
	}
	later.SendDue(context.Background(), list[0].Next)
	if r := next(t, got); r.header.Get("Webhook-Id") != first.header.Get("Webhook-Id") {
		t.Error("a repetition has another ID")
	}
	if list := kept(t, later); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestNotificationsThatAreGivenUp(t *testing.T) {
	url, got := receiver(t, 410)
	n := sender(t.TempDir(), url)
	n.Notify(recent())
	next(t, got)
	n.Close()
	if list := kept(t, n); len(list) != 1 || !list[0].Dead {
		t.Fatalf("%+v", list)
	}
	n.SendDue(context.Background(), time.Now().Add(24*time.Hour))
	if len(got) != 0 {
		t.Error("what was given up was sent")
	}
	if err := n.Retry(context.Background()); err != nil {
		t.Fatal(err)
	}
	next(t, got)
	if list := kept(t, n); len(list) != 0 {
		t.Errorf("%+v", list)
	}
}

func TestAReceiverThatIsDownForDays(t *testing.T) {
	url, got := receiver(t, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500, 500)
	n := sender(t.TempDir(), url)
	n.Notify(recent())
	next(t, got)
	n.Close()
	now, attempts := time.Now(), 1
	for {
		list := kept(t, n)
		if len(list) != 1 {
			t.Fatalf("%+v", list)
		}
		if list[0].Dead {
			break
		}
		wait := list[0].Next.Sub(now)
		if wait <= 0 || wait > 75*time.Minute+time.Second {
			t.Fatalf("the next attempt is after %v", wait)
		}
		now = list[0].Next
		n.SendDue(context.Background(), now)
		attempts++
	}
	if attempts != 20 {
		t.Errorf("%d attempts", attempts)
	}
}

// TestNamesOfPrivateAddresses has a name that leads to this machine, as a name under the
// control of somebody else can.
func TestNamesOfPrivateAddresses(t *testing.T) {
	addrs, err := net.LookupHost("ip6-localhost")
	if err != nil || len(addrs) == 0 {
		t.Skip("no name here leads to a private address")
	}
	for _, private := range []bool{false, true} {
		c := notify.Webhook(settings.Webhook{Name: "ops", URL: "https://ip6-localhost:1/", Private: private}, none)
		err := c.Deliver(context.Background(), recent())
		if refused := err != nil && strings.Contains(err.Error(), "not a public address"); refused == private {
			t.Errorf("private %v: %v", private, err)
		}
	}
}
