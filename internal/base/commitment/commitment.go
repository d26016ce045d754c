// Package commitment holds conditions under which work counts as done: a command that must
// end with a certain exit status, a file that must exist, a JSON file that must have certain
// values. Each condition is checked by one call of a built-in tool, which is decided and
// recorded like any other call. This package makes the arguments of that call and judges its
// result. Start at [Commitment].
package commitment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/canon"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of commitments.
const (
	Max      = 20       // conditions of one plan or agent
	maxText  = 16 << 10 // bytes of all texts of one condition
	maxExit  = 255
	maxShown = 200 // bytes of a condition in messages
)

// Commitment is one condition. Exactly one of Run, File and JSON is set.
type Commitment struct {
	Run    []string                   `json:"run,omitempty" doc:"A command and its arguments"`
	Exit   int                        `json:"exit,omitempty" minimum:"0" maximum:"255" doc:"The exit status that the command must end with"`
	Cwd    string                     `json:"cwd,omitempty" doc:"Where the command starts; missing: the workspace"`
	File   string                     `json:"file,omitempty" doc:"A file that must exist"`
	JSON   string                     `json:"json,omitempty" doc:"A file that must have valid JSON"`
	Equals map[string]json.RawMessage `json:"equals,omitempty" doc:"Values that the JSON must have, by their JSON pointers"`
}

// Check reports every invalid condition of a list with the given code. The fields of its
// errors begin with field.
func Check(code fault.Code, field string, list []Commitment) error {
	if len(list) > Max {
		return fault.New(code, "%d commitments; the maximum is %d", len(list), Max).In(field)
	}
	var errs fault.List
	for i := range list {
		if msg := list[i].problem(); msg != "" {
			errs = append(errs, fault.New(code, "%s", msg).In(fmt.Sprintf("%s[%d]", field, i)))
		}
	}
	return errs.Err()
}

// problem describes the fault in the condition; "": none.
func (c *Commitment) problem() string {
	kinds, size := 0, len(c.Cwd)+len(c.File)+len(c.JSON)
	for _, given := range []bool{len(c.Run) > 0, c.File != "", c.JSON != ""} {
		if given {
			kinds++
		}
	}
	texts := append(slices.Clone(c.Run), c.Cwd, c.File, c.JSON)
	for pointer, v := range c.Equals {
		size += len(v)
		texts = append(texts, pointer)
		if pointer != "" && pointer[0] != '/' {
			return fmt.Sprintf("%q is not a JSON pointer; expected /name/0", pointer)
		}
		if _, err := canon.Decode(v); err != nil {
			return fmt.Sprintf("the value for %q is not valid JSON", pointer)
		}
	}
	for _, t := range texts {
		if size += len(t); !utf8.ValidString(t) || strings.ContainsRune(t, 0) {
			return "the text is not UTF-8, or has a NUL byte"
		}
	}
	switch {
	case kinds != 1:
		return "expected exactly one of run, file and json"
	case len(c.Run) > 0 && c.Run[0] == "":
		return "run needs the name of a command"
	case len(c.Run) == 0 && (c.Exit != 0 || c.Cwd != ""):
		return "exit and cwd belong to run"
	case c.JSON == "" && len(c.Equals) > 0:
		return "equals belongs to json"
	case c.Exit < 0 || c.Exit > maxExit:
		return fmt.Sprintf("exit must be 0 to %d", maxExit)
	case size > maxText:
		return fmt.Sprintf("the texts have %d bytes; the maximum is %d", size, maxText)
	}
	return ""
}

// Call returns the call that checks the condition.
func (c *Commitment) Call() (tool.ID, tool.Args) {
	switch {
	case len(c.Run) > 0:
		argv := make([]any, len(c.Run))
		for i, word := range c.Run {
			argv[i] = word
		}
		args := tool.Args{"argv": argv}
		if c.Cwd != "" {
			args["cwd"] = c.Cwd
		}
		return c.Tool(), args
	case c.File != "":
		return c.Tool(), tool.Args{"path": c.File}
	default:
		return c.Tool(), tool.Args{"path": c.JSON}
	}
}

// Tool is the tool whose call checks the condition.
func (c *Commitment) Tool() tool.ID {
	switch {
	case len(c.Run) > 0:
		return "shell.run"
	case c.File != "":
		return "fs.stat"
	}
	return "fs.read"
}

// Judge returns nil if the call that checks the condition shows that it is met, and an error
// otherwise: fault.CommitmentUnmet, or the error of a call that could not find out.
func (c *Commitment) Judge(output map[string]any, err error) error {
	if errors.Is(err, fault.CommitmentUnmet) {
		return err // a replayed call: its recorded error
	}
	if len(c.Run) > 0 {
		return c.judgeExit(output, err)
	}
	if errors.Is(err, fault.NotFound) {
		return c.unmet("the file does not exist")
	}
	if err != nil || c.File != "" {
		return err
	}
	return c.judgeJSON(output)
}

func (c *Commitment) judgeExit(output map[string]any, err error) error {
	status, ran := output["exit_code"]
	if err != nil && !errors.Is(err, fault.ToolFailed) || !ran {
		return err
	}
	if _, killed := output["signal"]; killed {
		return err
	}
	if text := fmt.Sprint(status); text != strconv.Itoa(c.Exit) {
		return c.unmet("the command ended with exit status %s; expected %d", text, c.Exit)
	}
	return nil
}

func (c *Commitment) judgeJSON(output map[string]any) error {
	text, _ := output["content"].(string)
	if cut, _ := output["truncated"].(bool); cut {
		return c.unmet("the file is larger than the policy lets a call read")
	}
	doc, err := canon.Decode([]byte(text))
	if err != nil {
		return c.unmet("the file is not valid JSON: %v", err)
	}
	for _, pointer := range slices.Sorted(maps.Keys(c.Equals)) {
		is, there := canon.At(doc, pointer)
		if !there {
			return c.unmet("%q is missing", pointer)
		}
		if !equal(is, c.Equals[pointer]) {
			return c.unmet("%q is not %.100s", pointer, c.Equals[pointer])
		}
	}
	return nil
}

func (c *Commitment) unmet(format string, args ...any) error {
	return fault.New(fault.CommitmentUnmet, "commitment not met: %s: %s", c, fmt.Sprintf(format, args...))
}

// String names the condition for people.
func (c *Commitment) String() string {
	s := "file " + c.File
	switch {
	case len(c.Run) > 0:
		s = "run " + strings.Join(c.Run, " ")
	case c.JSON != "":
		s = "json " + c.JSON
	}
	if len(s) > maxShown {
		s = strings.ToValidUTF8(s[:maxShown], "") + "…"
	}
	return s
}

// equal reports whether a value equals the one that is written as JSON.
func equal(v any, want json.RawMessage) bool {
	w, err := canon.Decode(want)
	if err != nil {
		return false
	}
	a, err := canon.Marshal(v)
	if err != nil {
		return false
	}
	b, err := canon.Marshal(w)
	return err == nil && bytes.Equal(a, b)
}
