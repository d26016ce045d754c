package settings

import (
	"errors"
	"path/filepath"
	"time"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/regex"
)

// Witness is a place that checkpoints of the ledger are sent to.
type Witness struct {
	Webhook // of a witness with an address: Name, URL and Token

	File   string        // absolute path, on other storage; "": it has an address
	Public string        // the witness's public key; "": the address takes signed notes
	Within time.Duration // operators are told if the witness lacks events that are older
}

const (
	maxWitnesses  = 8
	witnessWithin = 10 * time.Minute
)

// ledgerKey is the form of a note's public key, as NAME+HASH+BASE64.
var ledgerKey = regex.Lazy(`^[!-*,-~]{1,200}\+[0-9a-f]{8}\+[A-Za-z0-9+/]{44}$`)

func checkLedgerKey(text string) error {
	if !ledgerKey.MatchString(text) {
		return errors.New("not a public key; expected NAME+HASH+KEY, as in the ledger's keys/ledger.pub")
	}
	return nil
}

func (r *reader) witnesses(n *document.Node, path string, into *[]Witness) {
	r.Each(n, path, func(k, v *document.Node, path string) {
		switch {
		case !webhookName.MatchString(k.Text):
			r.Fail(k, path, "%q is not a valid witness name", clip.Text(k.Text, 60)).Hint = "use up to 40 lower-case letters, digits, _ and -"
		case len(*into) == maxWitnesses:
			r.Fail(k, path, "more than %d witnesses", maxWitnesses)
		default:
			*into = append(*into, r.witness(k, v, path))
		}
	})
}

func (r *reader) witness(k, v *document.Node, path string) Witness {
	w := Witness{Webhook: Webhook{Name: k.Text}, Within: witnessWithin}
	r.Mapping(v, path, document.Fields{
		"file": r.Accept(func(s string) error {
			if w.File = s; !filepath.IsAbs(s) {
				return errors.New("must be an absolute path")
			}
			return nil
		}),
		"url":    r.webhookURL(&w.URL),
		"token":  func(n *document.Node, path string) { w.Token = r.stored(n, path) },
		"key":    r.Accept(func(s string) error { w.Public = s; return checkLedgerKey(s) }),
		"within": r.Duration(&w.Within),
	})
	switch {
	case (w.File == "") == (w.URL == ""):
		r.Fail(v, path, "needs file or url, and not both")
	case w.File != "" && (w.Public != "" || w.Token != ""):
		r.Fail(v, path, "key and token belong to a url, not to a file")
	}
	return w
}
