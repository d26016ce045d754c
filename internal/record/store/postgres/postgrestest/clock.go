package postgrestest

import (
	"fmt"
	"net/url"
	"testing"
	"time"
)

// Clock gives the server another clock for the connections of a URL of Schema. move sets how
// far that clock is from the machine's.
func (s *Server) Clock(t testing.TB, of string) (moved string, move func(by time.Duration)) {
	t.Helper()
	u, err := url.Parse(of)
	if err != nil {
		t.Fatal(err)
	}
	schema := u.Query().Get("search_path")
	clock := "clock_" + schema
	s.Exec(t, "public", fmt.Sprintf(`CREATE SCHEMA %[1]s; CREATE TABLE %[1]s.moved AS SELECT interval '0' AS by;
CREATE FUNCTION %[1]s.clock_timestamp() RETURNS timestamptz LANGUAGE sql VOLATILE AS 'SELECT pg_catalog.clock_timestamp() + by FROM %[1]s.moved'`, clock))
	return s.URL(schema + "," + clock + ",pg_catalog"), func(by time.Duration) {
		t.Helper()
		s.Exec(t, "public", fmt.Sprintf("UPDATE %s.moved SET by = interval '%d microseconds'", clock, by.Microseconds()))
	}
}
