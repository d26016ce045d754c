package provenance

import (
	"strings"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/near"
)

// Found is what an index knows of a value. The zero Found is not trusted.
type Found struct {
	Origin  Origin // the first one
	Trusted bool   // people or trusted data have the value
	Given   bool   // people have it
	Said    bool   // a person said it, or the plan has it
}

func (f Found) and(o Found) Found {
	if f.Trusted && !o.Trusted || f.Origin.Kind == Unknown {
		f.Origin = o.Origin
	}
	f.Trusted, f.Given, f.Said = f.Trusted && o.Trusted, f.Given && o.Given, f.Said && o.Said
	return f
}

// lookUp describes a hash under a scope.
func (x *Index) lookUp(h, scope uint64) Found {
	s := x.slots.get(h)
	var f Found
	if s.first != 0 {
		f.Origin = x.origins[s.first-1]
	}
	if s.trusted != 0 && s.trusted != repeated {
		o := &x.origins[s.trusted-1]
		f.Given, f.Said = o.Kind.isGiven(), o.Kind >= Plan
		f.Trusted = f.Given || o.scope == scope
	}
	return f
}

// Find looks a value up. A text of several words is trusted if each word is, and each pair of
// words beside each other. A URL is trusted as a whole, and a mail address without its name.
// scope is that of [Result.Scope].
func (x *Index) Find(scope uint64, value string) Found {
	v := strings.TrimSpace(fold(value))
	if a, ok := named(v); ok {
		v = a
	}
	if l := linkIn(v); l != "" && l == v {
		f := x.lookUp(x.link(v), scope)
		if f.Trusted || strings.Contains(v, "/") {
			return f
		}
	}
	if a := account(v); a != "" {
		if f := x.lookUp(x.hash(a)^accountKind, scope); f.Trusted {
			return f
		}
	}
	var all Found
	before, n, item := uint64(0), 0, uint64(0)
	scan{word: func(w string, _ class) {
		h := x.hash(w)
		f := x.lookUp(h, scope)
		if n == 0 {
			all = f
		} else {
			all = all.and(f).and(x.lookUp(join(before^pairKind, h), scope))
		}
		before, item, n = h, join(item, h), n+1
	}, line: func() {}}.words(v)
	if whole := x.lookUp(item^itemKind, scope); n > 1 && whole.Origin.Kind != Unknown {
		all.Origin = whole.Origin
	}
	return all
}

// Named reports whether a person or the plan said a value, and not only a longer word of which
// it is a part: who speaks of src/a.go does not name src.
func (x *Index) Named(scope uint64, value string) bool {
	v := trim(strings.TrimSpace(fold(value)))
	if strings.IndexFunc(v, func(r rune) bool { return r < 0x80 && classes[byte(r)]&betweenWords != 0 }) >= 0 {
		return x.Find(scope, value).Said
	}
	return x.lookUp(x.hash(v)^namedKind, scope).Said
}

// named is the address of a mailbox with a name, as in Ann <ann@example.com>.
func named(v string) (string, bool) {
	at := strings.IndexByte(v, '<')
	if at < 0 || !strings.HasSuffix(v, ">") {
		return "", false
	}
	a := v[at+1 : len(v)-1]
	return a, a != "" && address(a) == a && strings.Trim(v[:at], " ") == v[:max(at-1, 0)] && !strings.ContainsAny(v[:at], "@<>,;")
}

// Item returns the result that had a value as a whole line or text; false: none had.
func (x *Index) Item(value string) (Origin, bool) {
	f := x.lookUp(x.key(value)^itemKind, 0)
	return f.Origin, f.Origin.Kind == Outside || f.Origin.Kind == Trusted
}

// key hashes the words of a value as a line.
func (x *Index) key(value string) uint64 {
	line := uint64(0)
	scan{word: func(w string, _ class) { line = join(line, x.hash(w)) }, line: func() {}}.words(strings.TrimSpace(fold(value)))
	return line
}

