package command

import (
	"maps"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Bash gives up the rest of a line when an expansion or an assignment fails, and goes on
// with the next line: in `: $((1/0)); D=src` it never sets D. So the assignments of a line
// are certain behind it only if nothing before them can fail in this way.

// certainty is the certain part of the shell's state.
type certainty struct {
	dir       string
	constants map[string]string
	assoc     map[string]bool
	settled   map[string]bool
	funcs     map[string]bool
}

func (s *scripter) certainty() certainty {
	return certainty{s.dir, maps.Clone(s.vars.constants), maps.Clone(s.vars.assoc), maps.Clone(s.vars.settled), maps.Clone(s.funcs)}
}

// loseSince reduces the certain state to was.
func (s *scripter) loseSince(was certainty) {
	if s.dir != was.dir {
		s.dir = ""
	}
	s.vars.constants, s.vars.assoc, s.vars.settled = maps.Clone(was.constants), maps.Clone(was.assoc), maps.Clone(was.settled)
	for name := range s.funcs {
		s.funcs[name] = was.funcs[name]
	}
}

// lines derives the statements of a whole script. joined tells of each statement whether it
// stands on the line of the one before. In the canonical print each has a line of its own, so
// the assignments of a statement that may fail are never certain behind it.
func (s *scripter) lines(list []*syntax.Stmt, joined []bool) {
	var was *certainty // before the first statement of the line that may fail
	for i, st := range list {
		if was != nil && !joined[i] {
			s.loseSince(*was)
			was = nil
		}
		before := s.certainty()
		s.stmt(st)
		if !s.vars.mayAbort(st) {
			continue
		}
		s.loseSince(before)
		if was == nil {
			was = &before
		}
	}
	if was != nil {
		s.loseSince(*was)
	}
}

// joinedLines tells of each statement of src whether it stands on the line of the one before.
func joinedLines(src string, list []*syntax.Stmt) []bool {
	joined := make([]bool, len(list))
	for i := 1; i < len(list); i++ {
		from, to := int(list[i-1].End().Offset()), int(list[i].Pos().Offset())
		joined[i] = from >= to || to > len(src) || !strings.Contains(strings.ReplaceAll(src[from:to], "\\\n", ""), "\n")
	}
	return joined
}

// mayAbort reports whether bash may give up the rest of the line within a statement.
func (v *variables) mayAbort(st *syntax.Stmt) bool {
	found := false
	syntax.Walk(st, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.FuncDecl, *syntax.CmdSubst, *syntax.ProcSubst, *syntax.Subshell:
			return false // it runs later, or in a shell of its own
		case *syntax.ArithmExp:
			found = true
		case *syntax.ParamExp:
			found = found || n.Param == nil || n.Excl || n.Index != nil || n.Slice != nil || n.Exp != nil && (n.Exp.Op == syntax.OtherParamOps || n.Exp.Op == syntax.AssignUnset || n.Exp.Op == syntax.AssignUnsetOrNull ||
				n.Exp.Op == syntax.ErrorUnset || n.Exp.Op == syntax.ErrorUnsetOrNull)
		case *syntax.Assign:
			found = found || n.Name != nil && !n.Naked && (n.Append || n.Index != nil || n.Array != nil || v.sets[n.Name.Value] != 1 || SetsItself(n.Name.Value))
		case *syntax.CallExpr:
			found = found || len(n.Args) > 0 && v.runsText(n.Args[0])
		}
		return !found
	})
	return found
}

// runsText reports whether a command may run a function or a text of the script's.
func (v *variables) runsText(w *syntax.Word) bool {
	name, plain := literal(w)
	return !plain || v.functions[name] || movers[name] && name != "cd"
}
