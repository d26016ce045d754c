// Package edit adds entries to the text of a policy, and keeps the rest of the text, with its
// comments, as it is. It is pure. Start at [Add].
package edit

import (
	"encoding/json"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/compare"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// Add returns the text of a policy with entries added to its lists. The result is checked: it
// differs from p by these entries and by nothing else. Where the text cannot be changed so,
// the error says which entries to add by hand.
func Add(p *policy.Policy, lines []learn.Line) ([]byte, error) {
	text := string(p.Source())
	for _, l := range lines {
		added, ok := add(text, l)
		if !ok {
			return nil, byHand(p, lines)
		}
		text = added
	}
	is, err := policy.Parse(p.File(), []byte(text))
	if err != nil || !onlyAdded(compare.Documents(p, is), lines) {
		return nil, byHand(p, lines)
	}
	return []byte(text), nil
}

func byHand(p *policy.Policy, lines []learn.Line) error {
	entries := make([]string, len(lines))
	for i, l := range lines {
		entries[i] = l.List + ": " + l.Text
	}
	return fault.New(fault.PolicyInvalid, "the policy's text cannot be changed without changing more than is proposed").At(fault.Pos{File: p.File()}).
		ForOperator("add by hand: %s", strings.Join(entries, "; "))
}

// onlyAdded reports whether changes are nothing but new entries of the proposed lists.
func onlyAdded(changes []compare.Change, lines []learn.Line) bool {
	lists, added := map[string]int{}, 0
	for _, l := range lines {
		lists[l.List]++
	}
	for _, c := range changes {
		if c.Was == "[]" && c.Is == "" { // the list was empty
			continue
		}
		if c.Was != "" || lists[c.Where] == 0 {
			return false
		}
		lists[c.Where]--
		added++
	}
	return added > 0
}

// add adds one entry: to its list, or to the nearest section that the text has.
func add(text string, l learn.Line) (string, bool) {
	options := document.Options{Code: fault.PolicyInvalid, Noun: "policy"}
	root := document.NewReader("", options).Read([]byte(text))
	entry := document.NewReader("", options).Read([]byte(l.Text))
	if root == nil || entry == nil || strings.ContainsAny(l.Text, "\n\r") {
		return "", false
	}
	at, keys := root, strings.Split(l.List, ".")
	for len(keys) > 0 && at.Kind == document.Mapping {
		next := at.Lookup(keys[0])
		if next == nil {
			break
		}
		at, keys = next, keys[1:]
	}
	quoted := l.Text
	if entry.Kind == document.String { // quoted, it means the same in every place
		b, err := json.Marshal(entry.Text)
		if err != nil {
			return "", false
		}
		quoted = string(b)
	}
	if closes := l.List == "tools.allow" || l.List == "files.delete.allow"; closes && len(keys) > 0 {
		return "", false // without the list more is allowed than with it
	}
	switch {
	case at == root && at.Kind == document.Mapping:
		return strings.TrimRight(text, "\n") + "\n" + block(keys, quoted, ""), true
	case at.Kind == document.List && len(keys) == 0:
		return insert(text, at, '[', quoted, func(indent string) string { return indent + "- " + quoted + "\n" }, len(at.Items) > 0)
	case at.Kind == document.Mapping && len(keys) > 0:
		flow := quoted
		for i := len(keys) - 1; i >= 0; i-- {
			if i == len(keys)-1 {
				flow = "[" + flow + "]"
			} else {
				flow = "{" + flow + "}"
			}
			flow = keys[i] + ": " + flow
		}
		return insert(text, at, '{', flow, func(indent string) string { return block(keys, quoted, indent) }, len(at.Pairs) > 0)
	}
	return "", false
}

// block is a list with one entry below its keys, in block style.
func block(keys []string, entry, indent string) string {
	var out strings.Builder
	for _, k := range keys {
		out.WriteString(indent + k + ":\n")
		indent += "  "
	}
	out.WriteString(indent + "- " + entry + "\n")
	return out.String()
}

// insert adds to a list or mapping: after its opening bracket, or in lines before its first
// member, which must begin its line.
func insert(text string, at *document.Node, open rune, flow string, block func(indent string) string, more bool) (string, bool) {
	lines := strings.SplitAfter(text, "\n")
	if at.Line < 1 || at.Line > len(lines) {
		return "", false
	}
	line := []rune(lines[at.Line-1])
	if at.Column < 1 || at.Column > len(line) {
		return "", false
	}
	before, after := string(line[:at.Column-1]), string(line[at.Column:])
	switch {
	case line[at.Column-1] == open:
		if more {
			flow += ", "
		}
		lines[at.Line-1] = before + string(open) + flow + after
	case strings.Trim(before, " ") == "":
		lines[at.Line-1] = block(before) + lines[at.Line-1]
	default:
		return "", false
	}
	return strings.Join(lines, ""), true
}
