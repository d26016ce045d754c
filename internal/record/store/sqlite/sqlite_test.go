package sqlite_test

import (
	"context"
	"testing"

	"go.uber.org/goleak"

	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/sqlite"
	"github.com/remitrun/remit/internal/record/store/storetest"
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

func TestConformance(t *testing.T) { storetest.Store(t, open) }

func TestConformanceOfGrants(t *testing.T) { storetest.Grants(t, open) }

func TestBudgetsConform(t *testing.T) { storetest.Budgets(t, open) }

func TestApprovalsConform(t *testing.T) { storetest.Approvals(t, open) }

func TestSessionsConform(t *testing.T) { storetest.Sessions(t, open) }

func TestRequestsConform(t *testing.T) { storetest.Requests(t, open) }

func TestFilesConform(t *testing.T) { storetest.Files(t, open) }
