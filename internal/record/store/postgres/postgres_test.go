package postgres_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/remitrun/remit/internal/base/racetest"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
	"github.com/remitrun/remit/internal/record/store/storetest"
)

var server *postgrestest.Server

func TestMain(m *testing.M) {
	if home := os.Getenv("REMIT_TEST_MOVE"); home != "" { // as remit db migrate does
		must(0, must(postgres.Open(context.Background(), postgres.Options{Home: home, URL: os.Getenv("REMIT_TEST_URL")})).MovePayloads(context.Background()))
		os.Exit(0)
	}
	if home := os.Getenv("REMIT_TEST_NODE"); home != "" { // see TestAKilledNodeIsTakenOver
		node(home)
	}
	os.Exit(postgrestest.Main(m, func(s *postgrestest.Server) { server = s }))
}

func open(t *testing.T, home string) store.Store {
	t.Helper()
	if strings.Contains(t.Name(), "/") {
		racetest.Some(t, 4, "SQLite's store is the same code, and has all of the contract's tests")
	}
	return openWith(t, postgres.Options{Home: home})
}

func openWith(t *testing.T, o postgres.Options) *postgres.Store {
	t.Helper()
	o.URL = server.Schema(t, o.Home)
	s, err := postgres.Open(context.Background(), o)
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

func TestTheCostOfAQuestionDoesNotGrow(t *testing.T) { storetest.CostOfAQuestion(t, open) }

func TestSealedListsInMotion(t *testing.T) { storetest.SealedListsInMotion(t, open) }

func TestSessionsConform(t *testing.T) { storetest.Sessions(t, open) }

func TestRequestsConform(t *testing.T) { storetest.Requests(t, open) }

func TestEphemeraConform(t *testing.T) { storetest.Ephemera(t, open) }

func TestRatesConform(t *testing.T) { storetest.Rates(t, open) }

func TestQueueConforms(t *testing.T) { storetest.Queue(t, open) }

func TestClocksConform(t *testing.T) {
	storetest.Clocks(t, func(t *testing.T, home string) (store.Backend, func(time.Duration)) {
		url, move := server.Clock(t, server.Schema(t, home))
		s, err := postgres.Open(context.Background(), postgres.Options{Home: home, URL: url})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = s.Close() }) // another node may have removed this one
		return s, move
	})
}

func TestFilesConform(t *testing.T) { storetest.Files(t, open) }

func TestLabelsConform(t *testing.T) { storetest.Labels(t, open) }

func TestErasingConforms(t *testing.T) { storetest.Erase(t, open) }
