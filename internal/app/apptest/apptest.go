// Package apptest opens Remit for tests of other packages, in a home and environment of
// their own.
package apptest

import (
	"testing"

	"github.com/remitrun/remit/internal/app"
	"github.com/remitrun/remit/internal/service/home"
)

// New opens Remit for the user ann, with homeDir as $REMIT_HOME and further variables of the
// environment. It is closed at the end of the test.
func New(t testing.TB, homeDir string, env ...string) *app.App {
	t.Helper()
	cfg, err := home.FromEnv(append([]string{"REMIT_HOME=" + homeDir, "HOME=" + t.TempDir(), "USER=ann"}, env...))
	if err != nil {
		t.Fatal(err)
	}
	a, err := app.New(cfg, app.Own{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}
