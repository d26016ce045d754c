package clients

import (
	"encoding/json"
	"strings"
	"testing"
)

var hookEdits = []Edit{
	{Path: []string{"hooks", "Before"}, Value: map[string]any{"hooks": []any{map[string]any{"command": "remit hook"}}}, List: true},
	{Path: []string{"off"}, Value: false},
}

func edited(t *testing.T, src string, edits []Edit) (string, []Edit) {
	t.Helper()
	doc, err := parse([]byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	var own []Edit
	for _, e := range edits {
		had, err := doc.apply(e)
		if err != nil {
			t.Fatalf("%s: %v", src, err)
		}
		if !had {
			own = append(own, e)
		}
	}
	return string(doc.bytes()), own
}

func undone(t *testing.T, src, original string, edits []Edit) string {
	t.Helper()
	doc, err := parse([]byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	was, err := parse([]byte(original))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range edits {
		doc.remove(e, "remit hook")
		doc.prune(e, was)
	}
	return string(doc.bytes())
}

// What is added is JSON beside what is there, and removing it gives the text as it was.
func TestEditsAreUndone(t *testing.T) {
	for _, src := range []string{
		"{}\n",
		"{\n  \"a\": 1\n}\n",
		"{\"a\":1}",
		"{\n  // mine\n  \"a\": 1, // behind\n  \"hooks\": {\n    \"Before\": [\n      {\"command\": \"x\"} /* c */\n    ]\n  }\n}\n",
		"{\n\t\"hooks\": {},\n\t\"a\": [1, 2,],\n}\n",
		"{\"hooks\": {\"Before\": [], \"After\": [{\"command\": \"y\"}]}, \"off\": false}",
		"{\n  \"a\": 1 // last\n}\n",
	} {
		text, own := edited(t, src, hookEdits)
		doc, err := parse([]byte(text))
		if err != nil {
			t.Errorf("%s\nbecomes %s: %v", src, text, err)
			continue
		}
		for _, e := range hookEdits {
			if had, err := doc.apply(e); err != nil || !had {
				t.Errorf("%s\nbecomes %s, without %v: %v", src, text, e.Path, err)
			}
		}
		if again, _ := edited(t, text, hookEdits); again != text {
			t.Errorf("a second time %s\nbecomes %s", text, again)
		}
		for _, comment := range []string{"// mine", "// behind", "/* c */", "// last"} {
			if strings.Contains(src, comment) != strings.Contains(text, comment) {
				t.Errorf("%s\nbecomes %s", src, text)
			}
		}
		back := undone(t, text, src, own)
		if squeezed(back) != squeezed(src) {
			t.Errorf("%s\nbecomes %s\nand back %s", src, text, back)
		}
	}
}

// squeezed removes white space: an empty list may come back formatted differently.
func squeezed(s string) string { return strings.Join(strings.Fields(s), "") }

// What the owner changed meanwhile stays, also a hook beside Remit's and a changed one of Remit's.
func TestOthersChangesSurviveTheRemoval(t *testing.T) {
	src := "{\n  \"a\": 1\n}\n"
	text, own := edited(t, src, hookEdits)
	for change, want := range map[[2]string]string{
		{`"a": 1`, `"a": 2`}: `{"a":2}`,
		{`"command": "remit hook"`, `"command": "remit hook", "async": 1`}: `{"a":1}`,
		{`"a": 1`, `"a": 1, "b": {"c": []}`}:                               `{"a":1,"b":{"c":[]}}`,
		{`"Before": [`, `"Before": [{"command": "own"},`}:                  `{"a":1,"hooks":{"Before":[{"command":"own"}]}}`,
		{`"hooks": [`, `"hooks": [{"command": "own"},`}:                    `{"a":1,"hooks":{"Before":[{"hooks":[{"command":"own"}]}]}}`,
		{`"off": false`, `"off": true`}:                                    `{"a":1,"off":true}`,
	} {
		changed := strings.Replace(text, change[0], change[1], 1)
		if changed == text {
			t.Fatalf("%q is not in %s", change[0], text)
		}
		if got := squeezed(undone(t, changed, src, own)); got != want {
			t.Errorf("%s: %s, want %s", change[1], got, want)
		}
	}
}

func TestConfigurationsThatAreRefused(t *testing.T) {
	for src, want := range map[string]string{
		`[]`:                      "not a JSON object",
		`{"a": 1, "a": 2}`:        "not valid JSON",
		`{`:                       "not valid JSON",
		`{"hooks": []}`:           `"hooks" is not an object`,
		`{"hooks": {"Before":1}}`: `"hooks.Before" is not a list`,
		`{"off": true}`:           `"off" is true in it, and must be false`,
	} {
		doc, err := parse([]byte(src))
		for _, e := range hookEdits {
			if err == nil {
				_, err = doc.apply(e)
			}
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", src, err)
		}
	}
}

func FuzzEdits(f *testing.F) {
	f.Add("{\"a\": 1 /* x */,}")
	f.Add("{\"hooks\": {\"Before\": [1 // x\n]}}")
	f.Fuzz(func(t *testing.T, src string) {
		doc, err := parse([]byte(src))
		if err != nil {
			return
		}
		before, _ := doc.decoded()
		var own []Edit
		for _, e := range hookEdits {
			had, err := doc.apply(e)
			if err != nil {
				return
			}
			if !had {
				own = append(own, e)
			}
		}
		text := string(doc.bytes())
		if again, err := parse([]byte(text)); err != nil {
			t.Fatalf("%q becomes %q: %v", src, text, err)
		} else if v, _ := again.decoded("hooks", "Before"); v == nil {
			t.Fatalf("%q becomes %q", src, text)
		}
		back, err := parse([]byte(undone(t, text, src, own)))
		if err != nil {
			t.Fatalf("%q becomes %q: %v", src, text, err)
		}
		after, _ := back.decoded()
		if canonical(t, after) != canonical(t, before) {
			t.Fatalf("%q comes back as %v", src, after)
		}
	})
}

func canonical(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
