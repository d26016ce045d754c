package learn

import (
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/net/publicsuffix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/tool"
)

// seenTarget is a destination that was used.
type seenTarget struct {
	seen
	target  tool.Target
	inspect bool
	secrets []policy.Secret
}

func (b *builder) sawTarget(u Use) {
	if b.targets == nil {
		b.targets = map[string]*seenTarget{}
	}
	a := tool.Action{Kind: tool.Network, Target: u.Action.Target}
	key := a.Target.String()
	effect := b.effect(a)
	if effect == policy.Deny {
		b.refuse(Use{Action: a, Count: u.Count, Why: "the policies do not allow it"})
		return
	}
	t := b.targets[key]
	if t == nil {
		t = &seenTarget{seen: seen{example: key, effect: effect}, target: a.Target}
		t.secrets, _ = b.opt.Chain.Secrets(a.Target) // an error: no secret is added here
		t.inspect = b.opt.Chain.Inspects(a.Target)
		b.targets[key] = t
	}
	t.count += u.times()
}

func (b *builder) allTargets() {
	if !b.opt.Exact {
		b.siblingHosts()
	}
	b.similar()
	for _, key := range sorted(b.targets) {
		t := b.targets[key]
		text, ok := b.targetText(t)
		switch {
		case ok && t.effect == policy.Ask && !exactly(text, t.target):
			ok = false // a target that needs approval is never widened
		case ok && !b.sameSecrets(text, t):
			ok = false
		}
		if !ok {
			b.leave(tool.Network, key, "it contains a secret or a value that will not recur, and no covered pattern matches it", t.count)
			continue
		}
		b.add("network", t.effect, b.networkEntry(text, t), t.count, key)
		if !exactly(text, t.target) {
			b.widenEntry(tool.Network, text, t.count, key)
		}
	}
}

// networkEntry writes the entry with what the chain adds to its requests.
func (b *builder) networkEntry(text string, t *seenTarget) string {
	if t.target.Scheme != "https" || len(t.secrets) == 0 && !t.inspect {
		return strconv.Quote(text)
	}
	if len(t.secrets) == 0 {
		return "url: " + strconv.Quote(text) + "\ninspect: true"
	}
	s := t.secrets[0]
	out := "url: " + strconv.Quote(text) + "\nsecret: {header: " + strconv.Quote(s.Header) + ", env: " + strconv.Quote(s.Env)
	if s.Prefix != "" {
		out += ", prefix: " + strconv.Quote(s.Prefix)
	}
	return out + "}"
}

// sameSecrets reports whether every request that a pattern matches would get the
// same secrets as this one: at most one, by an entry that covers the pattern.
func (b *builder) sameSecrets(text string, t *seenTarget) bool {
	if len(t.secrets) == 0 {
		return true
	}
	rule, err := target.ParseRule(text, false)
	if err != nil || len(t.secrets) > 1 {
		return false
	}
	for _, r := range b.opt.Chain {
		for _, e := range r.Policy().Entries() {
			if e.Section != "network" || e.Effect == policy.Deny || e.Secret == nil || *e.Secret != t.secrets[0] {
				continue
			}
			if wide, err := target.ParseRule(e.Pattern, false); err == nil && wide.Includes(rule) {
				return true
			}
		}
	}
	return false
}

// exactly reports whether a pattern was written out without a wildcard.
func exactly(text string, t tool.Target) bool {
	return !strings.Contains(strings.TrimPrefix(text, t.Method), "*")
}

// targetText writes a destination as an entry: its host and method as they
// were, and in its path a * for each identifier, where that is covered.
func (b *builder) targetText(t *seenTarget) (string, bool) {
	if t.target.Scheme == "ssh-agent" {
		return t.target.String(), true
	}
	head := t.target
	head.Path = ""
	lead := head.String()
	if t.target.Path == "" {
		return lead, t.target.Method == "" // a connection that nobody looks into
	}
	segs := strings.Split(t.target.Path[1:], "/")
	plain, starred := make([]string, len(segs)), make([]string, len(segs))
	never := false // the path must not be written as it is
	for i, seg := range segs {
		if strings.Contains(seg, target.EncodedSlash) { // no entry spells it
			plain, starred, never = append(plain[:i], "**"), append(starred[:i], "**"), true
			break
		}
		plain[i] = escapeSegment(seg)
		starred[i] = plain[i]
		if _, _, ok := b.looks.volatile(seg); ok || strings.Contains(seg, "*") {
			never = true
		}
		if b.looks.identifier(seg) || strings.Contains(seg, "*") {
			starred[i] = "*"
		}
	}
	wide, narrow := lead+"/"+strings.Join(starred, "/"), lead+"/"+strings.Join(plain, "/")
	if wide != narrow && b.covers(tool.Network, wide) {
		return wide, true
	}
	if !never {
		return narrow, parses(narrow, t.target)
	}
	for _, text := range b.originals(tool.Network, policy.Allow) {
		if rule, err := target.ParseRule(text, false); err == nil && rule.Match(t.target) && b.covers(tool.Network, text) {
			return text, true
		}
	}
	return "", false
}

