package main

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/remitrun/remit/internal/record/store/postgres/postgrestest"
)

// TestDatabaseScripts runs the promises of a ledger in PostgreSQL. $DB is the URL of a
// schema of the script's own.
func TestDatabaseScripts(t *testing.T) {
	server := postgrestest.Start(t)
	testscript.Run(t, testscript.Params{
		Dir:                 filepath.Join("testdata", "db"),
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("REMIT_HOME", env.WorkDir+"/.remit-home")
			env.Setenv("DB", server.Schema(t, env.WorkDir))
			env.Setenv("OTHER", server.Schema(t, env.WorkDir+"/other"))
			env.Setenv("EMPTY", server.Schema(t, env.WorkDir+"/empty"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"status": status, "json": jsonIs, "newest": newest, "take": take, "lacks": lacks},
	})
}
