package app

import (
	"log/slog"
	"path/filepath"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/service/hooks"
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
		list = append(list, notify.Webhook(w, a.storedSecret))
	}
	n := notify.New(list, func() *slog.Logger {
		l, err := a.Home.Log()
		if err != nil {
			return nil
		}
		return l.Logger()
	})
	n.Outbox = &notify.Outbox{Dir: filepath.Join(a.Home.Dir, "outbox")}
	return n
}

// storedSecret finds the value of a stored secret.
func (a *App) storedSecret(name string) (string, bool) {
	return a.Secrets.Value(policy.Secret{Store: name}.Key())
}

// hooks makes the hooks that the settings name.
func (a *App) hooks() []runner.Hook {
	return hooks.New(a.Home.Settings.Hooks, hooks.Config{Box: a.box, Secret: a.storedSecret, Redact: func(b []byte) []byte { return a.Home.Redactor().JSON(b) }})
}
