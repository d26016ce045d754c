package translate

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// capsule reads a policy of Capsule: rules by tool. Only tools with a rule may be called.
func (b *builder) capsule(src []byte) error {
	r := document.NewReader(b.file, document.Options{Code: fault.Usage, Noun: "policy", MaxBytes: MaxSource, AnyText: true, CoreTags: true})
	n := r.Read(src)
	if err := r.Err(); err != nil {
		return err
	}
	if n == nil || n.Kind != document.Mapping {
		return fault.New(fault.Usage, "not a valid Capsule policy; expected a mapping with tools").At(fault.Pos{File: b.file})
	}
	b.only = []string{`"time.now"`} // a list of tools is closed, and must not be empty
	b.table("", n, everything, without("version name description", keys{
		"boundary": func(rule string, v *document.Node) {
			if !v.Is("deny_by_default") {
				b.drop(rule, "what no rule allows is denied")
			}
		},
		"global_timeout_seconds": func(rule string, v *document.Node) { b.seconds(limits, "time", rule, v) },
		"max_calls_per_tool":     func(_ string, v *document.Node) { b.capsuleCalls(v) },
		"tools": func(rule string, v *document.Node) {
			b.table(rule, v, everything, nil, func(name string) reader {
				return func(_ string, v *document.Node) { b.capsuleTool(name, v) }
			})
		},
	}), nil)
	if at(n, "tools") == nil {
		b.drop("tools", "no tool is named, so nothing is allowed")
	}
	return nil
}

func (b *builder) capsuleCalls(n *document.Node) {
	if n.Kind != document.Mapping {
		b.number(limits, "calls_per_tool", "max_calls_per_tool", n)
		return
	}
	for _, p := range n.Pairs {
		b.number(limits, "calls_per_tool", "max_calls_per_tool."+p.Key.Text, p.Value) // the least holds for all
	}
}

func (b *builder) capsuleTool(name string, n *document.Node) {
	if n.Kind == document.Null {
		b.drop("tools."+name, "it allows nothing")
		return
	}
	switch strings.ReplaceAll(name, "_", ".") {
	case "fs.read":
		b.only = append(b.only, `"fs.read"`)
		b.capsuleFiles(reads, name, n)
	case "fs.write":
		b.only = append(b.only, `"fs.write"`)
		b.capsuleFiles(writes, name, n)
	case "http.get":
		b.only = append(b.only, `"http.get"`)
		b.capsuleHosts(name, n)
	case "shell.run":
		// Capsule runs no scripts.
		b.only = append(b.only, `{tool: shell.run, args: {argv: {each: "**", optional: true}, cmd: {each: "**", optional: true}, cwd: {glob: "**", optional: true}}}`)
		b.capsuleCommands(name, n)
	default:
		b.drop("tools."+name, "there is no tool with this name")
	}
}

func (b *builder) capsuleFiles(s section, name string, n *document.Node) {
	hidden := at(n, "allow_hidden")
	if hidden == nil || hidden.Text != "true" {
		b.add(s, policy.Deny, "tools."+name+".allow_hidden", "**/.*", "**/.*/**")
	}
	b.table("tools."+name, n, []section{s}, keys{
		"allow_paths": func(rule string, v *document.Node) {
			for _, text := range b.texts(v, rule, func(rule string) { b.drop(rule, "it is not a list of texts") }) {
				b.capsulePath(s, policy.Allow, rule, text)
			}
		},
		"deny_paths": func(rule string, v *document.Node) {
			for _, text := range b.texts(v, rule, func(rule string) { b.refuse(s, policy.Deny, rule, "it is not a path") }) {
				b.capsulePath(s, policy.Deny, rule, text)
			}
		},
		"max_size_bytes": func(rule string, v *document.Node) { b.number(s, "max_bytes", rule, v) },
		"allow_hidden":   nil,
	}, nil)
}

// capsulePath adds a pattern. Capsule's * also matches slashes: an allowing pattern is narrowed to
// one folder, a denying pattern is widened.
func (b *builder) capsulePath(s section, e policy.Effect, rule, text string) {
	rule += ": " + text
	clean := strings.TrimPrefix(text, "./")
	switch {
	case strings.ContainsAny(clean, "[]{}!?\\\n\r\t"):
		b.refuse(s, e, rule, "the pattern has characters that a policy reads differently")
	case e == policy.Allow:
		b.add(s, e, rule, clean)
	default:
		wide, ok := acrossSlashes(clean)
		if clean = wide; !ok {
			b.drop(rule, "widened: it denies every path that begins with %q", strings.TrimSuffix(wide, "*"))
		}
		list := []string{clean, strings.TrimSuffix(clean, "/") + "/**"}
		if !strings.HasPrefix(clean, "/") && !strings.HasPrefix(clean, "~") && !strings.HasPrefix(clean, "**") {
			list = append(list, "**/"+clean)
		}
		b.add(s, e, rule, list...)
	}
}

