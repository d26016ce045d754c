//go:build !race

package remit_test

import (
	"go/ast"
	"go/token"
	"path"
	"regexp"
	"strconv"
	"testing"
)

// Trees of packages that a rule is for.
var (
	// Packages that act on an agent's behalf reach the world only through the
	// handles of a permit.
	guarded = []string{"tools/builtin", "tools/executor", "tools/source", "agents/capability", "tools/model"}
	// Pure packages give the same for the same, always and everywhere.
	pure = []string{"base/fault", "base/commitment", "base/tool", "base/near", "base/canon", "base/document", "authority", "record/ledger", "call/plan", "record/report", "base/redact", "tools/extension", "agents/chat"}
)

// suites are contract suites, which only tests import.
var suites = []string{"record/store/storetest", "tools/model/modeltest", "agents/capability/capabilitytest", "authority/permit/permittest", "record/store/postgres/postgrestest"}

// rule forbids names of other packages in some trees.
type rule struct {
	trees []string // where it holds; nil: everywhere
	but   []string // where it does not
	names string   // a regular expression over "import/path.Name", whole
	why   string
}

var rules = []rule{
	{guarded, suites, `os\.(Open.*|Create.*|ReadFile|WriteFile|ReadDir|DirFS|CopyFS|Remove.*|Mkdir.*|Rename|Link|Symlink|Readlink|Truncate|Ch(mod|own|dir|times|root)|Lchown|Stat|Lstat|Pipe|StartProcess|FindProcess|NewFile|Root)`,
		"files are opened by confine/files under a permit"},
	{guarded, suites, `os\.(Getenv|LookupEnv|Environ|Setenv|Unsetenv|ExpandEnv|Getwd|UserHomeDir|Hostname|Exit)`, "the environment comes in with the permit"},
	{guarded, suites, `os/exec\..*|plugin\..*`, "processes are started by sandbox under a permit"},
	{guarded, suites, `net\.(Dial.*|Listen.*|Lookup.*|FileConn|FileListener|Resolver|DefaultResolver|Dialer|ListenConfig)`, "connections are opened by confine/network under a permit"},
	{guarded, suites, `net/http\.(Get|Head|Post|PostForm|DefaultClient|DefaultTransport|Transport|ListenAndServe.*|Serve.*|FileServer.*|FS|Dir|NewFileTransport.*|ProxyFromEnvironment)`,
		"use the transport of the permit's network handle"},
	{guarded, suites, `crypto/tls\.(Dial.*|Listen.*|Dialer)`, "connections are opened by confine/network under a permit"},
	{guarded, suites, `(syscall|golang\.org/x/sys/unix)\.(Open.*|Creat|Exec|ForkExec|StartProcess|Socket|Connect|Bind|Listen|Unlink.*|Rename.*|Mkdir.*|Rmdir|Link.*|Symlink.*|Mount|Chroot|RawSyscall.*|Syscall.*)`,
		"the kernel is asked by sandbox under a permit"},
	{guarded, suites, `path/filepath\.(Walk|WalkDir|Glob|EvalSymlinks|Abs)`, "files are looked at by confine/files under a permit"},
	{pure, suites, `time\.(Now|Since|Until|Sleep|After|AfterFunc|Tick|NewTicker|NewTimer)`, "a pure package is told the time"},
	{pure, suites, `os\..*|net\.(Dial|Listen|Lookup|Resolve|Interface).*`, "a pure package does not touch the world"},
	{pure, suites, `github\.com/google/uuid\.(New.*|Must|SetRand.*|EnableRandPool|NodeInterface)`, "a pure package is told its IDs"},
	{pure, suites, `crypto/rand\..*|math/rand(/v2)?\..*`, "a pure package has no chance in it"},
	{pure, suites, `path/filepath\.(Walk|WalkDir|Glob|EvalSymlinks|Abs)`, "a pure package does not look at files"},
	// permittest tests tools without a runner; only tests import it.
	{nil, []string{"call/runner", "authority/permit/permittest"}, `github\.com/remitrun/remit/internal/authority/permit\.Mint`, "only the runner mints permits"},
	{nil, []string{"confine/remote/worker"}, `github\.com/remitrun/remit/internal/authority/permit\.Redeem`, "only the worker's runner redeems permit tokens"},
	{nil, []string{"confine/remote"}, `github\.com/remitrun/remit/internal/authority/permit\.(SignWork|Verify)`, "permit tokens are signed by the node's half and verified by the worker's"},
	{nil, []string{"service/history"}, `github\.com/remitrun/remit/internal/base/redact\.None`, "logs and reports are redacted"},
	{nil, []string{"confine/sandbox", "app", "record/store/postgres/postgrestest"}, `os/exec\.(Command|CommandContext)`, "processes are started by sandbox"},
	{nil, []string{"confine/sandbox", "cmd/remit", "cmd/remit-hook", "cli", "examples"}, `os\.Exit`, "an error goes up to main"},
	{nil, []string{".", "app", "cli", "cmd/remit", "cmd/remit-hook", "confine/sandbox/spawn", "tools/model/modeltest", "record/store/postgres/postgrestest", "base/racetest", "base/walk/walktest"}, `os\.(Getenv|LookupEnv|Environ|ExpandEnv|Setenv|Unsetenv)`, "below app nothing reads the environment"},
	{nil, nil, `net/http\.(DefaultClient|DefaultTransport|Get|Head|Post|PostForm|HandleFunc|DefaultServeMux)`, "no part shares a global client or mux"},
	{nil, []string{"record/report", "base/markdown"}, `html/template\.(HTML|HTMLAttr|JS|JSStr|Srcset|URL|CSS)`, "text becomes markup through the escaping of html/template alone"},
	{nil, nil, `log\.(Print|Fatal|Panic).*`, "log with log/slog"},
}

