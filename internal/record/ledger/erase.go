package ledger

import (
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// EraseAction is the Name of an Operated event that erased payloads. Its OperatorAction lists
// the events.
const EraseAction = "record.erase"

// RotateAction is the Name of an Operated event that announces a new signing key of the ledger:
// the Target of its OperatorAction. One with a code says that the rotation failed.
const RotateAction = "ledger.rotate"

// FormatSeqs writes numbers of events, in order, as "3-9,12".
func FormatSeqs(seqs []Seq) string {
	var b strings.Builder
	for i := 0; i < len(seqs); {
		first := seqs[i]
		for i++; i < len(seqs) && seqs[i] == seqs[i-1]+1; i++ {
		}
		if b.Len() > 0 {
			b.WriteByte(',')
		}
		b.WriteString(strconv.FormatUint(uint64(first), 10))
		if last := seqs[i-1]; last > first {
			b.WriteString("-" + strconv.FormatUint(uint64(last), 10))
		}
	}
	return b.String()
}

// ParseSeqs reads exactly the form of FormatSeqs, for numbers of events before an event.
func ParseSeqs(text string, before Seq) ([]Seq, error) {
	bad := fault.New(fault.StoreCorrupt, "a list of events that cannot be read")
	var out []Seq
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, err := strconv.ParseUint(first, 10, 62)
		b, berr := strconv.ParseUint(last, 10, 62)
		if err != nil || berr != nil || a == 0 || b < a || Seq(b) >= before || len(out) > 0 && Seq(a) <= out[len(out)-1] {
			return nil, bad
		}
		for seq := Seq(a); seq <= Seq(b); seq++ {
			out = append(out, seq)
		}
	}
	if FormatSeqs(out) != text {
		return nil, bad
	}
	return out, nil
}
