package settings

import (
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
)

// Notifications is the section notifications: how people learn of events that wait for them.
type Notifications struct {
	Desktop  bool // notifications of the desktop, over the session's D-Bus
	Bell     bool // the terminal's bell when a question is shown
	Webhooks []Webhook
}

// Webhook is an address that notifications are sent to. Its URL, Key and Token are values, or
// "secret:NAME" for stored secrets; Key and Token are always stored.
type Webhook struct {
	Name   string
	URL    string
	Format string // one of WebhookFormats; "" is json
	Key    string // signs each request; "": unsigned
	Token  string // sent as Authorization: Bearer; "": none

	Private bool // of a notification: a name may lead to an address of a private network
}

// WebhookFormats are the forms in which a webhook can be sent.
var WebhookFormats = []string{"json", "slack", "ntfy", "teams"}

// maxWebhooks bounds the webhooks: each has a queue and a goroutine.
const maxWebhooks = 16

var webhookName = regex.Lazy(`^[a-z][a-z0-9_-]{0,39}$`)

// StoredSecret returns the name in "secret:NAME", and false for other texts.
func StoredSecret(text string) (name string, ok bool) { return strings.CutPrefix(text, "secret:") }

// CheckWebhookURL returns an error unless a URL is https, or plain http on this machine.
func CheckWebhookURL(raw string) error {
	if _, _, err := target.URL("POST", raw); err != nil {
		return err
	}
	if !keepsKeys(raw) {
		return fault.New(fault.Usage, "the address is neither https nor a loopback address; it would be sent unencrypted")
	}
	return nil
}

func (r *reader) notifications(n *Notifications) document.Fields {
	return document.Fields{
		"desktop":  r.Bool(&n.Desktop),
		"bell":     r.Bool(&n.Bell),
		"webhooks": func(node *document.Node, path string) { r.webhooks(node, path, n) },
	}
}

func (r *reader) webhooks(n *document.Node, path string, into *Notifications) {
	r.Each(n, path, func(k, v *document.Node, path string) {
		switch {
		case !webhookName.MatchString(k.Text):
			r.Fail(k, path, "%q is not a valid webhook name", clip.Text(k.Text, 60)).Hint = "use up to 40 lower-case letters, digits, _ and -"
		case len(into.Webhooks) == maxWebhooks:
			r.Fail(k, path, "more than %d webhooks", maxWebhooks)
		default:
			into.Webhooks = append(into.Webhooks, r.webhook(k, v, path))
		}
	})
}

func (r *reader) webhook(k, v *document.Node, path string) Webhook {
	w := Webhook{Name: k.Text}
	r.Mapping(v, path, document.Fields{
		"url":     r.webhookURL(&w.URL),
		"format":  r.OneOf(&w.Format, WebhookFormats...),
		"private": r.Bool(&w.Private),
		"key":     func(n *document.Node, path string) { w.Key = r.stored(n, path) },
		"token":   func(n *document.Node, path string) { w.Token = r.stored(n, path) },
	}, "url")
	return w
}

// webhookURL makes a field of an address, or of a stored secret that is one.
func (r *reader) webhookURL(into *string) document.Field {
	return func(n *document.Node, path string) {
		text, ok := r.Text(n, path)
		if !ok {
			return
		}
		*into = text
		if _, stored := StoredSecret(text); stored {
			r.stored(n, path)
		} else if err := CheckWebhookURL(text); err != nil {
			r.Fail(n, path, "%s", fault.Message(err)).Hint = "use https, an address of this machine, or secret:NAME for an address that is stored as a secret"
		}
	}
}

// stored reads "secret:NAME".
func (r *reader) stored(n *document.Node, path string) string {
	text, ok := r.Text(n, path)
	if !ok {
		return ""
	}
	if name, stored := StoredSecret(text); !stored || !keyName.MatchString(name) {
		r.Fail(n, path, "must be secret:NAME, not the value itself").Hint = "keep the value with remit secret set NAME"
		return ""
	}
	return text
}