// HasLink reports whether some text had exactly this URL. It counts the links that are followed
// after a confidential read: their choice could reveal the read data.
func (x *Index) HasLink(link string, confidential bool) bool {
	link = strings.TrimSpace(fold(link))
	h := x.link(link)
	if x.lookUp(h, 0).Origin.Kind == Unknown && !x.hasRelative(link) {
		return false
	}
	if !confidential || x.links[h] {
		return true
	}
	if len(x.links) >= maxLinks {
		return false
	}
	x.links[h] = true
	return true
}

// hasRelative reports whether data from outside has a URL without its host, as in href="/guide",
// or below a URL that is known, as in href="intro.html". Its host must be known, too.
func (x *Index) hasRelative(link string) bool {
	scheme := strings.Index(link, "://")
	if scheme < 0 {
		return false
	}
	link, _, _ = strings.Cut(link, "#")
	host, _, _ := strings.Cut(link[min(scheme+3, len(link)):], "/")
	if host == "" || x.lookUp(x.hash(host), 0).Origin.Kind == Unknown {
		return false
	}
	outside := func(word string) bool { return x.lookUp(x.hash(trim(word)), 0).Origin.Kind == Outside }
	start := scheme + 3 + len(host)
	if len(link) > start+1 && outside(link[start:]) {
		return true
	}
	for i := len(link) - 1; i >= start; i-- {
		if link[i] == '/' && i < len(link)-1 && x.lookUp(x.link(link[:i]), 0).Origin.Kind != Unknown && outside(link[i+1:]) {
			return true
		}
	}
	return false
}

// Endorse notes that a person approved a value, from where it came, for an argument of a tool.
func (x *Index) Endorse(tool, argument, value string) {
	x.endorsed[x.endorsement(tool, argument, value)] = true
}

// Endorsed reports whether a person approved a value for an argument of a tool.
func (x *Index) Endorsed(tool, argument, value string) bool {
	return len(x.endorsed) > 0 && x.endorsed[x.endorsement(tool, argument, value)]
}

func (x *Index) endorsement(tool, argument, value string) endorsement {
	v := strings.TrimSpace(fold(value))
	h := x.key(v)
	if l := linkIn(v); l != "" && l == v {
		h = x.link(v)
	}
	from := x.slots.get(h).first
	if from != 0 && x.origins[from-1].Kind == Unknown {
		from = 0
	}
	return endorsement{tool, argument, h, from}
}

// befriend keeps a trusted mail address, to compare others with it.
func (x *Index) befriend(w string) {
	if a := strings.ToLower(address(w)); a != "" && len(a) <= maxAddress && len(x.friends) < maxFriends {
		if _, known := x.friends[a]; !known {
			x.friends[strings.Clone(a)] = 0
		}
	}
}

// maxAddress is the longest mail address that is compared, in bytes.
const maxAddress = 64

// Used notes that a call goes to a value.
func (x *Index) Used(value string) {
	v := strings.ToLower(strings.TrimSpace(fold(value)))
	if n, known := x.friends[v]; known {
		x.friends[v] = n + 1
	}
}

// Similar finds a trusted mail address that a value could be taken for, and how many calls went
// to it; "": none.
func (x *Index) Similar(value string) (string, int) {
	v := strings.ToLower(strings.TrimSpace(fold(value)))
	if address(v) == "" || len(v) > maxAddress {
		return "", 0
	}
	best, uses := "", -1
	for a, n := range x.friends {
		if a == v || n < uses || n == uses && a > best {
			continue
		}
		if inspect.Alike(a, v) || near.Distance(a, v) <= 2 {
			best, uses = a, n
		}
	}
	return best, max(uses, 0)
}

// Embedded are the URLs, mail addresses and account numbers in a text.
func Embedded(text string) []string {
	var out []string
	var accounts accountRun
	scan{func(w string, _ class) {
		if a := address(w); a != "" {
			out = append(out, a)
		}
		if accounts.add(w) {
			out = append(out, accounts.text)
		}
	}, func() { accounts = accountRun{} }, func(run string) {
		if l := linkIn(run); l != "" {
			out = append(out, l)
		}
	}}.words(fold(text))
	return out
}
