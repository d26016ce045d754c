package witness

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"

	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
)

// The protocol is c2sp.org/tlog-witness.

const (
	sizeType    = "text/x.tlog.size" // content type of a conflict's size
	maxProof    = 63                 // hashes of a proof
	maxAddition = 64 << 10           // bytes of a request
)

// addition is the body of a request add-checkpoint.
type addition struct {
	old   int64
	proof tlog.TreeProof
	note  []byte
}

func (a addition) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "old %d\n", a.old)
	for _, h := range a.proof {
		b.WriteString(h.String() + "\n")
	}
	return b.String() + "\n" + string(a.note)
}

// parseAddition reads exactly the form of String.
func parseAddition(b []byte) (addition, error) {
	bad := fault.New(fault.Usage, "not a request to add a checkpoint")
	head, signed, ok := bytes.Cut(b, []byte("\n\n"))
	lines := strings.Split(string(head), "\n")
	size, isOld := strings.CutPrefix(lines[0], "old ")
	if !ok || !isOld || len(lines) > 1+maxProof {
		return addition{}, bad
	}
	a := addition{note: signed}
	var err error
	if a.old, err = strconv.ParseInt(size, 10, 64); err != nil || a.old < 0 {
		return addition{}, bad
	}
	for _, line := range lines[1:] {
		h, err := tlog.ParseHash(line)
		if err != nil {
			return addition{}, bad
		}
		a.proof = append(a.proof, h)
	}
	if a.String() != string(b) {
		return addition{}, bad
	}
	return a, nil
}
