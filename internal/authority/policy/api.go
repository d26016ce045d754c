package policy

import (
	"fmt"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/regex"
)

// apiSettings is the section api.
type apiSettings struct{ section }

func (s *apiSettings) setting() setting { return s.section.setting("api", apiSection) }

var apiForm = regex.Lazy(`^[a-z*][a-z_.*]*$`)

func parseAPIPattern(text string, e Effect) (pattern, error) {
	if !apiForm.MatchString(text) {
		return nil, fmt.Errorf("%q is not a valid pattern of API operations; expected a name such as agents.write, with * as a wildcard", text)
	}
	name, err := glob.CompileName(text, '.', e == Deny)
	if err != nil {
		return nil, err
	}
	return &namePattern{text: text, name: name, api: true}, nil
}
