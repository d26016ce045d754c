package cli

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/notify"
)

func (s *session) notifyCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "notify",
		Short: "List the channels that notify you of waiting approvals and violations",
		Long: `When a call needs approval, or violates a policy that says notify, pause or
revoke, Remit can notify you on the desktop and by webhooks.
The section notifications of config.yaml names these channels. A notification
has the tool and the IDs of the call, never its arguments, and cannot answer it.
`,
		Example: `  remit notify
  remit notify test
  remit notify retry`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			set := a.Home.Settings.Notifications
			names, err := channelViews(a.Notifier)
			if err != nil {
				return err
			}
			if s.json {
				return printPage(s, names, "")
			}
			for _, n := range names {
				s.printf("%s%s\n", show(n.Channel), show(n.undelivered()))
			}
			if set.Bell {
				s.printf("terminal bell\n")
			} else if len(names) == 0 {
				s.printf("no channels; add the section notifications to config.yaml\n")
			}
			return nil
		},
	}
	c.AddCommand(s.notifyTestCmd(), s.notifyRetryCmd())
	return c
}

func (s *session) notifyRetryCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "retry",
		Short: "Send notifications again that wait or were given up",
		Long: `Sends every notification to a webhook that was not delivered, once, now. Those
that fail again wait for remit serve, which tries for three days.
`,
		Example: "  remit notify retry",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			if err := a.Notifier.Retry(cmd.Context()); err != nil {
				return err
			}
			left, err := a.Notifier.Outbox.List()
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(map[string]int{"left": len(left)})
			}
			s.printf("%s not delivered\n", counted(len(left), "notification"))
			return nil
		},
	}
}

// channelView is a channel as --json prints it, after a test with its result.
type channelView struct {
	Channel   string `json:"channel"`
	Delivered *bool  `json:"delivered,omitempty"`
	Waiting   int    `json:"waiting,omitempty"` // notifications that are tried again
	Dead      int    `json:"dead,omitempty"`    // that were given up
	Error     string `json:"error,omitempty"`   // of the test, or of the newest that was given up
}

// channelViews lists the channels, with what waits for each.
func channelViews(n *notify.Notifier) ([]channelView, error) {
	kept, err := n.Outbox.List()
	if err != nil {
		return nil, err
	}
	out := []channelView{}
	for _, c := range n.Channels() {
		v := channelView{Channel: c.Name()}
		for _, k := range kept {
			switch {
			case k.Channel != v.Channel:
			case k.Dead:
				v.Dead++
				v.Error = k.Error
			default:
				v.Waiting++
			}
		}
		out = append(out, v)
	}
	return out, nil
}

// undelivered tells of notifications that were not delivered.
func (v channelView) undelivered() string {
	text := ""
	if v.Waiting > 0 {
		text = fmt.Sprintf(", %d waiting", v.Waiting)
	}
	if v.Dead > 0 {
		text += fmt.Sprintf(", %d given up: %s", v.Dead, v.Error)
	}
	return text
}

func (s *session) notifyTestCmd() *cobra.Command {
	return &cobra.Command{
		Use:     "test",
		Short:   "Send a test notification to every channel",
		Long:    "Sends one notification to every channel, once, and shows whether it arrived.\n",
		Example: "  remit notify test",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.open()
			if err != nil {
				return err
			}
			id, err := home.NewID()
			if err != nil {
				return err
			}
			results := a.Notifier.Try(cmd.Context(), notify.Event{Kind: notify.Test, ID: id.String(), At: time.Now(), Title: "Test notification of Remit", Do: "remit notify"})
			if len(results) == 0 {
				return fault.New(fault.Usage, "no notification channel is configured").WithHint("add the section notifications to config.yaml")
			}
			return s.printDeliveries(results)
		},
	}
}

// printDeliveries prints the results of a test. A failure makes the exit status 1.
func (s *session) printDeliveries(results []notify.Result) error {
	views := make([]channelView, len(results))
	failed := false
	for i, r := range results {
		ok := r.Err == nil
		failed = failed || !ok
		if views[i] = (channelView{Channel: r.Channel, Delivered: &ok}); !ok {
			views[i].Error = r.Err.Error()
		}
	}
	if s.json {
		if err := printPage(s, views, ""); err != nil {
			return err
		}
	} else {
		for _, v := range views {
			if *v.Delivered {
				s.printf("%s %s\n", s.paint(green, "✓"), show(v.Channel))
			} else {
				s.item(s.paint(red, "✗"), v.Channel+": "+v.Error)
			}
		}
	}
	if failed {
		return exit(1)
	}
	return nil
}

// ring rings the terminal's bell, if the settings say so. It must not be called while another
// program uses the terminal.
func (s *session) ring() {
	if s.app != nil && s.app.Home.Settings.Notifications.Bell && s.moves(s.Out) {
		s.printf("\a")
	}
}
