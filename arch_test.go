// Package remit_test holds the house rules as tests: which package may import
// what, and which calls are made where.
package remit_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/remitrun/remit/"

// mayImport says for each package, by its path below internal/, what it may
// import: packages of the house by that same path, other modules by their
// import path's beginning, and of the standard library those in guardedStd; the
// rest of the standard library is free. A new package needs a line: its review
// is the review of what the package may reach. Tests are not bound by it.
//
// Arrows point one way: cmd, cli, app, engine, core, words. Adapters import
// core and words, the sandbox they share, and the contract that they fulfil.
var mayImport = map[string]string{
	// words
	"fault":            "",
	"tool":             "fault",
	"near":             "",
	"canon":            "fault",
	"service/settings": "base/document fault model policy/target tool",
	// base: used by all
	"base/document": "canon fault near go.yaml.in/yaml/v4",
	// core: pure
	"policy":         "fault near tool canon policy/command policy/glob policy/target go.yaml.in/yaml/v4 github.com/santhosh-tekuri/jsonschema",
	"policy/cases":   "base/document fault tool policy policy/target",
	"policy/compare": "policy policy/target tool",
	"policy/learn":   "fault tool policy policy/command policy/glob policy/target",
	"policy/glob":    "golang.org/x/text",
	"policy/target":  "fault tool policy/glob code.dny.dev/ssrf golang.org/x/net/idna",
	"policy/command": "fault tool policy/glob mvdan.cc/sh/v3/syntax",
	"grant":          "fault policy policy/glob tool github.com/google/uuid",
	"grant/token":    "fault grant policy policy/glob tool github.com/fxamacker/cbor/v2 github.com/google/uuid",
	"permit":         "fault policy tool",
	"ledger":         "canon fault policy tool github.com/fxamacker/cbor/v2 github.com/google/uuid golang.org/x/mod/sumdb",
	"plan":           "base/document canon fault near tool",
	"frozen":         "canon fault plan tool golang.org/x/mod/sumdb",
	"redact":         "",
	"report":         "fault ledger policy redact tool github.com/google/uuid golang.org/x/text/width",
	"infer":          "tool",
	"extension":      "base/document canon fault policy policy/glob tool",
	"inspect":        "golang.org/x/text",
	// contracts
	"store":      "fault grant ledger tool github.com/google/uuid",
	"conform":    "canon capability fault grant inspect ledger permit model policy runner store tool github.com/google/uuid github.com/google/go-cmp github.com/santhosh-tekuri/jsonschema net/http os crypto/rand",
	"model":      "canon fault net/http",
	"capability": "canon fault near permit tool github.com/google/uuid github.com/santhosh-tekuri/jsonschema golang.org/x/text",
	// engine
	"agent":     "canon capability fault grant ledger model near permit policy runner store tool github.com/google/uuid crypto/rand",
	"runner":    "canon fault frozen grant ledger permit plan policy tool github.com/google/uuid",
	"authority": "fault grant grant/token ledger policy store github.com/google/uuid",
	"budget":    "fault grant ledger runner store tool github.com/google/uuid",
	"approval":  "canon fault redact runner store tool github.com/google/uuid",
	"schedule":  "canon fault ledger plan policy runner tool",
	"replay":    "canon fault frozen grant ledger permit plan policy runner schedule store tool github.com/google/uuid",
	"catalog":   "canon fault infer inspect near runner tool github.com/rogpeppe/go-internal/diff github.com/santhosh-tekuri/jsonschema golang.org/x/text",
	// adapters
	"eventlog":          "redact github.com/DeRuina/timberjack os",
	"wholefile":         "golang.org/x/sys os syscall",
	"store/sqlite":      "wholefile fault grant ledger store tool policy github.com/google/uuid github.com/klauspost/compress golang.org/x/mod/sumdb golang.org/x/sync golang.org/x/sys github.com/pressly/goose modernc.org/sqlite os syscall crypto/rand",
	"sandbox":           "fault near permit policy tool sandbox/spawn golang.org/x/net/bpf golang.org/x/sys github.com/landlock-lsm/go-landlock os os/exec net syscall unsafe crypto/rand",
	"sandbox/spawn":     "fault golang.org/x/sys github.com/landlock-lsm/go-landlock os os/exec os/signal syscall unsafe",
	"sandbox/files":     "fault permit policy tool golang.org/x/sys os syscall crypto/rand",
	"sandbox/network":   "fault permit policy policy/target tool code.dny.dev/ssrf golang.org/x/net net net/http syscall",
	"sandbox/egress":    "fault permit policy policy/target tool sandbox/network golang.org/x/net/http/httpguts net net/http syscall crypto/rand",
	"secret":            "wholefile fault filippo.io/age github.com/zalando/go-keyring golang.org/x/sys os",
	"changeset":         "wholefile fault github.com/rogpeppe/go-internal/diff golang.org/x/sys os crypto/rand",
	"builtin/fs":        "fault near permit tool sandbox/files github.com/bmatcuk/doublestar/v4",
	"builtin/http":      "fault permit policy/target tool sandbox/network golang.org/x/net/http/httpguts github.com/santhosh-tekuri/jsonschema net/http",
	"builtin/shell":     "fault permit policy policy/command tool sandbox sandbox/files",
	"builtin/clock":     "fault permit tool",
	"builtin/analyze":   "canon fault permit tool",
	"builtin/random":    "fault permit tool crypto/rand",
	"model/anthropic":   "fault model github.com/anthropics/anthropic-sdk-go net/http",
	"model/openai":      "fault model github.com/openai/openai-go/v3 net/http",
	"model/scripted":    "canon fault model go.yaml.in/yaml/v4",
	"builtin/modelchat": "canon fault model permit sandbox/files sandbox/network tool net/http",
	"source/openapi":    "fault infer permit policy/target sandbox/network tool go.yaml.in/yaml/v4 net/http",
	"source/extension":  "canon extension fault infer permit policy policy/command policy/target sandbox tool",
	"executor/wasm":     "base/document canon fault infer permit policy sandbox/files tool github.com/tetratelabs/wazero github.com/santhosh-tekuri/jsonschema crypto/rand",
	"source/wasm":       "executor/wasm",
	"source/mcp":        "canon fault infer permit policy policy/target tool github.com/modelcontextprotocol/go-sdk golang.org/x/oauth2 net/http",
	// capabilities
	"capability/noop":         "capability",
	"capability/currenttime":  "capability fault near permit tool",
	"capability/testmath":     "capability fault permit tool",
	"capability/testweather":  "capability fault permit tool",
	"capability/todolist":     "capability fault permit tool",
	"capability/sessionfiles": "capability fault permit tool github.com/bmatcuk/doublestar/v4",
	"telemetry":               "net/http crypto/rand",
	"capability/subagents":    "capability fault permit tool",
	"capability/workspace":    "capability fault tool",
	"capability/mcptools":     "capability fault tool",
	"capability/research":     "capability fault permit tool",
	"capability/codebox":      "capability fault permit sandbox tool",
	"capability/custom":       "base/document canon capability fault tool",
	"capability/webfetch":     "capability fault inspect permit policy/target sandbox/network tool net/http golang.org/x/net/html github.com/JohannesKaufmann/html-to-markdown/v2",
	// wiring and surfaces
	"httpapi":   "admission agent hostcheck canon capability fault model telemetry github.com/danielgtaylor/huma/v2 github.com/google/uuid crypto/rand net net/http",
	"chat":      "canon extension fault near tool",
	"hostcheck": "net net/http",
	"admission": "net",
	"gateway":   "admission approval hostcheck canon fault policy runner store tool github.com/modelcontextprotocol/go-sdk crypto/rand net net/http",
	"signin":    "fault net net/http",
	"app": "infer signin service/settings wholefile capability capability/codebox capability/currenttime capability/custom capability/mcptools capability/noop capability/research capability/sessionfiles capability/subagents capability/testmath capability/testweather capability/todolist capability/webfetch capability/workspace httpapi telemetry agent model model/anthropic model/openai model/scripted chat extension source/extension builtin/analyze builtin/modelchat executor/wasm gateway source/mcp source/openapi source/wasm approval authority budget builtin/clock builtin/fs builtin/http builtin/random builtin/shell canon capability catalog changeset eventlog fault frozen grant inspect grant/token ledger near permit plan policy policy/cases policy/compare policy/glob policy/learn policy/target redact " +
		"replay report runner sandbox secret sandbox/egress sandbox/files sandbox/network schedule store store/sqlite tool " +
		"github.com/google/uuid go.yaml.in/yaml/v4 net os os/exec os/user syscall crypto/rand",
	"cli": "wholefile agent capability extension chat app catalog executor/wasm inspect approval canon changeset fault frozen grant grant/token ledger near plan policy policy/cases policy/compare redact report runner sandbox secret source/openapi store tool github.com/google/uuid github.com/spf13/cobra " +
		"charm.land github.com/mattn github.com/charmbracelet golang.org/x/sys golang.org/x/term golang.org/x/text os os/signal syscall",
	"cmd/remit": "app cli fault sandbox/spawn os os/signal syscall",
	// the public face
	".": "agent app approval canon capability fault frozen grant permit policy report runner sandbox/spawn store tool github.com/google/uuid os",
	// what examples need to run
	"examples/demo/server": "net net/http os os/signal",
}

