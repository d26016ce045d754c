package sqlite_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/conform"
	"github.com/remitrun/remit/internal/store"
	"github.com/remitrun/remit/internal/store/sqlite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func open(t *testing.T, home string) store.Store {
	t.Helper()
	return openWith(t, sqlite.Options{Home: home})
}

func openWith(t *testing.T, o sqlite.Options) *sqlite.Store {
	t.Helper()
	s, err := sqlite.Open(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

func TestConformance(t *testing.T) { conform.Store(t, open) }

func TestConformanceOfGrants(t *testing.T) { conform.Grants(t, open) }

func TestBudgetsConform(t *testing.T) { conform.Budgets(t, open) }

func TestApprovalsConform(t *testing.T) { conform.Approvals(t, open) }

func TestSessionsConform(t *testing.T) { conform.Sessions(t, open) }

func TestRequestsConform(t *testing.T) { conform.Requests(t, open) }

func TestFilesConform(t *testing.T) { conform.Files(t, open) }
