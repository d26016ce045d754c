// Package provenance tells where the values of a session came from. An [Index] knows, by hash, each
// word, URL, address and account number that a session has seen, and the source that said it first.
// It keeps no text but a few trusted addresses, and never scans one: a value is looked up in the
// time that hashing it takes. Trust is positive: an unknown value is not trusted. Start at
// [Index.Say], [Index.Add] and [Index.Find].
package provenance

import (
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Kind says who a value came from.
type Kind uint8

// The kinds. The zero Kind is not trusted.
const (
	Unknown Kind = iota
	Outside      // the result of a call that others may have written
	Trusted      // the result of a call to a trusted source
	Policy       // the operator: policies and the prompt of the agent
	Plan         // the plan of the run
	Person       // the person's own words
)

// isGiven reports whether people chose the value, and not data.
func (k Kind) isGiven() bool { return k >= Policy }

// Origin is where a value came from.
type Origin struct {
	Kind  Kind
	Run   string // of the call; "": the run itself
	Call  int    // its index in the run
	Tool  string
	About string // the call's first text argument: untrusted, cut
	Field string // of the result: untrusted, cut

	scope uint64 // under which rules the result is trusted
}

// slot is what the index knows of one hash.
type slot struct {
	first   uint32 // the first origin, from 1
	trusted uint32 // the origin that is trusted, from 1; 0: none
}

// repeated in slot.trusted: a call's arguments had the value before any trusted origin did, so
// that a result which repeats it proves nothing.
const repeated = ^uint32(0)

const (
	maxSlots   = 4 << 20 // in an index; further values stay unknown
	maxFields  = 64      // of one result that have an origin of their own
	maxFriends = 2000    // trusted addresses whose text is kept
	maxLinks   = 16      // literal links that may be followed after a confidential read
	textLength = 60      // of Origin.About and Origin.Field, in bytes
)

// Index knows the values of a session. It is not safe for concurrent use.
type Index struct {
	seed     maphash.Seed // of this index alone, so that nobody can prepare equal hashes
	slots    table
	origins  []Origin
	endorsed map[endorsement]bool
	links    map[uint64]bool
	friends  map[string]int // trusted addresses and how many calls used them
	buf      []byte
}

// endorsement is one value that a person approved, for one argument of one tool.
type endorsement struct {
	tool, argument string
	value          uint64
	origin         uint32
}

// New makes an empty index.
func New() *Index {
	return &Index{seed: maphash.MakeSeed(), endorsed: map[endorsement]bool{}, links: map[uint64]bool{}, friends: map[string]int{}}
}

// Say adds a text of people: of kind Person, Plan or Policy.
func (x *Index) Say(kind Kind, text string) {
	if kind.isGiven() {
		x.text(text, x.origin(Origin{Kind: kind}), gives)
	}
}

// Result is a call that has ended.
type Result struct {
	Origin // of kind Outside or Trusted
	// Args are the arguments if untrusted data may have chosen them, else nil.
	Args   map[string]any
	Output map[string]any
	Scope  uint64 // the rules under which a trusted result is trusted
}

// Add adds the values of a call's result. A trusted result does not make a value trusted that
// an argument had before: it may only repeat it.
func (x *Index) Add(r Result) {
	if r.Args != nil {
		caller := x.origin(Origin{Kind: Unknown})
		x.walk(r.Args, func(string) uint32 { return caller }, "", repeats)
	}
	o, how := r.Origin, sees
	if o.About, o.scope = cut(o.About), r.Scope; o.Kind == Trusted {
		how = trusts
	}
	fields := map[string]uint32{}
	origin := func(field string) uint32 {
		if id, ok := fields[field]; ok {
			return id
		}
		if len(fields) == maxFields {
			field = ""
		}
		o := o
		o.Field = cut(field)
		fields[field] = x.origin(o)
		return fields[field]
	}
	x.walk(r.Output, origin, "", how)
}

func cut(s string) string {
	if len(s) > textLength {
		return strings.ToValidUTF8(s[:textLength], "") + "…"
	}
	return strings.ToValidUTF8(s, "\uFFFD")
}

// mode is the relation of a text to the values in it.
type mode uint8

const (
	sees    mode = iota // it has them
	repeats             // a call's arguments have them
	trusts              // a trusted result has them
	gives               // people said them
)

// put adds a hash.
func (x *Index) put(h uint64, o uint32, how mode) {
	s := x.slots.slotAt(h, maxSlots)
	if s == nil {
		return
	}
	if s.first == 0 || how != repeats && x.origins[s.first-1].Kind == Unknown {
		s.first = o
	}
	switch {
	case how == repeats && s.trusted == 0:
		s.trusted = repeated
	case how == trusts && (s.trusted == 0 || s.trusted != repeated && x.stale(s.trusted, o)):
		s.trusted = o
	case how == gives && (s.trusted == 0 || s.trusted == repeated || x.origins[s.trusted-1].Kind < x.origins[o-1].Kind):
		s.trusted = o
	}
}

// stale reports whether a trusted result was trusted under other rules than a new one.
func (x *Index) stale(was, is uint32) bool {
	o := &x.origins[was-1]
	return o.Kind == Trusted && o.scope != x.origins[is-1].scope
}

// origin adds an origin and returns its number.
func (x *Index) origin(o Origin) uint32 {
	x.origins = append(x.origins, o)
	return uint32(len(x.origins))
}

// walk adds the texts of a value, in a fixed order.
func (x *Index) walk(v any, origin func(field string) uint32, field string, how mode) {
	switch v := v.(type) {
	case string:
		x.text(v, origin(field), how)
	case map[string]any:
		for _, k := range slices.Sorted(maps.Keys(v)) {
			in := k
			if field != "" {
				in = field + "." + k
			}
			if len(in) > 4*textLength {
				in = field
			}
			x.text(k, origin(field), how)
			x.walk(v[k], origin, in, how)
		}
	case []any:
		for _, one := range v {
			x.walk(one, origin, field, how)
		}
	case nil, bool:
	default:
		if s, ok := number(v); ok {
			x.text(s, origin(field), how)
		}
	}
}

// number prints a number of a decoded JSON text.
func number(v any) (string, bool) {
	switch n := v.(type) {
	case float64:
		return strconv.FormatFloat(n, 'f', -1, 64), true
	case int:
		return strconv.Itoa(n), true
	case int64:
		return strconv.FormatInt(n, 10), true
	case interface{ String() string }: // json.Number
		return n.String(), true
	}
	return "", false
}
