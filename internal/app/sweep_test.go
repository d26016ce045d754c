package app_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/remitrun/remit/internal/app"
)

func TestChangesSettings(t *testing.T) {
	tests := map[string]struct {
		yaml, err string
		days      int
		bytes     app.Size
	}{
		"none":               {"ledger: {durability: power}", "", 30, 5 << 30},
		"one of them":        {"changes: {keep_days: 7}", "", 7, 5 << 30},
		"both":               {"changes: {keep_days: 0, keep_bytes: 200MiB}", "", 0, 200 << 20},
		"a plain number":     {"changes: {keep_bytes: 1000}", "", 30, 1000},
		"less than nothing":  {"changes: {keep_days: -1}", "changes.keep_days", 0, 0},
		"too many days":      {"changes: {keep_days: 106752}", "changes.keep_days", 0, 0},
		"no size":            {"changes: {keep_bytes: much}", `"much" is no size`, 0, 0},
		"too large":          {"changes: {keep_bytes: 9000000000GiB}", "is no size", 0, 0},
		"an unknown setting": {"changes: {keep: 1}", "keep", 0, 0},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			home := t.TempDir()
			if err := os.WriteFile(filepath.Join(home, "config.yaml"), []byte(tc.yaml), 0o600); err != nil {
				t.Fatal(err)
			}
			cfg, err := app.FromEnv([]string{"REMIT_HOME=" + home})
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) || !strings.Contains(err.Error(), "config.yaml") {
					t.Fatalf("got %v, want an error about %s", err, tc.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := cfg.Settings.Changes; got.KeepDays != tc.days || got.KeepBytes != tc.bytes {
				t.Errorf("got %+v", got)
			}
		})
	}
}
