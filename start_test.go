//go:build !race

package remit_test

import (
	"bytes"
	"go/ast"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// maxInit bounds what a package of Remit may allocate when the program starts, in bytes.
const maxInit = 30_000

// maxStart bounds what all packages may allocate when the program starts. Today they
// allocate 0.8 MB, huma and the HTML parser a sixth each.
const maxStart = 950_000

// maxSize bounds the stripped program, in bytes. A dependency that doubles it is worth a
// second look: what brings most is in docs/RATIONALE.md.
const maxSize = 57_900_000

// TestStartIsCheap reads what the packages' initialization allocates, as each command
// pays for it, and looks at the program's size. What a command needs is made when it is
// needed.
func TestStartIsCheap(t *testing.T) {
	if testing.Short() {
		t.Skip("it builds the program")
	}
	bin := filepath.Join(t.TempDir(), "remit")
	if out, err := exec.Command("go", "build", "-ldflags=-s -w", "-o", bin, "./cmd/remit").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if info, err := os.Stat(bin); err != nil || info.Size() > maxSize {
		t.Errorf("the program has %d bytes (%v); the maximum is %d", info.Size(), err, maxSize)
	}
	cmd := exec.Command(bin, "version")
	cmd.Env = []string{"GODEBUG=inittrace=1", "HOME=" + t.TempDir()}
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	all, packages := 0, 0
	for _, m := range regexp.MustCompile(`(?m)^init (\S+) .* (\d+) bytes, \d+ allocs$`).FindAllStringSubmatch(trace.String(), -1) {
		n, err := strconv.Atoi(m[2])
		if err != nil {
			t.Fatal(err)
		}
		all += n
		packages++
		if strings.HasPrefix(m[1], "github.com/remitrun/") && n > maxInit {
			t.Errorf("%s allocates %d bytes when the program starts; the maximum is %d: use regex.Lazy or sync.OnceValue", m[1], n, maxInit)
		}
		if strings.HasPrefix(m[1], "github.com/santhosh-tekuri/jsonschema") {
			t.Errorf("%s is in the program, and compiles schemas at each start", m[1])
		}
	}
	if packages < 100 {
		t.Errorf("only %d packages are in the trace: the test shows little", packages)
	}
	if all > maxStart {
		t.Errorf("the packages allocate %d bytes when the program starts; the maximum is %d", all, maxStart)
	}
}

// TestLazyExpressionsCompile compiles every regular expression that the program
// compiles on first use, as a wrong one would panic only then.
func TestLazyExpressionsCompile(t *testing.T) {
	found := 0
	for _, s := range sources(t) {
		names := uses(s)
		ast.Inspect(s.file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok || names[call.Fun.Pos()] != "github.com/remitrun/remit/internal/base/regex.Lazy" {
				return true
			}
			found++
			text, ok := literal(call.Args[0])
			if !ok {
				t.Errorf("%s: the expression must be a literal, so that it can be checked here", s.fset.Position(call.Pos()))
			} else if _, err := regexp.Compile(text); err != nil {
				t.Errorf("%s: %v", s.fset.Position(call.Pos()), err)
			}
			return true
		})
	}
	if found < 40 {
		t.Errorf("only %d expressions found: the test shows little", found)
	}
}

// literal gives the value of a string literal, or of several that are added.
func literal(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, lok := literal(e.X)
		right, rok := literal(e.Y)
		return left + right, lok && rok && e.Op == token.ADD
	}
	return "", false
}
