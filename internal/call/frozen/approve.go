package frozen

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Approval is a person's approval of a frozen plan.
type Approval struct {
	By     string    // as "user:ann"
	At     time.Time // UTC, to the second
	Key    string    // the name of the key that signed it: the ledger's
	Digest tool.Digest
}

// header begins the text of every approval, so that no other signed note is
// taken for one.
const header = "remit frozen plan approval v1"

// ApprovalText is the text that is signed to approve the plan.
func (f *Plan) ApprovalText(by string, at time.Time) (string, error) {
	if by == "" || len(by) > 200 || strings.ContainsFunc(by, func(r rune) bool { return r < ' ' || r == 0x7f || r == '\uFFFD' }) {
		return "", fault.New(fault.Usage, "%q is not a valid approver", clip.Text(by, 100))
	}
	return fmt.Sprintf("%s\n%s\n%s\n%s\n", header, f.digest, by, at.UTC().Format(time.RFC3339)), nil
}

// WithApproval adds a signed note, whose text is ApprovalText's.
func (f *Plan) WithApproval(signed string, verifier note.Verifier) (*Plan, error) {
	a, err := f.approval(signed, verifier)
	if err != nil {
		return nil, err
	}
	if len(f.approvals) >= MaxApprovals {
		return nil, fault.New(fault.Usage, "the frozen plan has %d approvals, which is the limit", len(f.approvals))
	}
	p := *f
	for _, old := range f.approvals {
		if was, err := f.approval(old, verifier); err == nil && was.By == a.By {
			return nil, fault.New(fault.Usage, "%s has approved the frozen plan already", a.By)
		}
	}
	p.approvals = append(slices.Clone(f.approvals), signed)
	return &p, nil
}

// Approved is the number of approvals, of all signers.
func (f *Plan) Approved() int { return len(f.approvals) }

// Approvals returns those approvals that the key signed, and how many others there
// are, which say nothing.
func (f *Plan) Approvals(verifier note.Verifier) (valid []Approval, others int) {
	for _, text := range f.approvals {
		if a, err := f.approval(text, verifier); err == nil {
			valid = append(valid, a)
		} else {
			others++
		}
	}
	return valid, others
}

func (f *Plan) approval(signed string, verifier note.Verifier) (Approval, error) {
	bad := func(err error) (Approval, error) {
		return Approval{}, fault.Wrap(fault.PlanInvalid, err, "an approval of the frozen plan is not valid")
	}
	n, err := note.Open([]byte(signed), note.VerifierList(verifier))
	if err != nil {
		return bad(err)
	}
	lines := strings.Split(n.Text, "\n")
	if len(lines) != 5 || lines[0] != header || lines[1] != f.digest.String() || lines[4] != "" {
		return bad(nil)
	}
	at, err := time.Parse(time.RFC3339, lines[3])
	if err != nil {
		return bad(err)
	}
	return Approval{By: lines[2], At: at.UTC(), Key: verifier.Name(), Digest: f.digest}, nil
}
