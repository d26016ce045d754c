package cli

import (
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/record/store/postgres"
)

// TestAnUpdateOfTablesIsSaidBefore: tables of an older Remit alone are updated.
func TestAnUpdateOfTablesIsSaidBefore(t *testing.T) {
	for version, want := range map[int64]bool{0: false, 1: true, 9: true, 10: false, 11: false} {
		got := updateWarning(postgres.Status{Database: "db/remit\x1b[31m", Version: version, Latest: 10})
		if strings.Contains(got, "an older Remit cannot use them") != want || strings.Contains(got, "\x1b") {
			t.Errorf("version %d: %q", version, got)
		}
	}
}
