package policy

import (
	"fmt"
	"math"
	"path"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"go.yaml.in/yaml/v4"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

func printable(r rune) bool { return unicode.IsPrint(r) }

// document reads the top level.
func (p *parser) document(d *document, root *yaml.Node) {
	version := false
	known := p.body(d)
	known["version"] = func(n *yaml.Node, field string) {
		version = true
		if n.Tag != "!!int" || n.Value != "1" {
			p.fail(n, field, "this Remit reads version 1, not %s", describe(n)).Hint = "write version: 1"
		}
	}
	known["name"] = func(n *yaml.Node, field string) {
		if s, ok := p.text(n, field); ok {
			if err := checkName(s); err != nil {
				p.fail(n, field, "%v", err)
			}
			d.name = s
		}
	}
	known["roles"] = func(n *yaml.Node, field string) { p.roles(d, n, field) }
	p.mapping(root, "", known)
	if !version {
		p.fail(root, "version", "the version is missing").Hint = "begin the policy with version: 1"
	}
}

// body gives the readers of the keys that policies and roles share.
func (p *parser) body(d *document) keys {
	return p.more(d, keys{
		"files": func(n *yaml.Node, field string) {
			p.mapping(n, field, keys{
				"read":  p.section(d, readSection, keys{"max_bytes": p.size(&d.readBytes)}),
				"write": p.section(d, writeSection, keys{"max_bytes": p.size(&d.writeBytes), "hold": p.truth(&d.hold)}),
			})
		},
		"network": p.section(d, networkSection, keys{"max_bytes": p.size(&d.responseBytes), "timeout": p.duration(&d.requestTimeout),
			"bandwidth": p.size(&d.bandwidth), "total_bytes": p.size(&d.totalBytes), "inspect": p.truth(&d.inspect)}),
		"commands": p.section(d, commandSection, keys{
			"env": p.wordsAt(&d.env, &d.envPos, checkEnv), "path": p.words(&d.path, checkFolder), "timeout": p.duration(&d.commandTimeout),
			"max_output": p.size(&d.outputBytes), "memory": p.size(&d.memory), "processes": p.count(&d.processes, 1),
			"cpu": p.duration(&d.cpu), "files": p.count(&d.openFiles, 16), "disk": p.size(&d.disk),
		}),
		"tools": p.section(d, toolSection, keys{"ask_from_risk": p.risk(&d.askFromRisk), "deny_from_risk": p.risk(&d.denyFromRisk),
			"admin_from_risk": p.risk(&d.adminFromRisk), "frozen_plan_from_risk": p.risk(&d.planFromRisk)}),
		"models": p.section(d, modelSection, keys{"tokens": p.count64(&d.tokens)}),
		"api":    p.section(d, apiSection, keys{}),
		"agents": func(n *yaml.Node, field string) {
			p.mapping(n, field, keys{"spawn": p.optional(&d.spawn), "depth": p.optional(&d.depth)})
		},
		"limits": func(n *yaml.Node, field string) {
			p.mapping(n, field, keys{"calls": p.count(&d.calls, 1), "calls_per_tool": p.count(&d.callsPerTool, 1),
				"per_tool": func(n *yaml.Node, f string) { p.perTool(d, n, f) }, "time": p.duration(&d.time),
				"bytes_in": p.size(&d.bytesIn), "bytes_out": p.size(&d.bytesOut), "money": p.money(&d.money)})
		},
		"secrets":   p.secrets(d),
		"system":    p.oneOf(&d.system, "minimal", "standard"),
		"isolation": p.oneOf(&d.isolation, "full", "landlock", "none"),
		"sandbox": func(n *yaml.Node, field string) {
			p.mapping(n, field, keys{"tier": p.oneOf(&d.tier, "fresh", "session")})
		},
		"mcp": p.asking(d),
		"ledger": func(n *yaml.Node, field string) {
			p.mapping(n, field, keys{"durability": p.oneOf(&d.durability, "power", "process")})
		},
		"rest": func(n *yaml.Node, field string) {
			var s string
			p.oneOf(&s, "inherit")(n, field)
			d.inherit = s == "inherit"
		},
	})
}

// section reads one section: its lists and its own further keys.
func (p *parser) section(d *document, id sectionID, more keys) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		s := &d.sections[id]
		s.set = true
		for e, name := range listNames {
			more[name] = func(n *yaml.Node, f string) {
				if Effect(e) == Allow {
					s.allowSet = true
				}
				s.lists[e] = p.list(id, Effect(e), n, f)
			}
		}
		p.mapping(n, field, more)
	}
}

