package shelltool

import (
	"encoding/json"
	"errors"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/files"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

type arguments struct {
	Argv      []string          `json:"argv"`
	Cmd       []string          `json:"cmd"` // another name for argv
	Script    *string           `json:"script"`
	Dir       *string           `json:"cwd"`
	Env       map[string]string `json:"env"`
	Stdin     string            `json:"stdin"`
	Timeout   seconds           `json:"timeout"`
	MaxOutput *int64            `json:"max_output"`
}

// command returns what the sandbox runs. A script is parsed here, once: the commands
// that it starts and the text that runs come from the same parse.
func (a *arguments) command(env tool.Env) (sandbox.Command, error) {
	c := sandbox.Command{Dir: env.Workspace, Env: a.Env, Stdin: []byte(a.Stdin), Timeout: time.Duration(a.Timeout)}
	if err := a.check(); err != nil {
		return c, err
	}
	if a.MaxOutput != nil {
		c.MaxOutput = *a.MaxOutput
	}
	if a.Dir != nil {
		dir, err := files.Clean(env, *a.Dir)
		if err != nil || *a.Dir == "" {
			return c, invalid("cwd", "%q is not a valid folder: %s", *a.Dir, fault.Message(err))
		}
		c.Dir = dir
	}
	if a.Script == nil {
		c.Argv = a.argv()
		c.Starts = command.Actions(c.Argv, env, c.Dir)
		return c, nil
	}
	script, err := command.Script(*a.Script, env, c.Dir, slices.Concat(env.Pass, env.Secrets, slices.Collect(maps.Keys(a.Env))))
	if err != nil {
		return c, err
	}
	c.Argv, c.Shell, c.POSIX, c.Starts = append(slices.Clone(pinnedShell), script.Text), true, script.POSIX, script.Actions
	return c, nil
}

// actions are the commands that the call starts, the files that a script redirects from
// and to, and the folder that it starts in.
func (a *arguments) actions(env tool.Env, c sandbox.Command) []tool.Action {
	actions := slices.Clone(c.Starts)
	if c.Dir != env.Workspace {
		actions = append(actions, tool.Action{Kind: tool.FileRead, Path: c.Dir})
	}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		if v, fixed := env.Values[name]; fixed && v != c.Env[name] {
			actions = append(actions, command.Reassigned(name, a.argv(), c.Dir))
		} else if why := command.Assignable(name, env); why != "" {
			actions = append(actions, tool.Action{Kind: tool.Command, Argv: a.argv(), Dir: c.Dir, Unknown: why, Unconfined: env.Foreign})
		}
	}
	return actions
}

func (a *arguments) argv() []string {
	if a.Argv != nil {
		return a.Argv
	}
	return a.Cmd
}

// check refuses what the schema cannot, and everything again for callers without one.
func (a *arguments) check() error {
	given := 0
	for _, there := range []bool{a.Argv != nil, a.Cmd != nil, a.Script != nil} {
		if there {
			given++
		}
	}
	switch argv := a.argv(); {
	case given != 1:
		return invalid("argv", "expected either argv (a list of strings) or script")
	case a.Script != nil && strings.TrimSpace(*a.Script) == "":
		return invalid("script", "must not be empty")
	case a.Script == nil && (len(argv) == 0 || argv[0] == ""):
		return invalid("argv", "the command name is missing")
	}
	for i, word := range a.argv() {
		if strings.ContainsRune(word, 0) || !utf8.ValidString(word) {
			return invalid("argv", "word %d contains a NUL byte or is not UTF-8", i+1)
		}
	}
	for name, v := range a.Env {
		if strings.ContainsRune(v, 0) {
			return invalid("env."+name, "must not contain a NUL byte")
		}
	}
	if a.MaxOutput != nil && *a.MaxOutput <= 0 {
		return invalid("max_output", "must be at least 1 byte")
	}
	return nil
}

func invalid(field, format string, a ...any) *fault.Error {
	return fault.New(fault.ArgsInvalid, format, a...).In(field)
}

// seconds is a duration that is written as a number of seconds or as text, such as 10s.
type seconds time.Duration

var errSeconds = errors.New("expected a number of seconds or a duration such as 10s, above 0")

// UnmarshalJSON reads both forms.
func (s *seconds) UnmarshalJSON(b []byte) error {
	var text string
	if json.Unmarshal(b, &text) == nil {
		d, err := document.ParseDuration(text)
		if err != nil || d <= 0 {
			return errSeconds
		}
		*s = seconds(d)
		return nil
	}
	var n float64
	if err := json.Unmarshal(b, &n); err != nil || n <= 0 {
		return errSeconds
	}
	*s = math.MaxInt64
	if n <= math.MaxInt64/float64(2*time.Second) {
		*s = seconds(max(n*float64(time.Second), 1))
	}
	return nil
}
