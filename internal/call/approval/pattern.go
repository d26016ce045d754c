package approval

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
)

// Pattern is the calls that an approval for a session holds for: calls of one
// tool, as it was when it was approved, whose every action is of the pattern and
// whose other arguments are the same.
type Pattern struct {
	Tool    tool.ID                    `json:"tool"`
	Digest  string                     `json:"digest"`
	Actions []ActionPattern            `json:"actions,omitempty"`
	Same    map[string]json.RawMessage `json:"same,omitempty"` // arguments with these values
	Any     []string                   `json:"any,omitempty"`  // arguments with any text, such as written content
	Through []string                   `json:"through,omitempty"`
	// Values: the approval endorses these values for these arguments, and covers no calls.
	Values []Value `json:"values,omitempty"`
	// Within: the approval covers connections of running commands, and no calls.
	Within bool `json:"within,omitempty"`
}

// Value is a value of an argument.
type Value struct {
	Argument string `json:"argument"`
	Value    string `json:"value"`
}

// endorsement is the pattern that endorses the values that a question is about.
func endorsement(q runner.Question) Pattern {
	p := Pattern{Tool: q.Spec.ID, Digest: q.Digest.String()}
	for _, s := range q.Decision.Steered {
		p.Values = append(p.Values, Value{s.Argument, s.Value})
	}
	return p
}

// ActionPattern is a kind of action and where.
type ActionPattern struct {
	Kind string `json:"kind"` // as tool.ActionKind prints it
	// In is the folder of a file's path, not of folders in it; or the beginning of
	// a URL up to a slash; or a command word by word.
	In     string   `json:"in,omitempty"`
	Method string   `json:"method,omitempty"`
	Argv   []string `json:"argv,omitempty"`
	Dir    string   `json:"dir,omitempty"`
	// Contents is the content of the files that a command names; other content is
	// another pattern.
	Contents []tool.Content `json:"contents,omitempty"`
	Rules    string         `json:"rules,omitempty"` // of a connection: which rules ask about it
}

// connection is the pattern of a running command's connection: everything that reads from the host, or else this one
// target. The rules that ask are part of it, since another entry for the same host is another question.
func connection(q runner.Question) (Pattern, bool) {
	if !q.Within || len(q.Actions) != 1 || q.Actions[0].Kind != tool.Network || q.Actions[0].Unknown != "" {
		return Pattern{}, false
	}
	on, _ := q.Actions[0].Target.Reading()
	a := ActionPattern{Kind: tool.Network.String(), Method: on.Method, Rules: q.Decision.AskedBy()}
	on.Method = ""
	a.In = on.String()
	return Pattern{Tool: q.Spec.ID, Digest: q.Digest.String(), Within: true, Actions: []ActionPattern{a}}, a.Rules != ""
}

// covers reports whether an approval with the pattern, for the session, answers a question.
func (p Pattern) covers(q runner.Question) bool {
	if asked, ok := connection(q); ok || p.Within {
		return ok && p.Within && p.Tool == asked.Tool && p.Digest == asked.Digest && slices.ContainsFunc(p.Actions, asked.Actions[0].equals)
	}
	return p.Matches(q.Spec.ID, q.Digest, q.Call.Args, q.Actions)
}

// maxPattern bounds a pattern's encoding.
const maxPattern = 64 << 10

// ParsePattern reads what String and JSON encoding give.
func ParsePattern(b []byte) (Pattern, error) {
	var p Pattern
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil || len(b) > maxPattern || p.Tool == "" || p.Digest == "" {
		return Pattern{}, fault.New(fault.Denied, "an approval's pattern cannot be read")
	}
	return p, nil
}

