package token

import (
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// checkRoot reports the first invalid value of a root, with fault.GrantInvalid
// and the field.
func checkRoot(w *wirePayload, b *Block) error {
	switch {
	case len(w.Ledger) != len(tool.Digest{}) || tool.Digest(w.Ledger).IsZero():
		return malformed("a ledger's ID is a hash of 32 bytes").In("ledger")
	case len(w.Key) != len(tool.Digest{}):
		return malformed("a key's ID is a hash of 32 bytes").In("key")
	case !isV7(w.ID):
		return malformed("a grant's ID is a UUID of version 7").In("id")
	case len(w.Nonce) != nonceSize:
		return malformed("the nonce has %d bytes, not %d", len(w.Nonce), nonceSize).In("nonce")
	case b.Holder == "":
		return malformed("a grant has a holder").In("holder")
	case len(b.Policies) == 0:
		return malformed("a grant has at least one policy").In("policies")
	case b.Issued.IsZero() || b.Expires.IsZero():
		return malformed("a grant is issued at a time and expires at one").In("expires")
	case !b.Expires.After(b.Issued):
		return malformed("the grant would expire before it is issued").In("expires")
	case b.Expires.Sub(b.Issued) > MaxLife:
		return malformed("the grant would last longer than %d days", int(MaxLife.Hours()/24)).In("expires")
	}
	return checkBlock(b)
}

// checkBlock reports the first value that is invalid in a block by itself, with
// fault.GrantInvalid and the field.
func checkBlock(b *Block) error {
	for _, f := range [...]struct {
		name, text string
		most       int
	}{{"holder", b.Holder, MaxText}, {"audience", b.Audience, MaxText}, {"workspace", b.Workspace, MaxPath}} {
		if f.text != "" && !isPlainText(f.text, f.most) {
			return malformed("not 1 to %d bytes of characters that can be seen", f.most).In(f.name)
		}
	}
	if b.HolderKey != nil && !usableKey(b.HolderKey) {
		return malformed("not a usable public key of Ed25519").In("holder_key")
	}
	if b.Workspace != "" && b.Workspace[0] != '/' {
		return malformed("%q is not an absolute path", b.Workspace).In("workspace")
	}
	for _, t := range [...]struct {
		name string
		ms   uint64
	}{{"issued", millis(b.Issued)}, {"not_before", millis(b.NotBefore)}, {"expires", millis(b.Expires)}} {
		if t.ms > maxMillis {
			return malformed("not a time between the years 1970 and 9999").In(t.name)
		}
	}
	if err := b.Budgets.Check(); err != nil {
		return recode(err, fault.GrantInvalid)
	}
	if err := checkPolicies(b.Policies); err != nil {
		return err
	}
	return checkLists(b)
}

func checkPolicies(ps []Policy) error {
	if len(ps) > MaxPolicies {
		return malformed("%d policies: a block has at most %d", len(ps), MaxPolicies).In("policies")
	}
	for i, p := range ps {
		field := fmt.Sprintf("policies[%d]", i)
		if fileName(p.File) != p.File {
			return malformed("%q cannot name a policy's file: its last part only, of characters that can be seen", p.File).In(field)
		}
		if p.Source == "" || len(p.Source) > MaxPolicy || !utf8.ValidString(p.Source) {
			e := malformed("the policy has %d bytes: a token takes 1 to %d of UTF-8", len(p.Source), MaxPolicy).In(field)
			if len(p.Source) > MaxPolicy {
				e.Code = fault.GrantTooLarge
			}
			return e
		}
	}
	return nil
}

func checkLists(b *Block) error {
	if len(b.Pins) > MaxPins {
		return malformed("%d pinned tools: a block has at most %d", len(b.Pins), MaxPins).In("pins")
	}
	for id, d := range b.Pins {
		if _, err := tool.ParseID(string(id)); err != nil || d.IsZero() {
			return malformed("%q with the digest %s is not a valid tool", id, d).In("pins")
		}
	}
	if len(b.Delegate) > MaxDelegate {
		return malformed("%d patterns: a block has at most %d", len(b.Delegate), MaxDelegate).In("delegate")
	}
	for i, s := range b.Delegate {
		if _, err := holderPattern(s); err != nil {
			return malformed("%q is not a valid holder pattern; expected kind:name, with * as a wildcard", s).In(fmt.Sprintf("delegate[%d]", i))
		}
	}
	return nil
}

// holderPattern reads a pattern of principals, as a policy's roles have them.
func holderPattern(s string) (*glob.Text, error) {
	if !isPlainText(s, MaxText) {
		return nil, malformed("no pattern")
	}
	return glob.CompileName(s, ':', false)
}

// isPlainText reports whether s has 1 to most bytes, all of visible characters.
func isPlainText(s string, most int) bool {
	return s != "" && len(s) <= most && utf8.ValidString(s) && strings.IndexFunc(s, unseen) < 0
}

func unseen(r rune) bool { return !unicode.IsPrint(r) }

// fileName returns the last part of a file's name, with invisible characters
// replaced.
func fileName(s string) string {
	s = s[strings.LastIndexAny(s, `/\`)+1:]
	s = strings.Map(func(r rune) rune {
		if unseen(r) || r == utf8.RuneError || strings.ContainsRune(`"'`+"`", r) {
			return '_'
		}
		return r
	}, s)
	for len(s) > MaxText {
		_, n := utf8.DecodeLastRuneInString(s)
		s = s[:len(s)-n]
	}
	if s == "" {
		return "policy"
	}
	return s
}

// recode changes the code of a block's error: the same mistake is fault.Usage when a
// block is written, and a malformed token when it is read. The code for an excessive
// size stays.
func recode(err error, c fault.Code) error {
	var e *fault.Error
	if !errors.As(err, &e) || e.Code == fault.GrantTooLarge {
		return err
	}
	again := *e
	again.Code = c
	return &again
}