// escapeSegment writes a decoded segment of a path as a pattern.
func escapeSegment(seg string) string { return url.PathEscape(seg) }

// parses reports whether an entry is read as exactly this destination.
func parses(text string, t tool.Target) bool {
	r, err := target.ParseRule(text, false)
	return err == nil && r.Match(t)
}

// siblingHosts folds entries of three or more hosts of one domain into one for all of
// its hosts, where it is covered. Under the domain nobody but its owner has hosts.
func (b *builder) siblingHosts() {
	groups, hosts := map[string][]string{}, map[string]map[string]bool{}
	for _, key := range sorted(b.targets) {
		t := b.targets[key]
		_, domain, ok := strings.Cut(t.target.Host, ".")
		if !ok || t.effect != policy.Allow || len(t.secrets) > 0 || t.inspect || !ownDomain(domain) {
			continue
		}
		head := t.target
		head.Host, head.Path = "*."+domain, ""
		group := head.String()
		if hosts[group] == nil {
			hosts[group] = map[string]bool{}
		}
		groups[group], hosts[group][t.target.Host] = append(groups[group], key), true
	}
	for _, head := range sorted(groups) {
		keys := groups[head]
		if len(hosts[head]) < several {
			continue
		}
		first, same, n := b.targets[keys[0]], true, 0
		for _, k := range keys {
			same, n = same && b.targets[k].target.Path == first.target.Path, n+b.targets[k].count
		}
		pattern := head
		if text, ok := b.targetText(first); same && ok && first.target.Path != "" {
			pattern += strings.TrimPrefix(text, strings.TrimSuffix(first.target.String(), first.target.Path))
		} else if first.target.Path != "" {
			pattern += "/**"
		}
		if _, err := target.ParseRule(pattern, false); err != nil || !b.covers(tool.Network, pattern) {
			continue
		}
		for _, k := range keys {
			delete(b.targets, k)
		}
		b.add("network", policy.Allow, strconv.Quote(pattern), n, first.example)
		b.widenEntry(tool.Network, pattern, n, first.example)
	}
}

// ownDomain reports whether a domain belongs to one owner: it is below one at which
// anybody can register names.
func ownDomain(domain string) bool {
	if _, err := netip.ParseAddr("0." + domain); err == nil {
		return false // of an address
	}
	suffix, _ := publicsuffix.PublicSuffix(domain)
	return suffix != domain && strings.Contains(domain, ".")
}

// similar folds entries that differ in the last segment of their path alone
// into one with a *, where there are several and it is covered.
func (b *builder) similar() {
	groups := map[string][]string{}
	for _, key := range sorted(b.targets) {
		t := b.targets[key]
		i := strings.LastIndexByte(t.target.Path, '/')
		if i < 1 || t.effect != policy.Allow || t.target.Path[i+1:] == "" {
			continue
		}
		head := t.target
		head.Path = ""
		segs := strings.Split(t.target.Path[1:i], "/")
		if slices.ContainsFunc(segs, func(s string) bool { return strings.Contains(s, "*") || b.looks.identifier(s) }) {
			continue
		}
		for j := range segs {
			segs[j] = escapeSegment(segs[j])
		}
		pat := head.String() + "/" + strings.Join(append(segs, "*"), "/")
		groups[pat] = append(groups[pat], key)
	}
	for _, pat := range sorted(groups) {
		keys := groups[pat]
		if len(keys) < several || !b.covers(tool.Network, pat) {
			continue
		}
		all := b.targets[keys[0]]
		if !b.sameSecrets(pat, all) {
			continue
		}
		n := 0
		for _, k := range keys {
			n += b.targets[k].count
			delete(b.targets, k)
		}
		b.add("network", policy.Allow, b.networkEntry(pat, all), n, all.example)
		b.widenEntry(tool.Network, pat, n, all.example)
	}
}
