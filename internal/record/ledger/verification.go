package ledger

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"golang.org/x/mod/sumdb/note"
	"golang.org/x/mod/sumdb/tlog"

	"github.com/remitrun/remit/internal/base/fault"
)

// VerificationHead is the first line of the text of a [Verification]. Nothing else that a
// ledger's key signs begins with it.
const VerificationHead = "remit verification v1\n"

// Verification states that the events of a log up to Size were verified and nothing was
// found altered. Its text is the body of a note that is signed with the ledger's key. A
// checkpoint states less: that these events were recorded.
type Verification struct {
	Origin string // names the ledger, as its key does
	Size   int64
	Root   tlog.Hash // of the log at this size
	At     time.Time // to the microsecond
	// FullSize is how many events the last verification of the whole log read, at FullAt. Later
	// events were verified in parts.
	FullSize int64
	FullAt   time.Time
}

func (v Verification) String() string {
	return fmt.Sprintf("%s%s\n%d\n%s\n%s\nfull %d %s\n", VerificationHead, v.Origin, v.Size, v.Root, stamp(v.At), v.FullSize, stamp(v.FullAt))
}

func stamp(t time.Time) string { return t.UTC().Truncate(time.Microsecond).Format(time.RFC3339Nano) }

// ParseVerification reads exactly the form of String.
func ParseVerification(text string) (Verification, error) {
	bad := fault.New(fault.VerifyFailed, "not a note of a verification")
	lines := strings.Split(strings.TrimPrefix(text, VerificationHead), "\n")
	if len(lines) != 6 {
		return Verification{}, bad
	}
	full := strings.Fields(lines[4])
	if len(full) != 3 {
		return Verification{}, bad
	}
	v := Verification{Origin: lines[0]}
	var errs [5]error
	v.Size, errs[0] = strconv.ParseInt(lines[1], 10, 64)
	v.Root, errs[1] = tlog.ParseHash(lines[2])
	v.At, errs[2] = time.Parse(time.RFC3339Nano, lines[3])
	v.FullSize, errs[3] = strconv.ParseInt(full[1], 10, 64)
	v.FullAt, errs[4] = time.Parse(time.RFC3339Nano, full[2])
	for _, err := range errs {
		if err != nil {
			return Verification{}, bad
		}
	}
	if v.String() != text || v.FullSize < 1 || v.Size < v.FullSize {
		return Verification{}, bad
	}
	return v, nil
}

// OpenVerification checks a signed note of a verification against the ledger's public key.
func OpenVerification(signed []byte, key note.Verifier) (Verification, error) {
	n, err := note.Open(signed, note.VerifierList(key))
	if err != nil {
		return Verification{}, fault.Wrap(fault.VerifyFailed, err, "the note of a verification is not signed by %s", key.Name())
	}
	v, err := ParseVerification(n.Text)
	if err == nil && v.Origin != key.Name() {
		err = fault.New(fault.VerifyFailed, "the note of a verification is of %q, not of %q", v.Origin, key.Name())
	}
	return v, err
}