// uses gives each use of another package's name in the file, called or not.
func uses(s source) map[token.Pos]string {
	imports := map[string]string{}
	for _, spec := range s.file.Imports {
		imp, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue
		}
		name := localName(imp)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		imports[name] = imp
	}
	out := map[token.Pos]string{}
	ast.Inspect(s.file, func(n ast.Node) bool {
		if sel, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := sel.X.(*ast.Ident); ok && imports[x.Name] != "" {
				out[sel.Pos()] = imports[x.Name] + "." + sel.Sel.Name
			}
		}
		return true
	})
	return out
}

var major = regexp.MustCompile(`^v\d+$`)

// localName is what a file calls an import that it does not rename.
func localName(imp string) string {
	base := path.Base(imp)
	if major.MatchString(base) {
		return path.Base(path.Dir(imp))
	}
	return base
}

func TestForbiddenNames(t *testing.T) {
	compiled := make([]*regexp.Regexp, len(rules))
	for i, r := range rules {
		compiled[i] = regexp.MustCompile(`^(?:` + r.names + `)$`)
	}
	for _, s := range sources(t) {
		for pos, name := range uses(s) {
			for i, r := range rules {
				if (r.trees == nil || within(s.pkg, r.trees...)) && !within(s.pkg, r.but...) && compiled[i].MatchString(name) {
					t.Errorf("%s: %s in package %s: %s", s.fset.Position(pos), name, s.pkg, r.why)
				}
			}
		}
	}
}

func TestPurePackagesStartNothing(t *testing.T) {
	for _, s := range sources(t) {
		if !within(s.pkg, pure...) || within(s.pkg, suites...) {
			continue
		}
		ast.Inspect(s.file, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.GoStmt, *ast.SelectStmt, *ast.SendStmt:
				t.Errorf("%s: a goroutine or channel in the pure package %s", s.fset.Position(n.Pos()), s.pkg)
			}
			return true
		})
	}
}

// TestNoHiddenWiring holds that nothing happens because a package is imported,
// and that no package keeps a state of its own.
func TestNoHiddenWiring(t *testing.T) {
	const spawner = "confine/sandbox/spawn" // a started process finds out there that it is to become the confined one
	locks := regexp.MustCompile(`^sync\.(Once|Mutex|RWMutex|Map|WaitGroup)$|^sync/atomic\..*`)
	for _, s := range sources(t) {
		names := uses(s)
		for _, d := range s.file.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Name.Name == "init" && s.pkg != spawner {
					t.Errorf("%s: package %s has an init function", s.fset.Position(d.Pos()), s.pkg)
				}
			case *ast.GenDecl:
				if d.Tok != token.VAR || s.pkg == spawner {
					continue
				}
				ast.Inspect(d, func(n ast.Node) bool {
					if _, ok := n.(*ast.FuncLit); ok {
						return false
					}
					if n != nil && locks.MatchString(names[n.Pos()]) {
						t.Errorf("%s: package %s keeps a %s for the whole program", s.fset.Position(n.Pos()), s.pkg, names[n.Pos()])
						return false
					}
					return true
				})
			}
		}
	}
}

// TestTheRulesCatch shows that the rules would see what they are for.
func TestTheRulesCatch(t *testing.T) {
	tests := map[string]struct {
		pkg, name string
		want      bool
	}{
		"open in a built-in":          {"tools/builtin/fs", "os.Open", true},
		"open root in a built-in":     {"tools/builtin/fs", "os.OpenRoot", true},
		"dial in a model":             {"tools/model/anthropic", "net.DialTimeout", true},
		"process in an executor":      {"tools/executor/exec", "os/exec.CommandContext", true},
		"default client":              {"tools/source/openapi", "net/http.DefaultClient", true},
		"types of http in a built-in": {"tools/builtin/http", "net/http.NewRequest", false},
		"open in the handle package":  {"confine/files", "os.OpenRoot", false},
		"clock in policy":             {"authority/policy/glob", "time.Now", true},
		"duration in policy":          {"authority/policy", "time.Second", false},
		"mint in app":                 {"app", "github.com/remitrun/remit/internal/authority/permit.Mint", true},
		"redeem in the runner":        {"call/runner", "github.com/remitrun/remit/internal/authority/permit.Redeem", true},
		"redeem in a worker":          {"confine/remote/worker", "github.com/remitrun/remit/internal/authority/permit.Redeem", false},
		"mint in the runner":          {"call/runner", "github.com/remitrun/remit/internal/authority/permit.Mint", false},
		"environment in the store":    {"record/store/sqlite", "os.Getenv", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := false
			for _, r := range rules {
				if (r.trees == nil || within(tt.pkg, r.trees...)) && !within(tt.pkg, r.but...) && regexp.MustCompile(`^(?:`+r.names+`)$`).MatchString(tt.name) {
					got = true
				}
			}
			if got != tt.want {
				t.Errorf("%s in %s: caught %v, want %v", tt.name, tt.pkg, got, tt.want)
			}
		})
	}
}
