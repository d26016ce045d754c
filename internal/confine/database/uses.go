package database

import (
	"slices"
	"strings"
	"sync"

	"modernc.org/sqlite"

	"github.com/remitrun/remit/internal/base/clip"
	"github.com/remitrun/remit/internal/base/tool"
)

// uses collects what a statement uses, as SQLite's authorizer tells while it compiles.
type uses struct {
	known

	read, written, refused []tool.TableUse
}

// note is the authorizer of a statement that is not run. An unknown operation is refused.
func (u *uses) note(action sqlite.AuthorizerActionCode, a, b, db, _ string) sqlite.AuthorizerReturnCode {
	use, write, why := u.classify(action, a, b, db)
	switch {
	case why != "":
		add(&u.refused, tool.TableUse{Refused: why})
		return sqlite.AuthorizerDeny
	case use.Table == "":
	case write:
		add(&u.written, use)
	default:
		add(&u.read, use)
	}
	return sqlite.AuthorizerOK
}

func add(list *[]tool.TableUse, u tool.TableUse) {
	if !slices.Contains(*list, u) {
		*list = append(*list, u)
	}
}

// classify says which table a step of a statement reads or writes. An empty use needs
// nothing; why is not empty if no policy can allow the step.
func (u *uses) classify(action sqlite.AuthorizerActionCode, a, b, db string) (use tool.TableUse, write bool, why string) {
	switch action {
	case sqlite.AuthSelect, sqlite.AuthRecursive:
		return use, false, ""
	case sqlite.AuthFunction:
		if !functions()[strings.ToLower(b)] {
			return use, false, "the function " + clip.Text(b, 60) + " is not one that statements may call"
		}
		return use, false, ""
	case sqlite.AuthRead:
		use = tool.TableUse{Table: a, Column: b}
	case sqlite.AuthUpdate:
		use, write = tool.TableUse{Table: a, Column: b}, true
	case sqlite.AuthInsert, sqlite.AuthDelete:
		use, write = tool.TableUse{Table: a, Column: "*"}, true
	default:
		return use, false, "a statement may query and change rows, nothing else"
	}
	name := strings.ToLower(a)
	kind, found := u.tables[name]
	switch {
	case name == "json_each" || name == "json_tree":
		return tool.TableUse{}, write, "" // a function of the statement's own values
	case db == "" && !found && b == "" && action == sqlite.AuthRead && !u.modules[name] && !strings.HasPrefix(name, "pragma_") && !strings.HasPrefix(name, "sqlite_"):
		return tool.TableUse{}, false, "" // a part of the statement itself: WITH, or a query in FROM
	case db != "" && db != "main", !found, kind != "table" && kind != "view", strings.HasPrefix(name, "sqlite_"), strings.HasPrefix(name, "pragma_"):
		return use, write, "the table " + clip.Text(a, 60) + " is not an ordinary table of the database"
	}
	if u.computed[strings.ToLower(a+"."+b)] {
		use.Column = "*" // SQLite does not say which other columns it is computed from
	}
	return use, write, ""
}

// functions are those that only compute. A function that is not listed is refused.
var functions = sync.OnceValue(func() map[string]bool {
	out := map[string]bool{}
	for _, f := range strings.Fields(`
		abs avg ceil ceiling char coalesce concat concat_ws count cume_dist date datetime dense_rank exp first_value floor format
		glob group_concat hex if ifnull iif instr json json_array json_array_length json_error_position json_extract json_group_array
		json_group_object json_insert json_object json_patch json_pretty json_quote json_remove json_replace json_set json_type json_valid
		julianday lag last_value lead length like likelihood likely ln log log10 log2 lower ltrim max min mod nth_value ntile nullif
		octet_length percent_rank pi pow power printf quote random rank replace round row_number rtrim sign sqrt strftime string_agg substr
		substring subtype sum time timediff total trim trunc typeof unhex unicode unixepoch unlikely upper -> ->>`) {
		out[f] = true
	}
	return out
})
