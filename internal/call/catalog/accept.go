package catalog

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/diff"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/base/tool"
)

// Change is how a tool differs from its accepted version.
type Change struct {
	ID  tool.ID
	Was *Version // accepted
	Is  *Version // nil: nothing changed
}

// Diff shows the change as lines that went ("-") and came ("+"). Invisible characters are written
// as \u{200b}.
func (c Change) Diff() diff.Diff {
	if c.Is == nil {
		return diff.Diff{}
	}
	return diff.New("accepted", []byte(c.Was.text()), "now", []byte(c.Is.text()))
}

// text is a version for people to compare.
func (v *Version) text() string {
	var b strings.Builder
	line := func(name, text string) {
		if text != "" {
			fmt.Fprintf(&b, "%s: %s\n", name, inspect.Visible(text))
		}
	}
	line("title", v.Title)
	line("version", v.Version)
	line("source", v.Source)
	line("risk", v.Risk)
	var effects tool.Effects
	effects |= tool.EffectSet(v.Effects...)
	line("side effects", effects.String())
	if hints, err := json.Marshal(v.Hints); err == nil && string(hints) != "{}" {
		line("hints", string(hints))
	}
	b.WriteString("description:\n")
	for text := range strings.Lines(v.Description) {
		b.WriteString("  " + inspect.Visible(strings.TrimRight(text, "\r\n")) + "\n")
	}
	for _, s := range [...]struct {
		name string
		src  json.RawMessage
	}{{"input schema", v.Input}, {"output schema", v.Output}} {
		if len(s.src) > 0 {
			b.WriteString(s.name + ":\n" + indent(s.src) + "\n")
		}
	}
	return b.String()
}

func indent(src json.RawMessage) string {
	var v any
	if json.Unmarshal(src, &v) != nil {
		return inspect.Visible(string(src))
	}
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("  ", "  ")
	if enc.Encode(v) != nil { // a decoded value can be encoded
		return inspect.Visible(string(src))
	}
	return "  " + inspect.Visible(strings.TrimRight(b.String(), "\n"))
}

// Difference returns how a tool changed since it was accepted, to show it to a
// person. Accept then accepts that version from that person. If the tool's source
// fails, the version that was seen last counts.
func (c *Catalog) Difference(ctx context.Context, person string, id tool.ID) (Change, error) {
	source, r, err := c.remembered(ctx, id)
	if err != nil || r.Accepted == nil || r.Latest == nil {
		return Change{ID: id, Was: r.Accepted}, err
	}
	err = c.memory.Change(source, func(m map[tool.ID]Record) bool {
		now := m[id]
		if person == "" || now.Latest == nil || now.Latest.Digest != r.Latest.Digest || now.Looks.digestSeenBy(person) == now.Latest.Digest {
			return false // it changed again meanwhile, or was shown before
		}
		now.Looks = now.Looks.withLook(person, now.Latest.Digest)
		m[id] = now
		return true
	})
	return Change{id, r.Accepted, r.Latest}, err
}

// remembered returns the record of a tool, after its source was asked.
func (c *Catalog) remembered(ctx context.Context, id tool.ID) (source string, r Record, err error) {
	if _, ok := c.byID[id]; ok {
		source = BuiltIn
	} else if f := c.feedOf(id); f != nil {
		source = f.name
	} else {
		return "", r, c.unknown(id)
	}
	l, ferr := c.find(ctx, id)
	if ferr == nil {
		r, off := c.standing(l, true)
		if source != BuiltIn && r.Accepted == nil && !r.Off {
			return source, r, fault.New(fault.ToolDisabled, "%s", off) // nothing can be remembered
		}
		return source, r, nil
	}
	records, err := c.memory.Load(source)
	if err != nil {
		return source, r, err
	}
	r, ok := records[id]
	if !ok {
		return source, r, ferr
	}
	return source, r, nil
}

// Accept accepts a tool as it was seen last, and returns how it changed. Person must have seen this
// version in [Catalog.Difference]. With a digest, it must be the version's too.
func (c *Catalog) Accept(ctx context.Context, person string, id tool.ID, digest string) (Change, error) {
	source, r, err := c.remembered(ctx, id)
	if err != nil {
		return Change{}, err
	}
	if source == BuiltIn || r.Latest == nil {
		return Change{ID: id, Was: r.Accepted}, nil
	}
	done, shown := Change{ID: id}, ""
	err = c.memory.Change(source, func(m map[tool.ID]Record) bool {
		now := m[id]
		shown = now.Looks.digestSeenBy(person)
		if now.Latest == nil || shown != now.Latest.Digest || digest != "" && digest != shown {
			return false
		}
		is := *now.Latest
		is.At = c.now().UTC().Truncate(time.Second)
		done.Was, done.Is = now.Accepted, &is
		now.Accepted, now.Latest, now.Looks = &is, nil, nil
		m[id] = now
		return true
	})
	if err == nil && done.Is == nil {
		err = unshown(id, shown)
	}
	return done, err
}

// unshown is why a person cannot accept a tool; shown is the digest that the person was shown.
func unshown(id tool.ID, shown string) error {
	err := fault.New(fault.Conflict, "the tool %q changed again after its change was shown to you; nothing was accepted", string(id))
	if shown == "" {
		err = fault.New(fault.Conflict, "the change of the tool %q was not shown to you; nothing was accepted", string(id))
	}
	return err.ForOperator("see the change with remit tool %s --diff, or on the tool's page in the web UI", id)
}

// Changed returns the tools of a source that differ from their accepted version, as remembered
// after the source was asked.
func (c *Catalog) Changed(ctx context.Context, source string) ([]tool.ID, error) {
	var out []tool.ID
	i := slices.IndexFunc(c.all(), func(f *feed) bool { return f.name == source })
	if i < 0 {
		return nil, fault.New(fault.Usage, "no source is called %q", source).ForOperator("remit tools lists the tools of all sources")
	}
	c.List(ctx, Filter{Source: source})
	records, err := c.memory.Load(source)
	for id, r := range records {
		if r.Latest != nil {
			out = append(out, id)
		}
	}
	slices.Sort(out)
	return out, err
}

// Switch enables or disables a tool, in any state of its source. It reports whether that changed
// anything.
func (c *Catalog) Switch(ctx context.Context, id tool.ID, on bool) (changed bool, err error) {
	source := BuiltIn
	if _, ok := c.byID[id]; !ok {
		f := c.feedOf(id)
		if f == nil {
			return false, c.unknown(id)
		}
		source = f.name
		records, err := c.memory.Load(source)
		if err != nil {
			return false, err
		}
		if _, ok := records[id]; !ok {
			if _, err := c.find(ctx, id); err != nil {
				return false, err
			}
		}
	}
	err = c.memory.Change(source, func(m map[tool.ID]Record) bool {
		r := m[id]
		if changed = r.Off == on; changed {
			r.Off = !on
			m[id] = r
		}
		return changed
	})
	return changed, err
}
