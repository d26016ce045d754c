package app

import (
	"log/slog"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/service/notify"
)

// notifier makes the channels that the settings name: a new kind of channel is a line here.
func (a *App) notifier() *notify.Notifier {
	var list []notify.Channel
	s := a.Home.Settings.Notifications
	if s.Desktop {
		list = append(list, notify.Desktop(a.Home.Lookup))
	}
	for _, w := range s.Webhooks {
		list = append(list, notify.Webhook(w, func(name string) (string, bool) {
			return a.Secrets.Value(policy.Secret{Store: name}.Key())
		}))
	}
	return notify.New(list, func() *slog.Logger {
		l, err := a.Home.Log()
		if err != nil {
			return nil
		}
		return l.Logger()
	})
}