// guardedStd are the parts of the standard library through which the world is
// reached, or chance comes in.
var guardedStd = []string{"C", "crypto/rand", "io/ioutil", "log", "math/rand", "math/rand/v2", "net", "net/http", "net/rpc", "net/smtp",
	"net/textproto", "os", "os/exec", "os/signal", "os/user", "plugin", "syscall", "unsafe"}

// source is one Go file of the module that is no test.
type source struct {
	pkg  string // as mayImport names it
	name string
	file *ast.File
	fset *token.FileSet
}

// sources parses every Go file but tests, for all platforms.
func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name != "." && (ownModule(name) || strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata" || name == "bin") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(fset, name, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(path.Dir(filepath.ToSlash(name)), "internal/")
		out = append(out, source{pkg, name, f, fset})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 20 {
		t.Fatalf("only %d files found: the test shows nothing", len(out))
	}
	return out
}

// ownModule reports whether a folder is a module of its own.
func ownModule(dir string) bool {
	m, err := filepath.Glob(filepath.Join(dir, "go.mod"))
	return err == nil && len(m) > 0
}

func TestArrows(t *testing.T) {
	for _, s := range sources(t) {
		line, ok := mayImport[s.pkg]
		if !ok {
			t.Errorf("%s: package %s has no line in mayImport", s.name, s.pkg)
			continue
		}
		allowed := strings.Fields(line)
		for _, spec := range s.file.Imports {
			imp, err := strconv.Unquote(spec.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			if !importAllowed(imp, allowed) {
				t.Errorf("%s: %s may not import %s", s.fset.Position(spec.Pos()), s.pkg, imp)
			}
			if spec.Name != nil && spec.Name.Name == "." {
				t.Errorf("%s: a dot import hides where names come from", s.fset.Position(spec.Pos()))
			}
		}
	}
}

func importAllowed(imp string, allowed []string) bool {
	if own, ok := strings.CutPrefix(imp, module); ok {
		return slices.Contains(allowed, strings.TrimPrefix(own, "internal/"))
	}
	if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
		return !slices.Contains(guardedStd, imp) || slices.Contains(allowed, imp)
	}
	return slices.ContainsFunc(allowed, func(a string) bool { return imp == a || strings.HasPrefix(imp, a+"/") })
}

