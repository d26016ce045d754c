package catalog

import (
	"bytes"
	"fmt"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
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
	digest  string       // of what its source says, as it is remembered
	entry   runner.Entry // as it is used: its text cleaned, with the risk that holds

	once   sync.Once
	schema *jsonschema.Schema
	err    error

	look     sync.Once
	findings []inspect.Finding // of its own text; see suspicious
}

func (l *listed) compile() {
	l.schema, l.err = CompileSchema(string(l.entry.Spec.ID), l.entry.Spec.Input)
}

// CompileSchema reads a JSON Schema (2020-12 unless it says otherwise). It
// fetches nothing: a reference to outside is an error.
func CompileSchema(name string, src []byte) (*jsonschema.Schema, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(src))
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	comp := jsonschema.NewCompiler()
	comp.DefaultDraft(jsonschema.Draft2020)
	comp.UseLoader(jsonschema.SchemeURLLoader{})
	url := "remit:" + name
	if err := comp.AddResource(url, doc); err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	s, err := comp.Compile(url)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", name, err)
	}
	return s, nil
}

func (l *listed) validate(args tool.Args) error {
	l.once.Do(l.compile)
	if l.err != nil {
		return fault.Wrap(fault.Internal, l.err, "the schema of %s cannot be used", l.entry.Spec.ID)
	}
	if args == nil {
		args = tool.Args{}
	}
	err := l.schema.Validate(map[string]any(args))
	if err == nil {
		return nil
	}
	ve, ok := err.(*jsonschema.ValidationError)
	if !ok {
		return fault.Wrap(fault.ArgsInvalid, err, "the arguments do not fit the schema of %s", l.entry.Spec.ID)
	}
	var msgs []string
	for _, leaf := range leaves(ve) {
		msgs = append(msgs, describe(leaf))
	}
	return fault.New(fault.ArgsInvalid, "%s", strings.Join(msgs, "; ")).
		ForOperator("see remit tool %s", l.entry.Spec.ID)
}

func leaves(e *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(e.Causes) == 0 {
		return []*jsonschema.ValidationError{e}
	}
	var out []*jsonschema.ValidationError
	for _, c := range e.Causes {
		out = append(out, leaves(c)...)
	}
	return out
}

// describe says what is wrong where, without the argument's value.
func describe(e *jsonschema.ValidationError) string {
	where := "arguments"
	if len(e.InstanceLocation) > 0 {
		where = fmt.Sprintf("argument %q", strings.Join(e.InstanceLocation, "."))
	}
	return where + ": " + e.ErrorKind.LocalizedString(printer)
}
