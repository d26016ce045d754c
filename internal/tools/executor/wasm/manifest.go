package wasm

import (
	"encoding/json"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of a manifest and of its requests.
const (
	MaxManifest    = 1 << 20 // bytes
	maxTools       = 200
	maxWants       = 32   // folders, or variables, of one tool
	maxDescription = 8192 // bytes
	MaxMemory      = 1 << 30
	MaxTimeout     = 5 * time.Minute
)

// Defaults of a manifest.
const (
	DefaultMemory  = 64 << 20 // bytes
	DefaultTimeout = 30 * time.Second
)

// Manifest lists a module's tools, and the files and variables that each may reach. Nothing else is
// given to the module, and only the part that the caller's policies allow.
type Manifest struct {
	Release     string // which release of the module it belongs to, for people
	Description string
	Functions   []Function
	Digest      tool.Digest // of the manifest as it was written
}

// Function is one tool of a module.
type Function struct {
	Name        string // the name that the module receives; the last part of the tool's ID
	Title       string
	Description string
	Input       json.RawMessage // JSON Schema of the arguments, of type object
	Output      json.RawMessage // JSON Schema of the result; nil: any object
	Risk        tool.Risk       // at least this
	Memory      int64           // bytes
	Timeout     time.Duration   // of one call
	Wants       Wants
}

// Wants lists the files, variables and devices that a function needs. The zero Wants is nothing:
// such a function computes its result from its arguments.
type Wants struct {
	Read   []Place  // files that it reads
	Write  []Place  // files that it makes, changes and removes
	Env    []string // variables; the ones that the policies pass are given
	Clock  bool     // the time; else it is always the same
	Random bool     // random numbers; else they are always the same
}

// Place is a folder of the workspace, or the path in an argument.
type Place struct {
	Folder   string // clean, relative; "." is the workspace
	Argument string // name of an argument: a path, or a list of paths; "" where Folder says it
}

func (p Place) String() string {
	if p.Argument != "" {
		return "argument " + p.Argument
	}
	return p.Folder
}

// String lists the wants, in the form in which a tool's version shows it: "reads docs, writes out,
// env LANG, clock".
func (w Wants) String() string {
	var parts []string
	list := func(word string, places []Place) {
		for _, p := range places {
			parts = append(parts, word+" "+p.String())
		}
	}
	list("reads", w.Read)
	list("writes", w.Write)
	for _, name := range w.Env {
		parts = append(parts, "env "+name)
	}
	if w.Clock {
		parts = append(parts, "clock")
	}
	if w.Random {
		parts = append(parts, "random")
	}
	if len(parts) == 0 {
		return "reaches nothing"
	}
	return strings.Join(parts, ", ")
}

// Effects are the side effects that a call may have, and the only ones.
func (w Wants) Effects() tool.Effects {
	var e tool.Effects
	if len(w.Read) > 0 {
		e |= tool.EffectSet(tool.FSRead)
	}
	if len(w.Write) > 0 {
		e |= tool.EffectSet(tool.FSWrite, tool.FSDelete)
	}
	if len(w.Env) > 0 {
		e |= tool.EffectSet(tool.SystemEnv)
	}
	return e
}

var (
	functionForm = regex.Lazy(`^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$`)
	envForm      = regex.Lazy(`^[A-Za-z_][A-Za-z0-9_]{0,99}$`)
	argumentForm = regex.Lazy(`^[^\x00-\x1f\x7f]{1,100}$`)
)

// parseSize reads a size such as 64MiB.
func parseSize(s string) (int64, error) {
	n, err := document.ParseSize(s)
	if err == nil && (n < wasmPage || n > MaxMemory || n%(1<<10) != 0) {
		err = fmt.Errorf("%s is not a number of KiB between 64KiB and 1GiB", s)
	}
	return n, err
}

// showSize prints a size as manifests have it.
func showSize(n int64) string {
	if n%(1<<20) == 0 {
		return strconv.FormatInt(n>>20, 10) + "MiB"
	}
	return strconv.FormatInt(n>>10, 10) + "KiB"
}

func parseTimeout(s string) (time.Duration, error) {
	d, err := document.ParseDuration(s)
	if err != nil {
		return 0, fmt.Errorf("%.40q is not a valid duration, such as 500ms or 10s", s)
	}
	if d < time.Millisecond || d > MaxTimeout {
		return 0, fmt.Errorf("%s is not between 1ms and %s", s, MaxTimeout)
	}
	return d, nil
}

// parseFolder reads a folder of the workspace.
func parseFolder(s string) (string, error) {
	clean := path.Clean(s)
	switch {
	case s == "":
		return "", fmt.Errorf("the folder is empty; the workspace itself is \".\"")
	case path.IsAbs(s) || s[0] == '~':
		return "", fmt.Errorf("%.80q is not relative to the workspace", s)
	case clean == ".." || strings.HasPrefix(clean, "../"):
		return "", fmt.Errorf("%.80q leads out of the workspace", s)
	case clean != strings.TrimSuffix(s, "/"):
		return "", fmt.Errorf("%.80q is written %q", s, clean)
	case strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }):
		return "", fmt.Errorf("%.80q holds characters that cannot be seen", s)
	case len(s) > 1000:
		return "", fmt.Errorf("the folder has more than 1000 bytes")
	}
	return clean, nil
}

// Version is the version in the specification of a function's tool: a digest of its code, and its
// wants. A module or manifest that changes in either is another tool.
func (m *Manifest) Version(f *Function, module tool.Digest) string {
	var b strings.Builder
	if m.Release != "" {
		b.WriteString(m.Release + ", ")
	}
	fmt.Fprintf(&b, "module %s, memory %s, timeout %s, %s", module, showSize(f.Memory), f.Timeout, f.Wants)
	return b.String()
}

// checkWants finds wants that contradict the input schema.
func (f *Function) checkWants() error {
	var schema struct {
		Type       string                     `json:"type"`
		Properties map[string]json.RawMessage `json:"properties"`
	}
	if err := json.Unmarshal(f.Input, &schema); err != nil || schema.Type != "object" {
		return fault.New(fault.Usage, "the schema of the arguments is not of type object").In("input").
			WithHint("begin it with type: object, additionalProperties: false")
	}
	for _, p := range slices.Concat(f.Wants.Read, f.Wants.Write) {
		if p.Argument != "" && schema.Properties[p.Argument] == nil {
			return fault.New(fault.Usage, "wants names the argument %q, which its input schema does not have", p.Argument).In("wants.files")
		}
	}
	return nil
}
