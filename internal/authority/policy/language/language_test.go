package language

import (
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
)

// random makes a language and Go's regular expression of the same texts, over a
// few characters.
func random(b *Builder, rnd *rand.Rand, depth int) (Language, func(string) bool) {
	if depth == 0 {
		c := string("abc"[rnd.IntN(3)])
		re := regexp.MustCompile("^(?:" + c + ")$")
		return b.Text(c), re.MatchString
	}
	x, inX := random(b, rnd, depth-1)
	y, inY := random(b, rnd, depth-1)
	switch rnd.IntN(5) {
	case 0:
		return b.Or(x, y), func(s string) bool { return inX(s) || inY(s) }
	case 1:
		return b.And(x, b.Not(y)), func(s string) bool { return inX(s) && !inY(s) }
	case 2:
		return b.Not(x), func(s string) bool { return !inX(s) }
	case 3:
		return b.Repeat(x), func(s string) bool { return repeated(s, inX) }
	}
	return b.Then(x, y), func(s string) bool {
		for i := range len(s) + 1 {
			if inX(s[:i]) && inY(s[i:]) {
				return true
			}
		}
		return false
	}
}

func repeated(s string, in func(string) bool) bool {
	reached := make([]bool, len(s)+1)
	reached[0] = true
	for i := 1; i <= len(s); i++ {
		for k := range i {
			reached[i] = reached[i] || reached[k] && in(s[k:i])
		}
	}
	return reached[len(s)]
}

// TestLanguagesAgreeWithTheirDefinition asks random languages about all short texts.
func TestLanguagesAgreeWithTheirDefinition(t *testing.T) {
	var texts []string
	for _, next := range []int{0, 1, 2, 3, 4} {
		for i := range pow(4, next) {
			var s strings.Builder
			for range next {
				s.WriteByte("abcd"[i%4])
				i /= 4
			}
			texts = append(texts, s.String())
		}
	}
	for seed := range uint64(120) {
		b := NewBuilder()
		l, in := random(b, rand.New(rand.NewPCG(seed, 1)), 4)
		shortest := -1
		for _, s := range texts {
			if b.Has(l, s) != in(s) {
				t.Fatalf("seed %d: the language has %q: %v", seed, s, !in(s))
			}
			if in(s) && (shortest < 0 || len(s) < shortest) {
				shortest = len(s)
			}
		}
		got, ok, err := b.Shortest(l)
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case ok && !in(got):
			t.Fatalf("seed %d: the shortest text %q is not in the language", seed, got)
		case !ok && shortest >= 0, ok && shortest >= 0 && len([]rune(got)) != shortest:
			t.Fatalf("seed %d: the shortest text is %q (%v), one of %d characters exists", seed, got, ok, shortest)
		}
	}
}

func pow(x, n int) int {
	out := 1
	for range n {
		out *= x
	}
	return out
}

func TestShortest(t *testing.T) {
	b := NewBuilder()
	name := b.Then(b.NotIn('/', '/'), b.Repeat(b.NotIn('/', '/')))
	below := b.Repeat(b.Then(b.Text("/"), name))
	for _, test := range []struct {
		l    Language
		want string
		ok   bool
	}{
		{None, "", false},
		{Empty, "", true},
		{All, "", true},
		{b.And(b.Then(b.Text("/a"), below), b.Not(b.Text("/a"))), "/a/x", true},
		{b.And(b.Then(b.Text("/a"), below), b.Not(b.Then(b.Text("/a"), below))), "", false},
		{b.And(b.Text("/a/b"), b.Then(b.Text("/a"), below)), "/a/b", true},
		{b.And(b.Fold("Key"), b.Not(b.Text("Key"))), "KEy", true},
		{b.And(b.Text("é"), b.NotIn('a', 'z')), "é", true},
		{b.And(b.Repeat(b.Text("ab")), b.Repeat(b.Text("aba")), b.Not(Empty)), "", false},
		{b.And(b.Repeat(b.Text("aa")), b.Repeat(b.Text("aaa")), b.Not(Empty)), "aaaaaa", true},
	} {
		got, ok, err := b.Shortest(test.l)
		if err != nil || ok != test.ok || len(got) != len(test.want) {
			t.Errorf("got %q, %v, %v; want %q, %v", got, ok, err, test.want, test.ok)
		}
	}
}

// TestTooLarge: a question that would need a state for each set of places ends.
func TestTooLarge(t *testing.T) {
	b := NewBuilder()
	any := b.In('a', 'b')
	l := b.Then(b.Repeat(any), b.Text("a"))
	for range 24 {
		l = b.Then(l, any)
	}
	_, _, err := b.Shortest(b.And(l, b.Not(l), b.Repeat(b.Text("c"))))
	if err != nil {
		t.Errorf("an empty language: %v", err)
	}
	odd := b.And(l, b.Then(b.Repeat(any), b.Text("ca")))
	if _, ok, err := b.Shortest(odd); ok || err != nil && err != ErrTooLarge {
		t.Errorf("got %v, %v", ok, err)
	}
}

func BenchmarkShortest(b *testing.B) {
	for b.Loop() {
		l := NewBuilder()
		name := l.Then(l.NotIn('/', '/'), l.Repeat(l.NotIn('/', '/')))
		below := l.Repeat(l.Then(l.Text("/"), name))
		var allow, deny []Language
		for i := range 200 {
			allow = append(allow, l.Then(l.Text(fmt.Sprintf("/home/user/project%d/src", i)), below))
			deny = append(deny, l.Then(below, l.Text(fmt.Sprintf("/private%d", i)), below))
		}
		if _, ok, err := l.Shortest(l.And(l.Or(allow...), l.Not(l.Or(deny...)), l.Then(l.Text("/home"), below))); !ok || err != nil {
			b.Fatal(ok, err)
		}
	}
}
