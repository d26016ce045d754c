package tables

import (
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/ledger"
)

// SignNote signs a text with the ledger's key, as a note. Text that could be
// taken for a checkpoint or a verification of a ledger is refused.
func (s *Store) SignNote(text string) (string, error) {
	if strings.HasPrefix(text, originPrefix) || strings.HasPrefix(text, ledger.VerificationHead) || strings.HasPrefix(text, ledger.RotationHead) {
		return "", fault.New(fault.Internal, "a note that looks like a checkpoint or a verification is not signed")
	}
	signed, err := note.Sign(&note.Note{Text: text}, s.keys.pair())
	return string(signed), err
}

// Verifier checks notes that SignNote signed.
func (s *Store) Verifier() note.Verifier { return s.keys.pair() }
