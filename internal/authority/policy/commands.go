package policy

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// commandSettings is the section commands.
type commandSettings struct {
	section

	env, path               []string
	values                  []variable // the variables of env with a value
	cwd                     []string   // nil: commands may start in every folder
	envPos                  []fault.Pos
	timeout, cpu            time.Duration
	maxOutput, memory, disk int64
	processes, openFiles    int

	untold    string // "ask", "deny" or "allow"; "" is ask
	untoldPos fault.Pos
}

func (s *commandSettings) setting() setting {
	return s.section.setting("commands", commandSection,
		s.variables(), words("cwd", &s.cwd, checkCwd), words("path", &s.path, checkFolder), duration("timeout", &s.timeout),
		size("max_output", &s.maxOutput), size("memory", &s.memory), count("processes", &s.processes, 1),
		duration("cpu", &s.cpu), count("files", &s.openFiles, 16), size("disk", &s.disk),
		choice("untold", &s.untold, Ask.String(), Deny.String(), Allow.String()).at(&s.untoldPos))
}

// variable is an entry NAME=value of commands.env.
type variable struct {
	at          int // its place in the list
	name, value string
}

// value is the value that the document gives a variable.
func (s *commandSettings) value(name string) (v variable, ok bool) {
	i := slices.IndexFunc(s.values, func(v variable) bool { return v.name == name })
	if i < 0 {
		return v, false
	}
	return s.values[i], true
}

// variables makes the setting env: names of environment variables, some with a value.
func (s *commandSettings) variables() setting {
	read := func(p *parser) document.Field {
		return func(n *document.Node, path string) {
			var list []string
			p.Strings(&list, 0, checkVariable)(n, path)
			s.env = []string{} // an empty list is one, too
			for i, text := range list {
				name, value, given := strings.Cut(text, "=")
				if v, twice := s.value(name); given && twice && v.value != value {
					p.Fail(n, path, "the variable %s has two values", name)
				}
				if given {
					s.values = append(s.values, variable{i, name, value})
				}
				s.env = append(s.env, name)
			}
			for _, item := range n.Items {
				s.envPos = append(s.envPos, p.Pos(item))
			}
		}
	}
	return value("env", read, func() string {
		list := slices.Clone(s.env)
		for i, name := range list {
			if v, ok := s.value(name); ok {
				list[i] = name + "=" + v.value
			}
		}
		return quoteAll(list)
	})
}

var envPattern = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]*$`)

// ownVariables are those whose value every sandbox sets itself.
var ownVariables = []string{"HOME", "PATH", "TMPDIR", "REMIT_WORK"}

const maxValue = 4096

func checkEnv(s string) error {
	if !envPattern.MatchString(s) {
		return fmt.Errorf("%q is not a valid name of an environment variable", s)
	}
	return nil
}

// checkVariable checks NAME or NAME=value.
func checkVariable(s string) error {
	name, value, given := strings.Cut(s, "=")
	switch {
	case !envPattern.MatchString(name):
		return checkEnv(name)
	case given && slices.Contains(ownVariables, name):
		return fmt.Errorf("the sandbox sets %s itself, so it cannot have a value here; commands.path adds folders to PATH", name)
	case len(value) > maxValue || !utf8.ValidString(value) || strings.ContainsFunc(value, unicode.IsControl):
		return fmt.Errorf("the value of %s is not valid; expected at most %d bytes of UTF-8 without control characters", name, maxValue)
	}
	return nil
}

func checkCwd(s string) error {
	_, err := compileFolder(s, Env{Workspace: "/workspace", Home: "/home"})
	return err
}

func checkFolder(s string) error {
	rest, home := strings.CutPrefix(s, "~/")
	if home {
		rest = "/" + rest
	}
	if !strings.HasPrefix(rest, "/") || path.Clean(rest) != rest || strings.ContainsAny(rest, ":\x00") {
		return fmt.Errorf("%q is not a valid folder of a PATH: write an absolute path, or one that begins with ~/, without a colon, ., .. or a slash at the end", s)
	}
	return nil
}

// commandPattern is an entry of commands.
type commandPattern struct {
	text   string
	cmd    *command.Pattern
	effect Effect
}

func parseCommandPattern(text string, e Effect) (pattern, error) {
	parse := command.ParsePattern
	if e == Deny {
		parse = command.ParseDeny
	}
	cmd, err := parse(text)
	if err != nil {
		return nil, err
	}
	return &commandPattern{text, cmd, e}, nil
}

func (p *commandPattern) String() string { return p.text }

func (p *commandPattern) print(w *printer, in int) { w.line(in, "- %s", quote(p.text)) }

func (p *commandPattern) bind(r *Rules, e Effect) (pattern, error) {
	return &commandPattern{p.text, p.cmd.Bind(r.env.Workspace), e}, nil
}

func (p *commandPattern) match(a *tool.Action, trustedPath []string) bool {
	switch p.effect {
	case Deny:
		return p.cmd.MatchDeny(a, trustedPath)
	case Ask:
		return p.cmd.MatchAsk(a, trustedPath)
	}
	return p.cmd.Match(a, trustedPath)
}

func (p *commandPattern) includes(_ *Rules, other pattern) bool {
	o, ok := other.(*commandPattern)
	return ok && (o.text == p.text || p.cmd.Includes(o.cmd))
}

func (p *commandPattern) disjoint(other pattern) bool {
	o, ok := other.(*commandPattern)
	return ok && p.cmd.Apart(o.cmd)
}

// bindPath resolves commands.path.
func (r *Rules) bindPath(d *content) fault.List {
	var errs fault.List
	r.path = slices.Clone(r.env.Path)
	for i, dir := range d.commands.path {
		field := fmt.Sprintf("commands.path[%d]", i)
		if rest, ok := strings.CutPrefix(dir, "~/"); ok {
			if r.env.Home == "" {
				errs = append(errs, fault.New(fault.PolicyInvalid, "%q: the home folder is not known", dir).In(field))
				continue
			}
			dir = path.Join(r.env.Home, rest)
		}
		if dir == r.env.Workspace || strings.HasPrefix(dir, strings.TrimSuffix(r.env.Workspace, "/")+"/") {
			errs = append(errs, fault.New(fault.PolicyInvalid, "%q is in the workspace, whose files are never trusted commands", dir).
				At(fault.Pos{File: r.policy.file}).In(field))
			continue
		}
		r.added = append(r.added, dir)
		if !slices.Contains(r.path, dir) {
			r.path = append(r.path, dir)
		}
	}
	return errs
}
