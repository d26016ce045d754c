// Package capabilitytest has the contract of capabilities as tests. Every capability
// passes [Capability]: start there.
package capabilitytest

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/agents/capability"
	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/permit/permittest"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
)

// Case is a capability's input to its tests.
type Case struct {
	World   permittest.World          // for the permits of calls
	Config  json.RawMessage           // a valid one; nil: none
	Session func() capability.Session // makes equal new sessions; nil: the zero Session
	// Calls has valid arguments by tool names, for a new session. Tools that it does not
	// name are not called.
	Calls map[string][]tool.Args
	// Varying says that equal calls may have different results.
	Varying bool
}

// Capability is the contract of every capability.
func Capability(t *testing.T, c capability.Capability, x Case) {
	t.Helper()
	if x.Session == nil {
		x.Session = func() capability.Session { return capability.Session{} }
	}
	info := c.Info()
	t.Run("the description is complete", func(t *testing.T) { checkInfo(t, c) })
	t.Run("no configuration is a configuration", func(t *testing.T) {
		if _, err := c.Part(capability.Session{}, nil); err != nil {
			t.Errorf("of the zero session: %v", err)
		}
		if _, err := c.Part(x.Session(), nil); err != nil {
			t.Error(err)
		}
	})
	part := resolved(t, c, x)
	t.Run("the prompt is plain text", func(t *testing.T) { checkPrompt(t, info, part) })
	t.Run("the tools are its own, each once", func(t *testing.T) { checkOffers(t, info, part) })
	t.Run("the same comes again", func(t *testing.T) {
		if again := resolved(t, c, x); !reflect.DeepEqual(faces(part), faces(again)) {
			t.Errorf("got %v, then %v", faces(part), faces(again))
		}
	})
	for _, o := range part.Tools {
		if o.Tool == nil {
			continue
		}
		t.Run("the tool "+o.Name, func(t *testing.T) {
			if len(x.Calls[o.Name]) == 0 {
				permittest.CheckSpec(t, o.Tool.Spec())
				permittest.CompileSchema(t, o.Tool.Spec().Input)
				permittest.CompileSchema(t, o.Tool.Spec().Output)
				return
			}
			for _, args := range x.Calls[o.Name] {
				permittest.Tool(t, again(t, c, x, o.Name), x.World, args)
			}
		})
	}
	if len(x.Calls) > 0 {
		t.Run("no session sees another one's state", func(t *testing.T) { checkApart(t, c, x) })
	}
}

// resolved returns the capability's part in a new session.
func resolved(t *testing.T, c capability.Capability, x Case) capability.Part {
	t.Helper()
	reg, err := capability.NewRegistry([]capability.Capability{c})
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Info().Requires) > 0 { // the capabilities that it requires are missing here
		part, err := c.Part(x.Session(), x.Config)
		if err != nil {
			t.Fatal(err)
		}
		return part
	}
	r, err := capability.Resolve(reg, []capability.Ref{{Ref: c.Info().ID, Config: x.Config}}, x.Session())
	if err != nil {
		t.Fatal(err)
	}
	return r.Parts[0].Part
}

// again returns a tool of the capability in a new session.
func again(t *testing.T, c capability.Capability, x Case, name string) permit.Tool {
	t.Helper()
	for _, o := range resolved(t, c, x).Tools {
		if o.Name == name {
			return o.Tool
		}
	}
	t.Fatalf("the tool %q is gone", name)
	return nil
}

func checkInfo(t *testing.T, c capability.Capability) {
	info := c.Info()
	if info.Icon == "" || info.Category == "" {
		t.Errorf("icon or category is missing: %+v", info)
	}
	for _, s := range append([]string{info.Name, info.Description}, info.Wants...) {
		if inspect.HasInvisible(s) || s != strings.TrimSpace(s) {
			t.Errorf("%q has invisible characters", s)
		}
	}
	if !reflect.DeepEqual(info, c.Info()) {
		t.Error("Info differs from one time to the next")
	}
	if len(info.Config) > 0 {
		permittest.CheckClosed(t, "configuration", decode(t, info.Config), true)
	}
}

func decode(t *testing.T, raw json.RawMessage) any {
	t.Helper()
	var v any
	if err := json.Unmarshal(raw, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func checkPrompt(t *testing.T, info capability.Info, part capability.Part) {
	const longest = 16 << 10
	switch {
	case inspect.HasInvisible(part.Prompt):
		t.Errorf("the prompt of %s has invisible characters", info.ID)
	case len(part.Prompt) > longest:
		t.Errorf("the prompt of %s has %d bytes", info.ID, len(part.Prompt))
	}
}

func checkOffers(t *testing.T, info capability.Info, part capability.Part) {
	var names []string
	for _, o := range part.Tools {
		if slices.Contains(names, o.Name) || !capability.ValidName(o.Name) {
			t.Errorf("the name %q is used twice, or is not a valid tool name", o.Name)
		}
		names = append(names, o.Name)
		if o.Tool == nil {
			if _, err := tool.ParseID(string(o.ID)); err != nil {
				t.Error(err)
			}
			continue
		}
		spec := o.Tool.Spec()
		if o.ID != spec.ID || spec.ID != tool.ID(info.ID+"."+o.Name) {
			t.Errorf("the tool %q has the ID %q, and is offered as %q", o.Name, spec.ID, o.ID)
		}
		if len(info.Wants) == 0 && spec.Effects&^tool.EffectSet(tool.FSRead, tool.FSWrite, tool.FSDelete, tool.DatabaseRead, tool.DatabaseWrite) != 0 {
			t.Errorf("%s declares no authority (Wants) for the effects %q of %s", info.ID, spec.Effects, o.Name)
		}
		if inspect.HasInvisible(spec.Description) {
			t.Errorf("the description of %q has invisible characters", o.Name)
		}
	}
}

// face is the visible part of a tool.
type face struct {
	name   string
	id     tool.ID
	digest tool.Digest
}

func faces(p capability.Part) []face {
	var out []face
	for _, o := range p.Tools {
		f := face{name: o.Name, id: o.ID}
		if o.Tool != nil {
			f.digest = o.Tool.Spec().Digest()
		}
		out = append(out, f)
	}
	return append(out, face{name: p.Prompt})
}

// checkApart makes calls in one session, and checks that sessions made before and after
// are not affected.
func checkApart(t *testing.T, c capability.Capability, x Case) {
	early, clean := x.Session(), x.Session()
	a := outcomes(t, c, x, clean)
	for range 2 { // what one leaves behind
		outcomes(t, c, x, x.Session())
	}
	if x.Varying {
		return
	}
	for name, s := range map[string]capability.Session{"one begun before": early, "one begun after": x.Session()} {
		if b := outcomes(t, c, x, s); !reflect.DeepEqual(a, b) {
			t.Errorf("in %s the calls gave\n%v\nand not\n%v", name, b, a)
		}
	}
}

// outcomes makes each call once in a session, in the order of the tools.
func outcomes(t *testing.T, c capability.Capability, x Case, s capability.Session) []string {
	t.Helper()
	part, err := c.Part(s, x.Config)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, o := range part.Tools {
		for _, args := range x.Calls[o.Name] {
			p := x.World.Permit(t)
			res, err := permittest.Run(t.Context(), o.Tool, p, args)
			p.End()
			if err != nil {
				out = append(out, o.Name+": "+err.Error())
				continue
			}
			out = append(out, o.Name+": "+permittest.Encode(t, res.Output))
		}
	}
	return out
}
