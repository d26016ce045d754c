package catalog

import (
	"cmp"
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/schema"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/call/runner"
	"github.com/remitrun/remit/internal/tools/infer"
)

// listed is a tool with its input schema, compiled when first needed: a
// process that calls one tool does not pay for all of them.
type listed struct {
	source  string      // its source's name, or BuiltIn
	said    *tool.Spec  // as its source describes it
	hints   infer.Hints // what its source hints at
	verdict infer.Verdict
	digest  string       // of the source's own words, as recorded
	entry   runner.Entry // as it is used: its text cleaned, with the risk that holds; see described

	sum    func() tool.Digest // of a built-in tool; nil: entry has the digest
	once   sync.Once
	schema *schema.Schema
	err    error

	look     sync.Once
	findings []inspect.Finding // of its own text; see suspicious
}

// described returns the entry with its digest. The digest of a built-in tool is computed at its first use.
func (l *listed) described() runner.Entry {
	e := l.entry
	if l.sum != nil {
		e.Digest = l.sum()
	}
	return e
}

func (l *listed) compile() {
	compile := schema.CompileUsable // the tool's server checks the arguments against the whole schema
	if l.source == BuiltIn {
		compile = schema.Compile
	}
	l.schema, l.err = compile(string(l.entry.Spec.ID), l.entry.Spec.Input)
}

func (l *listed) validate(args tool.Args) error {
	l.once.Do(l.compile)
	if l.err != nil && l.source != BuiltIn { // an older version accepted it without this check
		return fault.Wrap(fault.ToolFailed, l.err, "%s cannot be called: %v", l.entry.Spec.ID, l.err)
	}
	if l.err != nil {
		return fault.Wrap(fault.Internal, l.err, "the schema of %s is not valid", l.entry.Spec.ID)
	}
	if args == nil {
		args = tool.Args{}
	}
	err := l.schema.Validate(map[string]any(args))
	if err == nil {
		return nil
	}
	var invalid *schema.Invalid
	if !errors.As(err, &invalid) {
		return fault.Wrap(fault.ArgsInvalid, err, "the arguments do not match the schema of %s", l.entry.Spec.ID)
	}
	hint := ""
	texts := make([]string, len(invalid.Problems))
	for i, p := range invalid.Problems {
		texts[i] = "arguments: " + p.Text
		if len(p.At) > 0 {
			texts[i] = fmt.Sprintf("argument %q: %s", strings.Join(p.At, "."), p.Text)
		}
		hint = cmp.Or(hint, p.Hint)
	}
	wrong := fault.New(fault.ArgsInvalid, "%s", strings.Join(texts, "; "))
	if hint != "" {
		return wrong.WithHint("%s", hint)
	}
	return wrong.ForOperator("see remit tool %s", l.entry.Spec.ID)
}
