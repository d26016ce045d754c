package sqlite

import (
	"strings"

	"golang.org/x/mod/sumdb/note"

	"github.com/remitrun/remit/internal/base/fault"
)

// SignNote signs a text with the ledger's key, as a note. Text that could be
// taken for a checkpoint of a ledger is refused.
func (s *Store) SignNote(text string) (string, error) {
	if strings.HasPrefix(text, originPrefix) {
		return "", fault.New(fault.Internal, "a note that looks like a checkpoint is not signed")
	}
	signed, err := note.Sign(&note.Note{Text: text}, s.keys.pair)
	return string(signed), err
}

// Verifier checks notes that SignNote signed.
func (s *Store) Verifier() note.Verifier { return s.keys.pair }
