package ledger_test

import (
	"slices"
	"testing"

	"github.com/remitrun/remit/internal/record/ledger"
)

func TestSeqsComeBack(t *testing.T) {
	for text, want := range map[string][]ledger.Seq{
		"1": {1}, "1-3": {1, 2, 3}, "2,4": {2, 4}, "1-2,5,7-9": {1, 2, 5, 7, 8, 9},
	} {
		if got := ledger.FormatSeqs(want); got != text {
			t.Errorf("FormatSeqs(%v) = %q, want %q", want, got, text)
		}
		if got, err := ledger.ParseSeqs(text, 10); err != nil || !slices.Equal(got, want) {
			t.Errorf("ParseSeqs(%q) = %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "0", "x", "3-1", "1-1", "1,2", "2,1", "1,1", "01", "1-", "-1", "1-4,3", "9-10", "1-4000000000", "+1", "1,"} {
		if got, err := ledger.ParseSeqs(text, 10); err == nil {
			t.Errorf("ParseSeqs(%q) = %v, want an error", text, got)
		}
	}
}
