package notify

import (
	"context"
	"errors"
	"html"
	"slices"
	"strings"

	"github.com/godbus/dbus/v5"

	"github.com/remitrun/remit/internal/base/fault"
)

// desktop shows events as notifications of the desktop, by org.freedesktop.Notifications on the
// session bus. They have no buttons: none can answer a question.
type desktop struct{ address string }

// Desktop returns the channel of the desktop whose session the environment names.
func Desktop(lookup func(string) (string, bool)) Channel {
	address, _ := lookup("DBUS_SESSION_BUS_ADDRESS")
	if dir, _ := lookup("XDG_RUNTIME_DIR"); address == "" && dir != "" {
		address = "unix:path=" + dir + "/bus"
	}
	return &desktop{address}
}

// Name implements Channel.
func (*desktop) Name() string { return "desktop" }

// Deliver implements Channel.
func (d *desktop) Deliver(ctx context.Context, e Event) error {
	// Other transports could start programs or leave this machine.
	if !strings.HasPrefix(d.address, "unix:") || strings.Contains(d.address, ";") {
		return errors.Join(errPermanent, fault.New(fault.Usage, "no session bus was found").WithHint("set DBUS_SESSION_BUS_ADDRESS to an address that begins with unix:"))
	}
	conn, err := dbus.Connect(d.address, dbus.WithContext(ctx))
	if err != nil {
		return fault.Wrap(fault.Internal, err, "the session bus did not answer")
	}
	defer func() { _ = conn.Close() }()
	server := conn.Object("org.freedesktop.Notifications", "/org/freedesktop/Notifications")
	var can []string
	if err := server.CallWithContext(ctx, "org.freedesktop.Notifications.GetCapabilities", 0).Store(&can); err != nil {
		return fault.Wrap(fault.Internal, err, "no program shows notifications on this desktop")
	}
	text := e.Do
	if slices.Contains(can, "body-markup") {
		text = html.EscapeString(text)
	}
	hints := map[string]dbus.Variant{"urgency": dbus.MakeVariant(byte(1)), "category": dbus.MakeVariant("im.received")}
	const keepDefault = int32(-1)
	call := server.CallWithContext(ctx, "org.freedesktop.Notifications.Notify", 0, "Remit", uint32(0), "", e.Title, text, []string{}, hints, keepDefault)
	if call.Err != nil {
		return fault.Wrap(fault.Internal, call.Err, "the notification was refused")
	}
	return nil
}
