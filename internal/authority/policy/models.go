package policy

import (
	"fmt"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// modelSettings is the section models.
type modelSettings struct {
	section

	tokens, tokensIn, tokensOut int64
}

func (s *modelSettings) setting() setting {
	return s.section.setting("models", modelSection, count("tokens", &s.tokens, 1),
		count("tokens_in", &s.tokensIn, 1), count("tokens_out", &s.tokensOut, 1))
}

// namePattern is an entry of models or api.
type namePattern struct {
	text string
	name *glob.Text
	api  bool
}

var modelForm = regex.Lazy(`^[A-Za-z0-9*][A-Za-z0-9._:/@*+-]*$`)

func parseModelPattern(text string, e Effect) (pattern, error) {
	if !modelForm.MatchString(text) {
		return nil, fmt.Errorf("%q is not a valid model pattern; expected provider/model, with * as a wildcard", text)
	}
	if file, ok := strings.CutPrefix(text, "scripted/"); ok {
		text = "scripted:" + file // the canonical spelling for a file of answers
	}
	name, err := glob.CompileName(text, '/', e == Deny)
	if err != nil {
		return nil, err
	}
	return &namePattern{text: text, name: name}, nil
}

func (p *namePattern) String() string { return p.text }

func (p *namePattern) print(w *printer, in int) { w.line(in, "- %s", quote(p.text)) }

func (p *namePattern) bind(*Rules, Effect) (pattern, error) { return p, nil }

func (p *namePattern) match(a *tool.Action) bool {
	if p.api {
		return p.name.Match(a.API)
	}
	return p.name.Match(a.Model)
}

func (p *namePattern) includes(_ *Rules, other pattern) bool {
	o, ok := other.(*namePattern)
	return ok && (o.text == p.text || !o.hasWildcard() && p.name.Match(o.text))
}

func (p *namePattern) disjoint(other pattern) bool {
	o, ok := other.(*namePattern)
	switch {
	case !ok:
		return false
	case !o.hasWildcard():
		return !p.name.Match(o.text)
	case !p.hasWildcard():
		return !o.name.Match(p.text)
	}
	return false
}

func (p *namePattern) hasWildcard() bool { return strings.Contains(p.text, "*") }