// TestTheTableIsOneWay keeps mistakes out of the table itself: no package may
// import, however far round, one that may import it.
func TestTheTableIsOneWay(t *testing.T) {
	const walking, done = 1, 2
	state := map[string]int{}
	var walk func(pkg string, way []string)
	walk = func(pkg string, way []string) {
		way = append(way, pkg)
		if state[pkg] == walking {
			t.Errorf("a circle: %s", strings.Join(way, " -> "))
			return
		}
		if state[pkg] == done {
			return
		}
		state[pkg] = walking
		for _, next := range strings.Fields(mayImport[pkg]) {
			if _, own := mayImport[next]; own {
				walk(next, way)
			}
		}
		state[pkg] = done
	}
	for pkg := range mayImport {
		walk(pkg, nil)
	}
}

func TestAdaptersDoNotSeeTheirUsers(t *testing.T) {
	for pkg, line := range mayImport {
		if !within(pkg, "builtin", "executor", "source", "capability", "model", "sandbox", "store", "eventlog") {
			continue
		}
		for _, imp := range strings.Fields(line) {
			if within(imp, "runner", "schedule", "replay", "catalog", "app", "cli", "gateway", "httpapi", "webui") {
				t.Errorf("the adapter %s may import %s: the arrow points the wrong way", pkg, imp)
			}
		}
	}
}

// within reports whether pkg is one of the trees.
func within(pkg string, trees ...string) bool {
	return slices.ContainsFunc(trees, func(tree string) bool { return pkg == tree || strings.HasPrefix(pkg, tree+"/") })
}
