package settings

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/tool"
)

// Hook is a webhook or a program that is called around calls.
type Hook struct {
	Webhook

	Command   []string      // the program and its arguments; nil: it is a webhook
	Events    []string      // some of HookEvents
	Tools     []string      // IDs, or beginnings of IDs and a final "*"; nil: all tools
	Arguments bool          // it gets the calls' arguments
	Timeout   time.Duration // for its answer
}

// HookEvents are the events that a hook can be called at.
var HookEvents = []string{"asked", "before", "after", "denied"}

const (
	maxHooks       = 16
	maxHookTimeout = 10 * time.Second
	hookTimeout    = 5 * time.Second
)

func (r *reader) hooks(n *document.Node, path string, into *[]Hook) {
	r.Each(n, path, func(k, v *document.Node, path string) {
		switch {
		case !webhookName.MatchString(k.Text):
			r.Fail(k, path, "%q is not a valid hook name", clip.Text(k.Text, 60)).Hint = "use up to 40 lower-case letters, digits, _ and -"
		case len(*into) == maxHooks:
			r.Fail(k, path, "more than %d hooks", maxHooks)
		default:
			*into = append(*into, r.hook(k, v, path))
		}
	})
}

func (r *reader) hook(k, v *document.Node, path string) Hook {
	h := Hook{Webhook: Webhook{Name: k.Text}, Timeout: hookTimeout}
	r.Mapping(v, path, document.Fields{
		"url":     r.webhookURL(&h.URL),
		"key":     func(n *document.Node, path string) { h.Key = r.stored(n, path) },
		"token":   func(n *document.Node, path string) { h.Token = r.stored(n, path) },
		"command": r.Strings(&h.Command, 0),
		"events": r.Strings(&h.Events, 0, func(s string) error {
			if !slices.Contains(HookEvents, s) {
				return fmt.Errorf("%q is not a valid event; expected asked, before, after or denied", clip.Text(s, 60))
			}
			return nil
		}),
		"tools": r.Strings(&h.Tools, 0, func(s string) error {
			if _, err := tool.ParseID(strings.TrimSuffix(s, "*")); err != nil {
				return fmt.Errorf("%q is not a tool ID, nor the beginning of one and *", clip.Text(s, 60))
			}
			return nil
		}),
		"arguments": r.Bool(&h.Arguments),
		"timeout":   r.Duration(&h.Timeout),
	}, "events")
	switch {
	case (h.URL == "") == (h.Command == nil):
		r.Fail(v, path, "must have url or command, one of them")
	case h.Command != nil && (len(h.Command) == 0 || !filepath.IsAbs(h.Command[0])):
		r.Fail(v, path+".command", "must begin with the absolute path of a program")
	case h.Command != nil && h.Key+h.Token != "":
		r.Fail(v, path, "key and token are for a url; a program has none")
	case h.Timeout <= 0 || h.Timeout > maxHookTimeout:
		r.Fail(v, path+".timeout", "must be at most %s", maxHookTimeout)
	}
	return h
}
