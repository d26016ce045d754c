package document

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/near"
)

// Field reads one value. The path names it in messages, as "files.read.allow".
type Field func(n *Node, path string)

// Fields are the keys that a mapping may have.
type Fields map[string]Field

// Mapping reads a mapping that has no other keys than those of known, and all of
// the required ones. It reports whether n is a mapping.
func (r *Reader) Mapping(n *Node, path string, known Fields, required ...string) bool {
	ok := r.Each(n, path, func(key, value *Node, path string) {
		read := known[key.Text]
		if read == nil {
			r.UnknownKey(key, path, known.names())
			return
		}
		read(value, path)
	})
	for _, name := range required {
		if ok && n.Lookup(name) == nil {
			r.Fail(n, Join(path, name), "the required key %q is missing", words(name))
		}
	}
	return ok
}

// Object makes a field of a mapping with known keys.
func (r *Reader) Object(known Fields, required ...string) Field {
	return func(n *Node, path string) { r.Mapping(n, path, known, required...) }
}

func (f Fields) names() []string {
	names := make([]string, 0, len(f))
	for name := range f {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// UnknownKey records a key that is not one of the known ones, with a suggestion.
func (r *Reader) UnknownKey(key *Node, path string, known []string) {
	shown := any(clip.Text(key.Text, 60))
	if len(key.Text) <= 32 && plainKey(key.Text) {
		shown = words(key.Text)
	}
	r.Fail(key, path, "unknown key %q", shown).Hint = Suggest(key.Text, "known keys", known)
}

// Suggest is a hint for a word that is not one of the candidates: the nearest
// one, or all of them.
func Suggest(word, label string, candidates []string) string {
	if best := near.Word(word, candidates); best != "" {
		return fmt.Sprintf("did you mean %q?", best)
	}
	return label + ": " + strings.Join(candidates, ", ")
}

// Each reads the keys of a mapping. It reports whether n is one.
func (r *Reader) Each(n *Node, path string, read func(key, value *Node, path string)) bool {
	if n.Kind != Mapping {
		r.Expected(n, path, "a mapping")
		return false
	}
	for _, p := range n.Pairs {
		read(p.Key, p.Value, r.join(path, p.Key.Text))
	}
	return true
}

// Expected records a value of the wrong kind. The caller may set the hint of the
// error that it returns.
func (r *Reader) Expected(n *Node, path, want string) *fault.Error {
	e := r.Fail(n, path, "must be %s, not %s", words(want), r.describe(n))
	if want == "a string" && (n.Kind == Number || n.Kind == Bool) {
		e.Hint = "put it in quotes"
	}
	return e
}

// List makes a field of a list of at most most elements (0: unbounded).
func (r *Reader) List(most int, read Field) Field {
	return func(n *Node, path string) {
		switch {
		case n.Kind != List:
			r.Expected(n, path, "a list")
		case most > 0 && len(n.Items) > most:
			r.Fail(n, path, "has %d elements; the maximum is %d", len(n.Items), most)
		default:
			for i, item := range n.Items {
				read(item, Index(path, i))
			}
		}
	}
}

// Text is a string value; ok is false, and the problem is recorded, if n is not a
// string.
func (r *Reader) Text(n *Node, path string) (s string, ok bool) {
	if n.Kind != String {
		r.Expected(n, path, "a string")
		return "", false
	}
	return n.Text, true
}

// String makes a field of a string that passes the checks.
func (r *Reader) String(into *string, checks ...func(string) error) Field {
	return func(n *Node, path string) {
		s, ok := r.Text(n, path)
		if !ok {
			return
		}
		for _, check := range checks {
			if err := check(s); err != nil {
				r.Fail(n, path, "%v", err)
				return
			}
		}
		*into = s
	}
}

// Accept makes a field of a string that accept takes, or says why not.
func (r *Reader) Accept(accept func(string) error) Field { return r.String(new(string), accept) }

// Prose makes a field of text for people: not blank, at most most bytes, and
// without characters that are invisible or change how others are shown.
func (r *Reader) Prose(into *string, most int) Field {
	return r.String(into, func(s string) error {
		hidden := strings.IndexFunc(s, isHidden)
		switch {
		case strings.TrimSpace(s) == "":
			return errors.New("must not be empty")
		case len(s) > most:
			return fmt.Errorf("has %d bytes; the maximum is %d", len(s), most)
		case hidden >= 0:
			c, _ := utf8.DecodeRuneInString(s[hidden:])
			return fmt.Errorf("contains the invisible character %+q", c)
		}
		return nil
	})
}

func isHidden(c rune) bool {
	return unicode.IsControl(c) && c != '\n' && c != '\t' || unicode.In(c, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp) || c == utf8.RuneError
}

// Strings makes a field of a list of strings that pass the checks. A list that
// is given, even an empty one, is not nil.
func (r *Reader) Strings(into *[]string, most int, checks ...func(string) error) Field {
	return func(n *Node, path string) {
		*into = []string{}
		r.List(most, func(n *Node, path string) {
			before, s := r.Problems(), ""
			if r.String(&s, checks...)(n, path); r.Problems() == before {
				*into = append(*into, s)
			}
		})(n, path)
	}
}

// Bool makes a field of true or false.
func (r *Reader) Bool(into *bool) Field {
	return func(n *Node, path string) {
		if n.Kind != Bool {
			r.Expected(n, path, "true or false")
			return
		}
		*into = n.Text == "true"
	}
}

// OneOf makes a field of one of several words.
func (r *Reader) OneOf(into *string, choices ...string) Field {
	return func(n *Node, path string) {
		if n.Kind == String && slices.Contains(choices, n.Text) {
			*into = n.Text
			return
		}
		e := r.Expected(n, path, strings.Join(choices, " or "))
		if best := near.Word(n.Text, choices); n.Kind == String && best != "" {
			e.Hint = fmt.Sprintf("did you mean %q?", best)
		}
	}
}

// Integer is any type of whole number that a field may have.
type Integer interface{ ~int | ~int32 | ~int64 }

// Int makes a field of a whole number from least to most.
func Int[T Integer](r *Reader, into *T, least, most int64) Field {
	return func(n *Node, path string) {
		v, err := strconv.ParseInt(n.Text, 10, 64)
		if n.Kind != Number || err != nil || v < least || v > most || int64(T(v)) != v {
			want := fmt.Sprintf("a whole number from %d to %d", least, most)
			if most == math.MaxInt64 {
				want = fmt.Sprintf("a whole number of at least %d", least)
			}
			r.Expected(n, path, want)
			return
		}
		*into = T(v)
	}
}

// Size makes a field of a number of bytes: 4096, 512KB or 5MiB.
func (r *Reader) Size(into *int64) Field {
	return func(n *Node, path string) {
		v, err := ParseSize(n.Text)
		if n.Kind != String && n.Kind != Number || err != nil || v < 1 {
			r.Expected(n, path, "a size of at least 1 byte such as 4096, 512KB or 5MiB")
			return
		}
		*into = v
	}
}

// Duration makes a field of a time of at least a millisecond: 500ms, 30s, 7d.
func (r *Reader) Duration(into *time.Duration) Field {
	return func(n *Node, path string) {
		d, err := ParseDuration(n.Text)
		if n.Kind != String || err != nil || d < time.Millisecond {
			r.Expected(n, path, "a time such as 500ms, 30s, 5m, 1h or 7d")
			return
		}
		*into = d
	}
}

// Version makes a field that must be the number of the format's version.
func (r *Reader) Version(number int) Field {
	return func(n *Node, path string) {
		if n.Kind != Number || n.Text != strconv.Itoa(number) {
			r.Fail(n, path, "this Remit reads version %d, not %s", number, r.describe(n)).Hint = fmt.Sprintf("write version: %d", number)
		}
	}
}