// acrossSlashes writes a pattern whose * also match slashes. ok is false if the result matches
// more.
func acrossSlashes(text string) (wide string, ok bool) {
	parts := strings.Split(text, "/")
	for i, p := range parts {
		rest := strings.TrimLeft(p, "*")
		switch {
		case !strings.Contains(rest, "*") && len(rest) == len(p):
		case rest == "":
			parts[i] = "**"
		case !strings.Contains(rest, "*"):
			parts[i] = "**/*" + rest
		default:
			before, _, _ := strings.Cut(p, "*")
			return strings.Join(append(parts[:i], before+"*"), "/"), false
		}
	}
	return strings.Join(parts, "/"), true
}

func (b *builder) capsuleHosts(name string, n *document.Node) {
	b.table("tools."+name, n, []section{hosts}, keys{
		"allow_domains": func(rule string, v *document.Node) {
			for _, host := range b.texts(v, rule, func(rule string) { b.drop(rule, "it is not a list of texts") }) {
				b.host(policy.Allow, rule+": "+host, "GET", host)
			}
		},
		"deny_private_ips": func(rule string, v *document.Node) {
			if v.Text != "true" {
				b.drop(rule, "private addresses must be named")
			}
		},
		"max_response_bytes": func(rule string, v *document.Node) { b.number(hosts, "max_bytes", rule, v) },
		"timeout_seconds":    func(rule string, v *document.Node) { b.seconds(hosts, "timeout", rule, v) },
	}, nil)
}

func (b *builder) capsuleCommands(name string, n *document.Node) {
	b.table("tools."+name, n, []section{commands}, keys{
		"allow_executables": func(rule string, v *document.Node) {
			for _, text := range b.texts(v, rule, func(rule string) { b.drop(rule, "it is not a list of texts") }) {
				if strings.ContainsAny(text, "*?[]{} ") || text == "" {
					b.drop(rule+": "+text, "it does not name one program")
					continue
				}
				b.add(commands, policy.Allow, rule+": "+text, command.Escape(text)+" **")
			}
		},
		"deny_tokens": func(rule string, v *document.Node) {
			for _, text := range b.texts(v, rule, func(rule string) { b.refuse(commands, policy.Deny, rule, "it is not a text") }) {
				b.capsuleToken(rule+": "+text, text)
			}
		},
		"max_output_bytes": func(rule string, v *document.Node) { b.number(commands, "max_output", rule, v) },
		"timeout_seconds":  func(rule string, v *document.Node) { b.seconds(commands, "timeout", rule, v) },
	}, nil)
}

// capsuleToken denies commands that contain a text. Of several words it takes the longest, as
// the words of a command are matched one by one: that denies more.
func (b *builder) capsuleToken(rule, text string) {
	longest := ""
	list := strings.Fields(text)
	for _, w := range list {
		if len(w) > len(longest) {
			longest = w
		}
	}
	if longest == "" {
		b.refuse(commands, policy.Deny, rule, "it is blank")
		return
	}
	if len(list) > 1 {
		b.drop(rule, "widened: every word that contains %q is denied", longest)
	}
	b.add(commands, policy.Deny, rule, "** *"+command.Escape(longest)+"* **")
}

// number sets a key of a section to a whole number; of several, the least holds.
func (b *builder) number(s section, key, rule string, n *document.Node) {
	v := int64(0)
	r := document.NewReader(b.file, document.Options{Code: fault.Usage, Noun: "policy"})
	if document.Int(r, &v, 0, 1<<53)(n, rule); r.Failed() {
		b.refuseLimit(s, rule, "it is not a whole number")
		return
	}
	b.set(s, key, v, "%d")
}

// seconds sets a key of a section to a time; of several, the least holds.
func (b *builder) seconds(s section, key, rule string, n *document.Node) {
	v := int64(0)
	whole, _, _ := strings.Cut(n.Text, ".")
	if _, err := fmt.Sscanf(whole, "%d", &v); n.Kind != document.Number || err != nil || v < 1 {
		b.refuseLimit(s, rule, "it is not a time of at least one second")
		return
	}
	b.set(s, key, v, "%ds")
}

// refuseLimit drops a limit. Without it, all that it bounds is asked about.
func (b *builder) refuseLimit(s section, rule, reason string) {
	if s == limits {
		b.refuseEach(everything, rule, reason)
		return
	}
	b.refuse(s, policy.Ask, rule, reason)
}

func (b *builder) set(s section, key string, v int64, format string) {
	for i, set := range b.settings[s] {
		if set.key == key {
			b.settings[s][i].value = min(set.value, v)
			return
		}
	}
	if b.settings == nil {
		b.settings = map[section][]setting{}
	}
	b.settings[s] = append(b.settings[s], setting{key, v, format})
}
