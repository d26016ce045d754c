package cli

import (
	"context"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/remitrun/remit/internal/record/store/postgres"
	"github.com/remitrun/remit/internal/service/database"
	"github.com/remitrun/remit/internal/service/home"
)

// dbHelp is the help of remit db.
const dbHelp = `The ledger is a SQLite file in $REMIT_HOME unless --db, REMIT_DB or
ledger.database in config.yaml names a PostgreSQL database, as
postgres://user@host/name. The database keeps the same events, and the keys
stay in $REMIT_HOME/keys. Put a password into ~/.pgpass or PGPASSFILE, not into
the URL, which other users may see.

Databases of which agents may use tables are another thing: a policy names them,
and the tools db.query, db.execute and db.schema use them.
`

func (s *session) dbCmd() *cobra.Command {
	c := &cobra.Command{
		Use:   "db",
		Short: "Keep the ledger in a PostgreSQL database",
		Long:  dbHelp,
		Example: `  remit db migrate --db postgres://remit@localhost/remit
  remit db copy --db postgres://remit@localhost/remit
  REMIT_DB=postgres://remit@localhost/remit remit verify`,
	}
	var url string
	c.PersistentFlags().StringVar(&url, "db", "", "`URL` of the database (default: REMIT_DB, then config.yaml)")
	use := func(cmd *cobra.Command, _ []string) error {
		s.useDatabase(url)
		return nil
	}
	migrate := &cobra.Command{
		Use:   "migrate",
		Short: "Make or update the tables, and begin a ledger if there is none",
		Long: `Makes the tables, or brings those of an older Remit up to date. There is no way
back from an update: the older Remit cannot use the tables any more. Make a
backup with the older Remit before (remit backup). It restores into an empty
database.
`,
		Args:    cobra.NoArgs,
		PreRunE: use,
		RunE: s.withDatabase(func(ctx context.Context, h *home.Home) (postgres.Status, error) {
			s.warnOfUpdate(ctx, h)
			return database.Migrate(ctx, h)
		}),
	}
	status := &cobra.Command{
		Use:     "status",
		Short:   "Show the database's tables, ledger and nodes",
		Args:    cobra.NoArgs,
		PreRunE: use,
		RunE:    s.withDatabase(database.Status),
	}
	accept := &cobra.Command{
		Use:   "accept",
		Short: "Accept a server that took the place of another one",
		Long: `Remit writes nothing to a server that took another one's place without having
been a synchronous standby: acknowledged events may be missing. Check first,
with a checkpoint that was kept elsewhere: remit verify --checkpoint FILE.
Then this command accepts the server as it is. Start the nodes again.
`,
		Args:    cobra.NoArgs,
		PreRunE: use,
		RunE:    s.withDatabase(database.Accept),
	}
	c.AddCommand(migrate, status, s.dbCopyCmd(use), accept, s.dbNodesCmd(use), s.dbTenantCmd(use))
	return c
}

// dbCopyCmd is remit db copy; use pins the database that --db names.
func (s *session) dbCopyCmd(use func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:   "copy",
		Short: "Move this machine's ledger into the database",
		Long: `Copies the ledger from the SQLite file into a database that has none: the same
events, with the same hashes and checkpoints. The copy is verified against a
checkpoint of the original. Then the file gets another name, so that the ledger
cannot go on in two places. Stop every other Remit process of this $REMIT_HOME
first, and set ledger.database in config.yaml from then on.
`,
		Args:    cobra.NoArgs,
		PreRunE: use,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			m, err := database.Copy(cmd.Context(), a.Home)
			if err != nil {
				return err
			}
			if s.json {
				return s.printJSON(m)
			}
			s.printf("%s %d events copied and verified, root %s\n", s.paint(green, "✓"), m.Report.Size, m.Report.Root)
			s.printf("  the old file is now %s\n", show(m.Aside))
			s.printf("  set ledger.database in config.yaml from now on\n")
			return nil
		},
	}
}

