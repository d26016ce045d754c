package reach

import (
	"strings"

	"github.com/remitrun/remit/internal/base/document"
	"github.com/remitrun/remit/internal/base/fault"
)

// Expectation is a question with the answer that is expected.
type Expectation struct {
	From, To string
	Want     Verdict
	Pos      fault.Pos
}

// MaxSize is the most bytes that a file of expectations may have.
const MaxSize = 1 << 20

// ParseExpectations reads a file of questions with their answers, YAML or JSON: the lists
// allow, ask and deny, of entries FROM -> TO. Every problem is reported at once
// (fault.List, code PolicyInvalid) with line, column and field.
func ParseExpectations(file string, src []byte) ([]Expectation, error) {
	r := document.NewReader(file, document.Options{Code: fault.PolicyInvalid, Noun: "file", MaxBytes: MaxSize})
	var out []Expectation
	if root := r.Read(src); root != nil {
		list := func(want Verdict) document.Field {
			return r.List(0, func(n *document.Node, field string) {
				from, to, ok := strings.Cut(n.Text, "->")
				from, to = strings.TrimSpace(from), strings.TrimSpace(to)
				if n.Kind != document.String || !ok || from == "" || to == "" {
					r.Fail(n, field, "is not a question").Hint = "write FROM -> TO, as label private -> network *"
					return
				}
				out = append(out, Expectation{from, to, want, r.Pos(n)})
			})
		}
		r.Mapping(root, "", document.Fields{"version": r.Version(1), "allow": list(Reachable), "ask": list(Conditional), "deny": list(Unreachable)})
		if len(out) == 0 && !r.Failed() {
			r.Fail(root, "", "there are no questions").Hint = "write deny: with a list of FROM -> TO"
		}
	}
	if err := r.Err(); err != nil {
		return nil, err
	}
	return out, nil
}
