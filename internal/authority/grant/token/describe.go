package token

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/authority/grant"
	"github.com/remitrun/remit/internal/authority/policy"
)

// Whole is the Block of a Line about the whole token.
const Whole = -1

// Line is one statement of a token in words. Text from the token is quoted, and its
// invisible characters are escaped.
type Line struct {
	Block int    // the number of the block, from 0; Whole for all blocks together
	Label string // "until", "budget", ...; "" continues the line before
	Text  string
}

// Describe describes a token's holder, permissions and times, block by block and then
// combined. The result contains no secret. It does not verify the token: [Authentic]
// does.
func Describe(c *Content, at time.Time) []Line {
	d := &describer{c: c}
	for i := range c.links {
		d.block = i
		d.link(&c.links[i])
	}
	d.block = Whole
	d.describeAll(at)
	return d.lines
}

type describer struct {
	c     *Content
	block int
	lines []Line
	so    Content // the combination of the blocks so far
}

func (d *describer) say(label, format string, args ...any) {
	d.lines = append(d.lines, Line{d.block, label, fmt.Sprintf(format, args...)})
}

func (d *describer) link(l *Link) {
	before := d.so
	d.so = *before.withLink(*l)
	d.say("grant", "%s, block %s", l.Grant, l.Hash)
	if d.block == 0 {
		d.say("issued", "%s by the ledger %s with its key %s", stamp(l.Issued), d.c.ledger, shortDigest(d.c.key))
	} else if !l.Issued.IsZero() {
		d.say("appended", "%s, by its own word", stamp(l.Issued))
	}
	d.holder(l, &before)
	d.times(l, &before)
	for _, p := range l.Policies {
		d.policy(p)
	}
	if !l.Budgets.IsZero() {
		d.say("budget", "%s", budgetText(l.Budgets, before.budgets))
	}
	for _, id := range slices.Sorted(maps.Keys(l.Pins)) {
		d.say("pinned", "%q is only %s", id, l.Pins[id])
	}
	if l.Delegate != nil {
		d.say("hand on", "%s", delegateText(l.Delegate))
	}
	if l.Audience != "" {
		d.say("audience", "only %q", l.Audience)
	}
	if l.Workspace != "" {
		d.say("workspace", "only %q", l.Workspace)
	}
}

func (d *describer) holder(l *Link, before *Content) {
	switch {
	case l.Holder == "":
	case d.block == 0:
		d.say("holder", "%q", l.Holder)
	case l.Holder == before.holder:
		d.say("holder", "%q, as before", l.Holder)
	default:
		d.say("holder", "handed on to %q", l.Holder)
	}
	if l.HolderKey == nil {
		return
	}
	key := shortDigest(KeyID(l.HolderKey))
	switch {
	case d.c.handsOver(d.block):
		d.say("bound", "from here on to the key %s, by the holder of the key before", key)
	case before.holderKey != nil:
		d.say("bound", "to the key %s, as before", key)
	default:
		d.say("bound", "to the key %s: only the holder of its private key can use it", key)
	}
}

func (d *describer) times(l *Link, before *Content) {
	if !l.NotBefore.IsZero() {
		note := ""
		if !l.NotBefore.After(before.notBefore) {
			note = ", no effect: " + stamp(before.notBefore) + " comes later"
		}
		d.say("from", "%s%s", stamp(l.NotBefore), note)
	}
	if !l.Expires.IsZero() {
		note := ""
		if !before.expires.IsZero() && !l.Expires.Before(before.expires) {
			note = ", no effect: it ends at " + stamp(before.expires)
		}
		d.say("until", "%s%s", stamp(l.Expires), note)
	}
}

// policy shows a policy in its canonical form.
func (d *describer) policy(p Policy) {
	digest := shortDigest(sha256.Sum256([]byte(p.Source)))
	read, err := policy.Parse(p.File, []byte(p.Source))
	if err != nil {
		d.say("policy", "%q, %s: not readable, so nothing is allowed", p.File, digest)
		return
	}
	d.say("policy", "%q of %q, %s", read.Name(), p.File, digest)
	for line := range strings.Lines(string(bytes.TrimSpace(read.Print()))) {
		line = strings.TrimRight(line, "\n")
		if strings.IndexFunc(line, unseen) >= 0 {
			line = strconv.Quote(line)
		}
		d.say("", "%s", line)
	}
}

func budgetText(own, before grant.Budgets) string {
	both := own.Min(before).String()
	if both == before.Min(grant.Budgets{}).String() && !before.IsZero() {
		return own.String() + ", no effect: it has less already"
	}
	return own.String()
}

func delegateText(patterns []string) string {
	if len(patterns) == 0 {
		return "to no one"
	}
	quoted := make([]string, len(patterns))
	for i, p := range patterns {
		quoted[i] = strconv.Quote(p)
	}
	return "only to " + strings.Join(quoted, " or ")
}

func (d *describer) describeAll(at time.Time) {
	c := d.c
	n := 0
	for i := range c.links {
		n += len(c.links[i].Policies)
	}
	who := strconv.Quote(c.holder)
	if c.holderKey != nil {
		who += ", who must prove it with the key " + shortDigest(KeyID(c.holderKey))
	} else {
		who += "; not bound to a key: anyone with the token can use it"
	}
	d.say("holder", "%s", who)
	if n == 1 {
		d.say("may", "what its policy allows")
	} else {
		d.say("may", "what all its %d policies allow", n)
	}
	if !c.notBefore.IsZero() {
		d.say("from", "%s", stamp(c.notBefore))
	}
	d.say("until", "%s", stamp(c.expires))
	if c.budgets.IsZero() {
		d.say("budget", "none: the limits of its policies apply")
	} else {
		d.say("budget", "%s, and the limits of its policies", c.budgets)
	}
	d.conflicts()
	switch err := c.At(at); {
	case err == nil:
		d.say("now", "in its time, %s left", c.expires.Sub(at).Round(time.Second))
	case !at.Before(c.expires):
		d.say("now", "expired")
	default:
		d.say("now", "not yet valid")
	}
	if c.sealed {
		d.say("narrow", "no: it is sealed")
	} else {
		d.say("narrow", "its holder can append a block, offline")
	}
	if err := c.delegations(); err != nil {
		d.say("refused", "it was handed on further, or to others, than its blocks allow")
	}
}

// conflicts lists contradictions between blocks that make the grant unusable in part.
func (d *describer) conflicts() {
	pins := d.c.Pins()
	for _, id := range slices.Sorted(maps.Keys(pins)) {
		if pins[id].IsZero() {
			d.say("refused", "%q, since its blocks pin it to different digests", id)
		}
	}
	audiences, workspaces := map[string]bool{}, map[string]bool{}
	for i := range d.c.links {
		audiences[d.c.links[i].Audience] = true
		workspaces[d.c.links[i].Workspace] = true
	}
	for _, f := range [...]struct {
		name string
		said map[string]bool
	}{{"audience", audiences}, {"workspace", workspaces}} {
		if delete(f.said, ""); len(f.said) > 1 {
			d.say("refused", "everywhere, since its blocks name different %ss", f.name)
		}
	}
}
