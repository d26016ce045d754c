package postgres_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/record/store"
	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/record/witness"
	homes "github.com/remitrun/remit/internal/service/home"
	"github.com/remitrun/remit/internal/service/witnesses"
)

// saveTables keeps the rows of all tables of the current schema in another one, and
// putBack makes them its rows again, as a restored copy of the database would.
const (
	saveTables = `DO $$ DECLARE r record; BEGIN
EXECUTE format('CREATE SCHEMA %I', current_schema() || '_kept');
FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
EXECUTE format('CREATE TABLE %I.%I AS TABLE %I', current_schema() || '_kept', r.tablename, r.tablename);
END LOOP; END $$`
	putBack = `SET session_replication_role = replica; DO $$ DECLARE r record; BEGIN
FOR r IN SELECT tablename FROM pg_tables WHERE schemaname = current_schema() LOOP
EXECUTE format('DELETE FROM %I', r.tablename);
EXECUTE format('INSERT INTO %I OVERRIDING SYSTEM VALUE SELECT * FROM %I.%I', r.tablename, current_schema() || '_kept', r.tablename);
END LOOP; END $$`
)

func carryOut(t *testing.T, url, statements string) {
	t.Helper()
	ctx := context.Background()
	c, err := pgx.Connect(ctx, url)
	if err == nil {
		_, err = c.Exec(ctx, statements)
		err = errors.Join(err, c.Close(ctx))
	}
	if err != nil {
		t.Fatal(err)
	}
}

func TestARolledBackDatabaseIsFoundOut(t *testing.T) {
	ctx, home := context.Background(), t.TempDir()
	file := witness.File{Path: filepath.Join(t.TempDir(), "witness")}
	here := &witnesses.Witnesses{Home: &homes.Home{Config: homes.Config{Dir: home}}}
	o := postgres.Options{Home: home, URL: server.Schema(t, home)}
	during := func(do func(s *postgres.Store)) {
		t.Helper()
		s, err := postgres.Open(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		do(s)
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	send := func(s *postgres.Store) {
		t.Helper()
		if _, err := file.Send(ctx, s, nil); err != nil {
			t.Fatal(err)
		}
		if err := here.See(ctx, s); err != nil {
			t.Fatal(err)
		}
	}
	during(func(s *postgres.Store) {
		if _, err := tryBegin(s); err != nil {
			t.Fatal(err)
		}
		send(s)
	})
	carryOut(t, o.URL, saveTables)
	during(func(s *postgres.Store) {
		if _, err := tryBegin(s); err != nil {
			t.Fatal(err)
		}
		send(s)
	})
	carryOut(t, o.URL, putBack)
	during(func(s *postgres.Store) {
		if rep, err := s.Verify(ctx, store.VerifyOptions{}); err != nil || !rep.OK {
			t.Errorf("the older state is not sound by itself: %+v, %v", rep.Problems, err)
		}
		var d *witness.Disagreement
		if _, err := file.Send(ctx, s, nil); !errors.As(err, &d) || d.Size <= d.Ledger.Size {
			t.Errorf("%v", err)
		}
		if err := here.CheckHere(ctx, s); !errors.Is(err, fault.RolledBack) {
			t.Errorf("this machine has not noticed it: %v", err)
		}
	})
}
