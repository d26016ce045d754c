package e2e_test

import (
	"database/sql"
	"path/filepath"

	_ "modernc.org/sqlite" // the driver
)

// makeShop makes the database shop.db in the workspace.
func (w *world) makeShop() {
	w.t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(w.workspace, "shop.db"))
	if err != nil {
		w.t.Fatal(err)
	}
	_, err = db.Exec("CREATE TABLE users(name TEXT, password TEXT); CREATE TABLE notes(body TEXT); INSERT INTO users VALUES ('Ada', 'secret-of-ada')")
	if cerr := db.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		w.t.Fatal(err)
	}
}