func (p *parser) list(id sectionID, e Effect, n *yaml.Node, field string) []entry {
	if n.Kind != yaml.SequenceNode {
		p.fail(n, field, "must be a list, not %s", describe(n))
		return nil
	}
	var out []entry
	for i, item := range n.Content {
		f := fmt.Sprintf("%s[%d]", field, i)
		if id == toolSection && item.Kind == yaml.MappingNode {
			out = append(out, p.toolEntry(e, item, f))
			continue
		}
		if id == networkSection && e != Deny && item.Kind == yaml.MappingNode {
			out = append(out, p.networkEntry(e, item, f))
			continue
		}
		text, ok := p.text(item, f)
		if !ok {
			continue
		}
		en := entry{pos: p.pos(item), text: text}
		if p.full {
			return out // reported already
		}
		if err := en.compile(id, e); err != nil {
			p.fail(item, f, "%s", plain(err))
		}
		p.charge(item, f, en.added/globPart)
		out = append(out, en)
	}
	return out
}

// plain is an error's text without a number of its own.
func plain(err error) string {
	if fault.CodeOf(err) == fault.Internal {
		return err.Error()
	}
	return fault.Message(err)
}

// compile reads the entry's pattern as its section does.
func (en *entry) compile(id sectionID, e Effect) (err error) {
	switch id {
	case readSection, writeSection:
		en.added, err = checkPath(en.text, e == Deny)
	case networkSection:
		en.net, err = target.ParseRule(en.text, e == Deny)
	case commandSection:
		en.cmd, err = command.ParsePattern(en.text)
	case toolSection:
		en.name, err = toolPattern(en.text, e == Deny)
	case modelSection:
		if !modelPattern.MatchString(en.text) {
			return fmt.Errorf("%q is no model pattern: write provider/model, with * for any", en.text)
		}
		if file, ok := strings.CutPrefix(en.text, "scripted/"); ok {
			en.text = "scripted:" + file // the one spelling of files of answers
		}
		en.name, err = glob.CompileName(en.text, '/', e == Deny)
	case apiSection:
		if !apiPattern.MatchString(en.text) {
			return fmt.Errorf("%q is no pattern of what the service is asked: write it as agents.write, with * for any", en.text)
		}
		en.name, err = glob.CompileName(en.text, '.', e == Deny)
	}
	return err
}

