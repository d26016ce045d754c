package redact_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/remitrun/remit/internal/base/redact"
)

// pair is a JSON value, and the same value with its keys masked.
type pair struct{ is, want any }

// drawText draws a text of words and keys.
func drawText(t *rapid.T) (is, want string) {
	for _, key := range rapid.SliceOfN(rapid.IntRange(0, 4), 0, 4).Draw(t, "parts") {
		switch key {
		case 0:
			is, want = is+githubKey()+" ", want+"[redacted:github-pat] "
		case 1:
			is, want = is+numbered(pem("RSA PRIVATE", "\n")), want+"     1\t[redacted:private-key]\n"
		default:
			word := rapid.SampledFrom([]string{"word", "ü", "12", "<&>", `"`, "a: b", "\x00"}).Draw(t, "word") + " "
			is, want = is+word, want+word
		}
	}
	return is, want
}

// drawValue draws a JSON value of at most the given depth.
func drawValue(t *rapid.T, depth int) pair {
	kind := rapid.IntRange(0, 6).Draw(t, "kind")
	if depth == 0 {
		kind %= 4
	}
	switch kind {
	case 0, 1:
		is, want := drawText(t)
		return pair{is, want}
	case 2:
		v := rapid.SampledFrom([]any{nil, true, json.Number("1.50"), json.Number("12345678901234567890")}).Draw(t, "scalar")
		return pair{v, v}
	case 3: // the lines of a private key
		lines := strings.Split(strings.TrimSpace(pem("PRIVATE", "\n")), "\n")
		is, want := []any{"before"}, []any{"before", "[redacted:private-key]"}
		for i, line := range lines {
			if is = append(is, line); i > 0 {
				want = append(want, "")
			}
		}
		return pair{append(is, "after"), append(want, "after")}
	case 4, 5:
		is, want := map[string]any{}, map[string]any{}
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"a", "text", "", githubKey(), "ü"}), 0, 4, rapid.ID[string]).Draw(t, "fields") {
			v := drawValue(t, depth-1)
			is[name], want[strings.ReplaceAll(name, githubKey(), "[redacted:github-pat]")] = v.is, v.want
		}
		return pair{is, want}
	default:
		is, want := []any{}, []any{}
		for range rapid.IntRange(0, 4).Draw(t, "items") {
			v := drawValue(t, depth-1)
			is, want = append(is, v.is), append(want, v.want)
		}
		return pair{is, want}
	}
}

// TestKeysInValues: of a random JSON value exactly the keys change, wherever they are.
func TestKeysInValues(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := drawValue(t, 4)
		before, err := json.Marshal(v.is)
		if err != nil {
			t.Fatal(err)
		}
		got, rules := redact.KeysIn(v.is)
		if diff := cmp.Diff(v.want, got); diff != "" {
			t.Fatalf("%s (-want +got):\n%s", before, diff)
		}
		if (rules == nil) != cmp.Equal(v.is, v.want) {
			t.Fatalf("%s: the rules are %q", before, rules)
		}
		if after, err := json.Marshal(v.is); err != nil || string(after) != string(before) {
			t.Fatalf("the value itself changed from %s to %s (%v)", before, after, err)
		}
		if again, rules := redact.KeysIn(got); rules != nil || !cmp.Equal(again, got) {
			t.Fatalf("a second pass finds %q", rules)
		}
	})
}

// TestKeysInKeepsItsFields: names that become equal stay apart.
func TestKeysInKeepsItsFields(t *testing.T) {
	other := "gh" + "p_" + "99C7e42F292c6912E7710c838347Ae178B4a"
	got, _ := redact.KeysIn(map[string]any{githubKey(): "a", other: "b", "[redacted:github-pat]": "c"})
	if m, ok := got.(map[string]any); !ok || len(m) != 3 || m["[redacted:github-pat]"] != "c" {
		t.Errorf("%v", got)
	}
}
