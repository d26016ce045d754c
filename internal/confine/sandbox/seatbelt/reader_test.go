package seatbelt_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"

	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/seatbelt"
)

// form is an expression of a profile: an atom, or a list.
type form struct {
	atom string // with its quotes, if it is a string
	list []form
}

// readForms reads a whole profile, as strictly as Scheme does.
func readForms(text string) (out []form, err error) {
	rest := strings.TrimSpace(text)
	for rest != "" {
		var f form
		if f, rest, err = readForm(rest); err != nil {
			return nil, err
		}
		out = append(out, f)
		rest = strings.TrimSpace(rest)
	}
	return out, nil
}

var atom = regexp.MustCompile(`^(#?"[^"\\]*"|[A-Za-z0-9*._-]+)`)

func readForm(s string) (form, string, error) {
	if s == "" {
		return form{}, "", fmt.Errorf("the text ends in a form")
	}
	if s[0] != '(' {
		a := atom.FindString(s)
		if a == "" {
			return form{}, "", fmt.Errorf("not an atom: %.40q", s)
		}
		return form{atom: a}, s[len(a):], nil
	}
	f := form{list: []form{}}
	s = strings.TrimLeft(s[1:], " \n")
	for !strings.HasPrefix(s, ")") {
		one, rest, err := readForm(s)
		if err != nil {
			return form{}, "", err
		}
		f.list, s = append(f.list, one), strings.TrimLeft(rest, " \n")
	}
	return f, s[1:], nil
}

// rules are a profile that was read back.
type rules struct {
	all    []rule
	params map[string]string
}

// rule allows or denies operations for paths that match every one of a list of tests, or
// for what no path says.
type rule struct {
	allow   bool
	ops     []string
	filters []form
}

func read(t interface {
	Helper()
	Fatalf(string, ...any)
}, text seatbelt.Text) *rules {
	t.Helper()
	r := &rules{params: map[string]string{}}
	for _, kv := range text.Params {
		name, v, _ := strings.Cut(kv, "=")
		r.params[name] = v
	}
	forms, err := readForms(text.Profile)
	if err != nil {
		t.Fatalf("the profile cannot be read: %v\n%s", err, text.Profile)
	}
	for i, f := range forms {
		verb := f.list[0].atom
		switch {
		case i == 0 && verb == "version" && f.list[1].atom == "1":
		case i == 1 && verb == "deny" && f.list[1].atom == "default":
		case verb == "allow" || verb == "deny":
			one := rule{allow: verb == "allow"}
			for _, part := range f.list[1:] {
				if part.list == nil {
					one.ops = append(one.ops, part.atom)
				} else {
					one.filters = append(one.filters, part)
				}
			}
			r.all = append(r.all, one)
		default:
			t.Fatalf("form %d is %q", i, verb)
		}
	}
	return r
}

// decide tells whether an operation on a path is allowed: the last rule that is about it
// wins, and without one it is denied.
func (r *rules) decide(op, at string) bool {
	allowed := false
	for _, one := range r.all {
		if one.about(op) && r.matches(one.filters, at) {
			allowed = one.allow
		}
	}
	return allowed
}

func (r rule) about(op string) bool {
	for _, o := range r.ops {
		if before, wild := strings.CutSuffix(o, "*"); o == op || wild && strings.HasPrefix(op, before) {
			return true
		}
	}
	return false
}

// matches reports whether one of the filters does: those side by side are alternatives.
func (r *rules) matches(filters []form, at string) bool {
	for _, f := range filters {
		if r.match(f, at) {
			return true
		}
	}
	return len(filters) == 0
}

func (r *rules) match(f form, at string) bool {
	switch f.list[0].atom {
	case "literal":
		return at == r.value(f.list[1])
	case "subpath":
		return sandbox.Within(at, r.value(f.list[1]))
	case "regex":
		pattern := strings.TrimSuffix(strings.TrimPrefix(f.list[1].atom, `#"`), `"`)
		return regexp.MustCompile(pattern).MatchString(at)
	case "require-all":
		for _, sub := range f.list[1:] {
			if !r.match(sub, at) {
				return false
			}
		}
		return true
	}
	return false // about something else than a path
}

// value is that of a string or a parameter.
func (r *rules) value(f form) string {
	if f.list != nil && f.list[0].atom == "param" {
		v, ok := r.params[strings.Trim(f.list[1].atom, `"`)]
		if !ok {
			panic("no parameter " + f.list[1].atom)
		}
		return v
	}
	return strings.Trim(f.atom, `"`)
}

// access is what the rules allow with a path.
func (r *rules) access(at string) (a sandbox.Access) {
	if r.decide("file-read-data", at) {
		a |= sandbox.ReadOnly
	}
	if r.decide("file-write-data", at) && r.decide("file-write-create", at) {
		a |= sandbox.WriteOnly
	}
	return a
}

// meant is what the mounts show of a path: on Linux this is what the kernel does.
func meant(mounts []sandbox.Mount, at string) sandbox.Access {
	_, m := sandbox.Cover(mounts, path.Clean(at))
	if m == nil || m.Kind != sandbox.Bind {
		return sandbox.NoAccess
	}
	return m.Access
}