// dbTenantCmd is remit db tenant; use pins the database that --db names.
func (s *session) dbTenantCmd(use func(*cobra.Command, []string) error) *cobra.Command {
	return &cobra.Command{
		Use:   "tenant NAME",
		Short: "Make a database, a role and a ledger for a team of its own",
		Long: `Makes on the server of --db the role remit_NAME and the database remit_NAME, to
which only that role may connect, and in it a ledger whose keys are in this
$REMIT_HOME, which must be new. The role's password is made here, is not sent to
the server, and is in $REMIT_HOME/keys/database.pass.

--db names a role that may make roles and databases. It is needed this once.
`,
		Example: `  REMIT_HOME=/srv/blue remit db tenant blue \
    --db postgres://admin@db.example/postgres`,
		Args:    cobra.ExactArgs(1),
		PreRunE: use,
		RunE: func(cmd *cobra.Command, args []string) error {
			a, err := s.openAnyway()
			if err != nil {
				return err
			}
			t, st, err := database.Tenant(cmd.Context(), a.Home, args[0])
			if err != nil {
				return err
			}
			return s.printTenant(t, st)
		},
	}
}

func (s *session) printTenant(t postgres.Tenant, st postgres.Status) error {
	if s.json {
		return s.printJSON(struct {
			postgres.Tenant
			Ledger string `json:"ledger"`
		}{t, st.Ledger})
	}
	s.printf("%s the database %s belongs to the role %s alone\n", s.paint(green, "✓"), t.Database, t.Role)
	s.printf("  ledger  %s\n  set in config.yaml of its $REMIT_HOME:\n\nledger:\n  database: %s\n", show(st.Ledger), show(t.URL))
	if t.Trusted {
		s.errorf("\n! the server lets %s in without its password; change pg_hba.conf to\n  scram-sha-256, or every client of the server can be any tenant\n", t.Role)
	}
	for _, name := range t.Open {
		s.errorf("\n! every role may connect to the database %s, where tenants could meet:\n  REVOKE CONNECT ON DATABASE %s FROM PUBLIC\n", show(name), show(name))
	}
	return nil
}

// withDatabase carries out a command that ends with the state of the database.
func (s *session) withDatabase(do func(context.Context, *home.Home) (postgres.Status, error)) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, _ []string) error {
		a, err := s.openAnyway()
		if err != nil {
			return err
		}
		st, err := do(cmd.Context(), a.Home)
		if err != nil {
			return err
		}
		return s.printDatabase(st)
	}
}

// warnOfUpdate says that the tables of an older Remit are about to be updated, which cannot be undone.
func (s *session) warnOfUpdate(ctx context.Context, h *home.Home) {
	if h.Database == "" {
		return
	}
	if st, err := database.Status(ctx, h); err == nil { // the command that updates them reports the fault
		s.errorf("%s", updateWarning(st))
	}
}

// updateWarning returns the warning before an update of the tables; "": no update is due.
func updateWarning(st postgres.Status) string {
	if st.Version == 0 || st.Version >= st.Latest {
		return ""
	}
	return fmt.Sprintf("! the tables in %s are updated from version %d to %d; an older Remit cannot use them then\n  the way back is a backup that the older Remit made before: docs/operations.md\n", show(st.Database), st.Version, st.Latest)
}

// useDatabase pins $REMIT_DB.
func (s *session) useDatabase(url string) {
	if url != "" {
		s.environ = append(s.environ[:len(s.environ):len(s.environ)], "REMIT_DB="+url)
	}
}

func (s *session) printDatabase(st postgres.Status) error {
	if s.json {
		return s.printJSON(st)
	}
	s.printf("database  %s\n", show(st.Database))
	s.printf("tables    version %d of %d\n", st.Version, st.Latest)
	if st.Ledger == "" {
		s.printf("ledger    none\n")
		return nil
	}
	s.printf("ledger    %s\n", show(st.Ledger))
	s.printf("events    %d\n", st.Events)
	s.printf("nodes     %d\n", st.Nodes)
	s.printf("payloads  in %d tables\n", st.Parts)
	if st.Unmoved > 0 {
		s.printf("          %s to go through, whose payloads are beside them; remit db migrate moves them\n", counted(int(st.Unmoved), "event"))
	}
	return nil
}
