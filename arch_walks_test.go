//go:build !race

package remit_test

import (
	"go/ast"
	"maps"
	"slices"
	"testing"
)

// unbounded are calls that list a folder whole, or go through all that is in it by paths. The
// receiver is a package, or "" for any.
var unbounded = map[string]string{
	"WalkDir": "", "RemoveAll": "", "ReadDir": "", "Readdir": "", "Readdirnames": "", "ReadDirent": "", "Getdents": "",
	"Walk": "filepath", "Glob": "filepath", "CopyFS": "os",
}

// mayWalk says for each function that calls one of unbounded why nobody can make it too much.
var mayWalk = map[string]string{
	"confine/changeset.Recover":                    "only Remit writes to this folder of $REMIT_HOME",
	"confine/changeset.Runs":                       "only Remit writes to this folder of $REMIT_HOME",
	"confine/changeset.Untouched":                  "it reads one name",
	"confine/changeset.clearLeft":                  "only Remit writes to this folder of $REMIT_HOME",
	"confine/changeset.listLogs":                   "only Remit writes to this folder of $REMIT_HOME",
	"confine/changeset.surveyCopies":               "only Remit writes to this folder of $REMIT_HOME",
	"confine/changeset.surveyLogs":                 "only Remit writes to this folder of $REMIT_HOME",
	"confine/image/imagetest.find":                 "programs of the machine that runs the test",
	"confine/remote/worker.openCache":              "only the worker writes to its cache, and each name is a digest that a node sent",
	"confine/repository.list":                      "1000 names at most",
	"confine/sandbox/linux.NewFolder":              "the folder was just made",
	"confine/sandbox/linux.filteredCalls":          "threads of this process",
	"confine/sandbox/linux.newScratch":             "the folder was just made",
	"confine/sandbox/linux.onlySamples":            "it reads a thousand names at most",
	"confine/sandbox/linux.processesOf":            "processes of the machine",
	"confine/sandbox/linux.removeStale":            "the machine's folder for temporary files, which commands do not share",
	"confine/sandbox/linux.sweepGroups":            "control groups, which commands cannot make",
	"confine/sandbox/seatbelt":                     "open files of this process",
	"confine/sandbox/seatbelt.newScratch":          "the folder was just made",
	"confine/sandbox/spawn.walk":                   "processes of the machine",
	"record/store/postgres/postgrestest.NewOnDisk": "a database for tests",
	"record/store/postgres/postgrestest.find":      "a database for tests",
	"record/store/postgres/postgrestest.startWith": "a database for tests",
	"record/store/owners.All":                      "only Remit writes to this folder of $REMIT_HOME",
	"record/store/postgres/postgrestest.stop":      "a database for tests",
	"service/agents.readCapabilities":              "a person fills this folder of $REMIT_HOME",
	"service/backups.Check":                        "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.Write":                        "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.checkEmpty":                   "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.finish":                       "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.mark":                         "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.protect":                      "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.restore":                      "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.stage":                        "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.syncFolders":                  "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/backups.takeKeys":                     "$REMIT_HOME, whose held layers a backup leaves out, or what a verified backup has",
	"service/extensions.mendExtensions":            "only Remit writes to this folder of $REMIT_HOME",
	"service/home.RemoveUnused":                    "only Remit writes to this folder of $REMIT_HOME",
	"service/home.settingsFiles":                   "a person fills this folder of $REMIT_HOME",
	"confine/sandbox/linux.skeletonOf":             "the names in the root folder, which are the administrator's",
	"service/images.sweep":                         "only Remit writes to this folder of $REMIT_HOME",
	"service/notify.List":                          "only Remit writes to this folder of $REMIT_HOME",
	"service/notify.add":                           "only Remit writes to this folder of $REMIT_HOME",
	"service/servers.keepBundle":                   "only Remit writes to this folder of $REMIT_HOME",
	"service/servers.moveFiles":                    "only Remit writes to this folder of $REMIT_HOME",
	"service/servers.sumFiles":                     "Remit copied the files there, 200,000 at most",
	"service/skeleton.write":                       "files that are compiled in, and a folder that was just made",
	"service/slash.sweep":                          "only Remit writes to this folder of $REMIT_HOME",
	"tools/builtin/fs.runDelete":                   "package files has the bound",
	"tools/builtin/fs.runList":                     "package files has the bound",
	"tools/builtin/fs.suggest":                     "package files has the bound",
	"tools/executor/wasm.list":                     "package files has the bound",
}

// TestWalksAreBounded: what a command, an agent or a server can write to is looked through,
// and removed, by package walk, whose memory and open files have bounds. It follows no link
// and ends with its context.
func TestWalksAreBounded(t *testing.T) {
	found := map[string]bool{}
	for _, s := range sources(t) {
		if within(s.pkg, "base/walk") {
			continue
		}
		for _, d := range s.file.Decls {
			name := s.pkg
			if f, ok := d.(*ast.FuncDecl); ok {
				name += "." + f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok || !walksWhole(call) {
					return true
				}
				if found[name] = true; mayWalk[name] == "" {
					t.Errorf("%s: %s lists or removes a whole folder; use package walk, or say in mayWalk why its content has a bound", s.fset.Position(call.Pos()), name)
				}
				return true
			})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(mayWalk)) {
		if !found[name] {
			t.Errorf("mayWalk has %s, which walks nothing", name)
		}
	}
}

func walksWhole(call *ast.CallExpr) bool {
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	pkg, known := unbounded[sel.Sel.Name]
	in, _ := sel.X.(*ast.Ident)
	return known && (pkg == "" || in != nil && in.Name == pkg)
}
