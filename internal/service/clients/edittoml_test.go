package clients

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/base/fault"
)

var tomlEdits = []Edit{
	{Path: []string{"features", "hooks"}, Value: true},
	{Path: []string{"hooks", "managed_dir"}, Value: `/opt/"a"`},
	{Path: []string{"hooks", "Before"}, List: true, Value: map[string]any{"matcher": "x", "hooks": []any{map[string]any{"command": "remit hook", "timeout": 60.0}}}},
}

func tomlEdited(t *testing.T, src string) (*tomlDocument, []Edit, error) {
	t.Helper()
	doc, err := parseTOML([]byte(src))
	if err != nil {
		t.Fatalf("%s: %v", src, err)
	}
	var own []Edit
	for _, e := range tomlEdits {
		had, err := doc.apply(e)
		if err != nil {
			return doc, own, err
		}
		if !had {
			own = append(own, e)
		}
	}
	return doc, own, nil
}

// What is added stands beside what is there, and removing it gives the text as it was.
func TestEditsOfTOMLAreUndone(t *testing.T) {
	for _, src := range []string{
		"",
		"a = 1\nwebhooks = true\n",
		"[features]\nwebhooks = true\n\n[other]\nhooks = true\n",
		"# mine\na = 1 # behind\n\n[features] # mine\nother = false\n",
		"[features]\nhooks = true\n",
		"[hooks]\n# none yet\n\n[more]\nmanaged_dir = \"x\"\n",
		"[[hooks.Before]]\n[[hooks.Before.hooks]]\ncommand = \"own\"\n",
		"a = '''\n[features]\n'''\n",
	} {
		doc, own, err := tomlEdited(t, src)
		if err != nil {
			t.Errorf("%s: %v", src, err)
			continue
		}
		text := string(doc.bytes())
		for _, e := range tomlEdits {
			if !has(doc, e) {
				t.Errorf("%s\nbecomes %s, without %v", src, text, e.Path)
			}
		}
		if again, more, err := tomlEdited(t, text); err != nil || len(more) > 0 || string(again.bytes()) != text {
			t.Errorf("a second time %s\nbecomes %s: %v", text, again.bytes(), err)
		}
		const before, behind = "# of the owner\nmore_of_mine = 2\n", "\n[later]\nb = 1\n"
		changed, err := parseTOML([]byte(before + text + behind))
		if err != nil {
			t.Fatal(err)
		}
		was, err := parseTOML([]byte(src))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range own {
			if !doc.remove(e, "") || !changed.remove(e, "") {
				t.Errorf("%s\n%v is not removed", text, e.Path)
			}
			doc.prune(e, was)
			changed.prune(e, was)
		}
		// The line of a table that only had tables below it may stay.
		if back := string(doc.bytes()); back != src && back != src+"[hooks]\n" {
			t.Errorf("%q\nbecomes %q\nand back %q", src, text, back)
		}
		if back := string(changed.bytes()); back != before+src+behind && back != before+src+"[hooks]\n"+behind {
			t.Errorf("%q\nwith changes of its owner goes back to %q", src, back)
		}
	}
}

// What cannot be edited by whole lines is refused with the lines to add, and another value is never replaced.
func TestTOMLThatCannotBeEdited(t *testing.T) {
	for src, want := range map[string]string{
		"features = {other = 1}\n":                    "add these lines by hand:\n[features]\nhooks = true",
		"features.other = 1\n":                        "add these lines by hand",
		"[features]\nhooks = false\n":                 `"features.hooks" is false in it, and must be true`,
		"features = 1\n":                              "add these lines by hand",
		"hooks = {Before = []}\n":                     "add these lines by hand",
		"a = '''\n[features]\n'''\n[ features ]\nb=1": "add these lines by hand",
	} {
		doc, _, err := tomlEdited(t, src)
		if err == nil || !strings.Contains(fault.Message(err), want) {
			t.Errorf("%s: %v\n%s", src, err, doc.bytes())
		}
	}
}

// Lines of Remit that their owner changed are left for the owner to remove.
func TestChangedLinesOfTOMLAreNotGuessed(t *testing.T) {
	doc, own, err := tomlEdited(t, "")
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(doc.bytes()), "timeout = 60", "timeout =  60 # mine", 1)
	one := Installed{File: "requirements.toml", Command: "remit hook", Edits: own}
	if _, err := one.restoreConfig([]byte(text)); fault.CodeOf(err) != fault.Conflict || !strings.Contains(fault.Message(err), "by hand:\n[[hooks.Before]]") {
		t.Errorf("%v", err)
	}
}
