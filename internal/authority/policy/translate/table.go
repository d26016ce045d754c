package translate

import (
	"fmt"
	"slices"
	"strings"

	"github.com/BurntSushi/toml"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/document"
)

// reader reads the value of one key. Rule is the key with its path, for messages.
type reader func(rule string, v *document.Node)

// keys are the known keys of a table. A nil reader is of a key without effect on permissions.
type keys map[string]reader

// everything has all kinds of calls.
var everything = sections

// table reads a table through its known keys. Any other key, and a value that is not a table,
// could be a refusal, so all that kinds would allow is asked about. rest reads the keys of a
// table whose keys are names; nil: it has none.
func (b *builder) table(rule string, n *document.Node, kinds []section, known keys, rest func(name string) reader) {
	if n.Kind != document.Mapping {
		b.refuseEach(kinds, rule, "it is "+n.Kind.String()+", and a table was expected")
		return
	}
	for _, p := range n.Pairs {
		key, path := p.Key.Text, strings.TrimPrefix(rule+"."+p.Key.Text, ".")
		switch read, ok := known[key]; {
		case ok && read != nil:
			read(path, p.Value)
		case ok:
		case rest != nil:
			rest(key)(path, p.Value)
		default:
			b.refuseEach(kinds, path, "unknown key, which could be a refusal")
		}
	}
}

// without returns keys without effect on permissions, together with others.
func without(effect string, others keys) keys {
	all := keys{}
	for _, key := range strings.Fields(effect) {
		all[key] = nil
	}
	for key, read := range others {
		all[key] = read
	}
	return all
}

// refuseEach drops a rule that could refuse calls of some kinds.
func (b *builder) refuseEach(kinds []section, rule, reason string) {
	for _, s := range kinds {
		b.refuse(s, policy.Ask, rule, reason)
	}
}

// named returns a reader of a key that allows nothing here: it is only named.
func (b *builder) named(reason string) reader {
	return func(rule string, _ *document.Node) { b.drop(rule, "%s", reason) }
}

// flag returns a reader of a boolean, which calls f with it. Another value could refuse.
func (b *builder) flag(kinds []section, f func(rule string, on bool)) reader {
	return func(rule string, v *document.Node) {
		if v.Kind != document.Bool {
			b.refuseEach(kinds, rule, "it is "+v.Kind.String()+", and a boolean was expected")
			return
		}
		f(rule, v.Text == "true")
	}
}

// denyServer refuses all tools of an MCP server.
func (b *builder) denyServer(rule, name string) { b.mcp(policy.Deny, rule, name, "") }

// enabled returns a reader of the switch of an MCP server.
func (b *builder) enabled(server string) reader {
	return b.flag([]section{tools}, func(rule string, on bool) {
		if !on {
			b.denyServer(rule, server)
		}
	})
}

// readTOML reads TOML as a document.
func (b *builder) readTOML(src []byte) (*document.Node, error) {
	var v map[string]any
	if err := toml.Unmarshal(src, &v); err != nil {
		return nil, b.invalid(err, "TOML")
	}
	return nodeOf(v), nil
}

// nodeOf returns a decoded value as a node. The keys of a table are sorted.
func nodeOf(v any) *document.Node {
	switch v := v.(type) {
	case map[string]any:
		n := &document.Node{Kind: document.Mapping}
		for _, key := range sortedKeys(v) {
			n.Pairs = append(n.Pairs, document.Pair{Key: &document.Node{Kind: document.String, Text: key}, Value: nodeOf(v[key])})
		}
		return n
	case []map[string]any:
		n := &document.Node{Kind: document.List}
		for _, item := range v {
			n.Items = append(n.Items, nodeOf(item))
		}
		return n
	case []any:
		n := &document.Node{Kind: document.List}
		for _, item := range v {
			n.Items = append(n.Items, nodeOf(item))
		}
		return n
	case string:
		return &document.Node{Kind: document.String, Text: v}
	case bool:
		return &document.Node{Kind: document.Bool, Text: fmt.Sprint(v)}
	}
	return &document.Node{Kind: document.Number, Text: fmt.Sprint(v)} // or a time, which no known key has
}

func sortedKeys[V any](m map[string]V) []string {
	var out []string
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}