// Propose returns the narrow pattern of a call. There is none where an
// action's place cannot be told.
func Propose(id tool.ID, digest tool.Digest, args tool.Args, actions []tool.Action) (Pattern, bool) {
	p := Pattern{Tool: id, Digest: digest.String()}
	for i := range actions {
		a, ok := patternOf(&actions[i])
		if !ok {
			return Pattern{}, false
		}
		if !slices.ContainsFunc(p.Actions, a.equals) {
			p.Actions = append(p.Actions, a)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(args)) {
		switch {
		case isActionTarget(args[name], actions):
			p.Through = append(p.Through, name)
		case strings.HasPrefix(string(id), "fs.") && (name == "content" || name == "text"):
			p.Any = append(p.Any, name)
		default:
			b, err := canon.Marshal(args[name])
			if err != nil {
				return Pattern{}, false
			}
			if p.Same == nil {
				p.Same = map[string]json.RawMessage{}
			}
			p.Same[name] = b
		}
	}
	b, err := json.Marshal(p)
	return p, err == nil && len(b) <= maxPattern
}

// Matches reports whether a call is of the pattern.
func (p Pattern) Matches(id tool.ID, digest tool.Digest, args tool.Args, actions []tool.Action) bool {
	if len(p.Values) > 0 || p.Within || id != p.Tool || digest.String() != p.Digest || len(actions) == 0 != (len(p.Actions) == 0) {
		return false
	}
	for i := range actions {
		a, ok := patternOf(&actions[i])
		if !ok || !slices.ContainsFunc(p.Actions, a.equals) {
			return false
		}
	}
	for name, v := range args {
		same, ok := p.Same[name]
		b, err := canon.Marshal(v)
		switch {
		case ok:
			if err != nil || !bytes.Equal(b, same) {
				return false
			}
		case slices.Contains(p.Through, name):
			if !isActionTarget(v, actions) {
				return false
			}
		case slices.Contains(p.Any, name):
			if _, text := v.(string); !text {
				return false
			}
		default:
			return false
		}
	}
	for name := range p.Same {
		if _, ok := args[name]; !ok {
			return false
		}
	}
	return true
}

func (a ActionPattern) equals(b ActionPattern) bool {
	return a.Kind == b.Kind && a.In == b.In && a.Method == b.Method && a.Dir == b.Dir && a.Rules == b.Rules && slices.Equal(a.Argv, b.Argv) && slices.Equal(a.Contents, b.Contents)
}

// patternOf says where an action takes place. A path that leads somewhere else
// through links is only of a pattern with the folder that it leads to.
func patternOf(a *tool.Action) (ActionPattern, bool) {
	p := ActionPattern{Kind: a.Kind.String(), Contents: a.Contents}
	if a.Unknown != "" {
		return p, false
	}
	switch a.Kind {
	case tool.FileRead, tool.FileWrite, tool.FileDelete:
		if a.Real != "" && a.Real != a.Path {
			return p, false
		}
		p.In = path.Dir(a.Path) + "/"
		return p, path.IsAbs(a.Path) && a.Path != "/"
	case tool.Network:
		t := a.Target
		if i := strings.LastIndexByte(t.Path, '/'); i >= 0 {
			t.Path = t.Path[:i+1]
		}
		p.Method, t.Method = t.Method, ""
		p.In = t.String()
		return p, t.Host != ""
	case tool.Command:
		p.Argv, p.Dir = a.Argv, a.Dir
		return p, len(a.Argv) > 0
	case tool.Model:
		p.In = a.Model
		return p, a.Model != ""
	case tool.API:
		p.In = a.API
		return p, a.API != ""
	}
	return p, false
}

// isActionTarget reports whether an argument is nothing but where an action takes place,
// so that the action's pattern bounds it.
func isActionTarget(v any, actions []tool.Action) bool {
	s, ok := v.(string)
	if !ok || s == "" {
		return false
	}
	clean := filepath.Clean(s)
	return slices.ContainsFunc(actions, func(a tool.Action) bool {
		switch a.Kind {
		case tool.FileRead, tool.FileWrite, tool.FileDelete:
			return a.Path == clean || !filepath.IsAbs(clean) && filepath.IsLocal(clean) && strings.HasSuffix(a.Path, "/"+clean)
		case tool.Network:
			u, err := url.Parse(s)
			return err == nil && u.RawQuery == "" && u.Fragment == "" && u.User == nil && strings.EqualFold(u.Hostname(), a.Target.Host) && u.Path == a.Target.Path
		}
		return false
	})
}

// Lines says the pattern in words, a line each. Text from a caller is quoted.
func (p Pattern) Lines() []string {
	if p.Within {
		return p.connections()
	}
	out := []string{"calls of " + string(p.Tool)}
	for _, v := range p.Values {
		out = append(out, fmt.Sprintf("no longer ask about %q = %s", v.Argument, withDigest(strconv.QuoteToASCII(v.Value))))
	}
	for _, a := range p.Actions {
		switch {
		case len(a.Argv) > 0:
			words := make([]string, len(a.Argv))
			for i, w := range a.Argv {
				words[i] = strconv.Quote(w)
			}
			line := fmt.Sprintf("%s exactly %s in %q", a.Kind, strings.Join(words, " "), a.Dir)
			if len(a.Contents) > 0 {
				line += ", while the files that it names do not change"
			}
			out = append(out, line)
		case a.Kind == tool.Model.String() || a.Kind == tool.API.String():
			out = append(out, fmt.Sprintf("%s %q", a.Kind, a.In))
		default:
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s", a.Kind, a.Method))+fmt.Sprintf(" anything directly in %q", a.In))
		}
	}
	for _, name := range slices.Sorted(maps.Keys(p.Same)) {
		out = append(out, fmt.Sprintf("with %q = %s", name, withDigest(string(p.Same[name]))))
	}
	for _, name := range p.Any {
		out = append(out, fmt.Sprintf("with any %q", name))
	}
	return out
}

// connections says which connections of commands the pattern covers.
func (p Pattern) connections() []string {
	out := make([]string, len(p.Actions))
	for i, a := range p.Actions {
		if out[i] = fmt.Sprintf("connections of commands to %q", a.In); a.Method == "GET" {
			out[i] = fmt.Sprintf("commands may read (GET, HEAD) anything from %q", a.In)
		} else if a.Method != "" {
			out[i] = fmt.Sprintf("requests of commands: %s %q", a.Method, a.In)
		}
	}
	return out
}

// withDigest shortens a value, and shows the length and digest of a shortened one.
func withDigest(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return clip.Text(s, most) + fmt.Sprintf(" (cut: all of it is %d bytes, sha256 %x)", len(s), sha256.Sum256([]byte(s)))
}