var (
	modelPattern = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:/@*+-]*$`)
	apiPattern   = regexp.MustCompile(`^[a-z*][a-z_.*]*$`)
	namePattern  = regexp.MustCompile(`^[A-Za-z0-9*][A-Za-z0-9._:/@*-]*$`)
	envPattern   = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	numberForm   = regexp.MustCompile(`^-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][+-]?[0-9]{1,3})?$`)
	sizeForm     = regexp.MustCompile(`^([0-9]{1,18}) ?(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)?$`)
)

// toolPattern reads a pattern of tool IDs.
func toolPattern(s string, deny bool) (*glob.Text, error) {
	if len(s) > 200 || !namePattern.MatchString(s) {
		return nil, fmt.Errorf("%q is no tool pattern: a tool's ID, with * for any part", s)
	}
	return glob.CompileName(s, ':', deny)
}

func (p *parser) roles(d *document, n *yaml.Node, field string) {
	p.pairs(n, field, func(k, v *yaml.Node, f string) {
		name, err := principalPattern(k.Value)
		if err != nil {
			p.fail(k, f, "%v", err)
			return
		}
		if !p.charge(k, f, roleParts) {
			return
		}
		before := p.program
		sub := &document{name: roleName(k.Value)}
		p.mapping(v, f, p.body(sub))
		pol := &Policy{file: p.file, doc: sub, program: p.program - before}
		pol.src = pol.Print()
		d.roles = append(d.roles, role{pattern: k.Value, name: name, policy: pol})
	})
}

// roleName names the policy of a role, where the document's own name would not
// tell it apart.
func roleName(pattern string) string {
	if name := "role " + pattern; checkName(name) == nil {
		return name
	}
	return "role"
}

func (p *parser) perTool(d *document, n *yaml.Node, field string) {
	p.pairs(n, field, func(k, v *yaml.Node, f string) {
		c := toolCount{pos: p.pos(k), pattern: k.Value}
		var err error
		// As in a deny list: a limit counts whatever the pattern might mean.
		if c.name, err = toolPattern(k.Value, true); err != nil {
			p.fail(k, f, "%v", err)
			return
		}
		p.count(&c.calls, 0)(v, f)
		d.perTool = append(d.perTool, c)
	})
}

func (p *parser) text(n *yaml.Node, field string) (string, bool) {
	if !isText(n) {
		e := p.fail(n, field, "must be a string, not %s", describe(n))
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			e.Hint = "put it in quotes"
		}
		return "", false
	}
	return n.Value, true
}

func (p *parser) words(into *[]string, check func(string) error) func(*yaml.Node, string) {
	return p.wordsAt(into, new([]fault.Pos), check)
}

// wordsAt reads a list of words, and where each stands.
func (p *parser) wordsAt(into *[]string, places *[]fault.Pos, check func(string) error) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		if n.Kind != yaml.SequenceNode {
			p.fail(n, field, "must be a list, not %s", describe(n))
			return
		}
		*into = []string{}
		for i, item := range n.Content {
			f := fmt.Sprintf("%s[%d]", field, i)
			s, ok := p.text(item, f)
			if !ok {
				continue
			}
			if err := check(s); err != nil {
				p.fail(item, f, "%v", err)
			}
			*into, *places = append(*into, s), append(*places, p.pos(item))
		}
	}
}

func checkEnv(s string) error {
	if !envPattern.MatchString(s) {
		return fmt.Errorf("%q is no name of an environment variable", s)
	}
	return nil
}

func checkFolder(s string) error {
	rest, home := strings.CutPrefix(s, "~/")
	if home {
		rest = "/" + rest
	}
	if !strings.HasPrefix(rest, "/") || path.Clean(rest) != rest || strings.ContainsAny(rest, ":\x00") {
		return fmt.Errorf("%q is no folder of a PATH: write an absolute path, or one that begins with ~/, without a colon, ., .. or a slash at the end", s)
	}
	return nil
}

func (p *parser) oneOf(into *string, values ...string) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		for _, v := range values {
			if isText(n) && n.Value == v {
				*into = v
				return
			}
		}
		p.fail(n, field, "must be %s, not %s", strings.Join(values, " or "), describe(n))
	}
}

func (p *parser) risk(into **riskGate) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		r, ok := tool.ParseRisk(n.Value)
		if !ok || !isText(n) {
			p.fail(n, field, "must be low, medium, high or critical, not %s", describe(n))
			return
		}
		*into = &riskGate{pos: p.pos(n), risk: r}
	}
}

func (p *parser) count64(into *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		v, err := strconv.ParseInt(n.Value, 10, 64)
		if n.Tag != "!!int" || err != nil || v < 1 || !numberForm.MatchString(n.Value) {
			p.fail(n, field, "must be a whole number of at least 1, not %s", describe(n))
			return
		}
		*into = v
	}
}

var moneyForm = regexp.MustCompile(`^([0-9]{1,9})(?:\.([0-9]{1,6}))? USD$`)

// money reads an amount as "1.50 USD", in millionths.
func (p *parser) money(into *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		m := moneyForm.FindStringSubmatch(n.Value)
		if !isText(n) || m == nil || strings.Trim(m[1]+m[2], "0") == "" {
			p.fail(n, field, "must be an amount of money such as 1.50 USD, not %s", describe(n))
			return
		}
		v, err := strconv.ParseInt(m[1]+(m[2] + "000000")[:6], 10, 64)
		if err != nil {
			p.fail(n, field, "%v", err)
			return
		}
		*into = v
	}
}

func (p *parser) count(into *int, least int) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		v, err := strconv.ParseInt(n.Value, 10, 32)
		if n.Tag != "!!int" || err != nil || int(v) < least || !numberForm.MatchString(n.Value) {
			p.fail(n, field, "must be a whole number from %d to %d, not %s", least, math.MaxInt32, describe(n))
			return
		}
		*into = int(v)
	}
}

func (p *parser) optional(into **int) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		v := new(int)
		before := len(p.errs)
		if p.count(v, 0)(n, field); len(p.errs) == before {
			*into = v
		}
	}
}

func (p *parser) duration(into *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		d, err := time.ParseDuration(n.Value)
		if !isText(n) || err != nil || d < time.Millisecond {
			p.fail(n, field, "must be a time such as 500ms, 30s, 5m or 1h, not %s", describe(n))
			return
		}
		*into = d
	}
}

var units = map[string]int64{"": 1, "B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
	"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40}

func (p *parser) size(into *int64) func(*yaml.Node, string) {
	return func(n *yaml.Node, field string) {
		m := sizeForm.FindStringSubmatch(n.Value)
		if n.Kind == yaml.ScalarNode && (isText(n) || n.Tag == "!!int") && m != nil {
			v, err := strconv.ParseInt(m[1], 10, 64)
			if u := units[m[2]]; err == nil && v >= 1 && v <= math.MaxInt64/u && (n.Tag != "!!int" || numberForm.MatchString(n.Value)) {
				*into = v * u
				return
			}
		}
		p.fail(n, field, "must be a size of at least 1 byte such as 4096, 512KB or 5MiB, not %s", describe(n))
	}
}
