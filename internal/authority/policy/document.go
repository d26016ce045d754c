package policy

import (
	"time"

	"github.com/remitrun/remit/internal/authority/policy/command"
	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/authority/policy/target"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// sectionID numbers the sections that hold lists. The zero one is none.
type sectionID uint8

const (
	noSection sectionID = iota
	readSection
	writeSection
	networkSection
	commandSection
	toolSection
	modelSection
	apiSection
	numSections
)

var sectionNames = [numSections]string{"none", "files.read", "files.write", "network", "commands", "tools", "models", "api"}

func (s sectionID) String() string { return sectionNames[s] }

// sectionOf says which section decides a kind of action.
func sectionOf(k tool.ActionKind) sectionID {
	switch k {
	case tool.FileRead:
		return readSection
	case tool.FileWrite:
		return writeSection
	case tool.Network:
		return networkSection
	case tool.Command:
		return commandSection
	case tool.Model:
		return modelSection
	case tool.API:
		return apiSection
	}
	return noSection
}

// document is the parsed form: what the file says, checked, nothing bound.
type document struct {
	name       string
	inherit    bool
	system     string // "", "minimal" or "standard"
	durability string // "" or "power" or "process"
	isolation  string // "", "full", "landlock" or "none"
	tier       string // "", "fresh" or "session"
	asking     mcpAsking
	sections   [numSections]section

	readBytes, writeBytes, responseBytes int64
	hold                                 bool
	requestTimeout, commandTimeout       time.Duration
	bandwidth, totalBytes                int64
	inspect                              bool
	outputBytes, memory                  int64
	processes, openFiles                 int
	cpu                                  time.Duration
	disk                                 int64
	env, path                            []string
	envPos                               []fault.Pos
	askFromRisk                          *riskGate
	tokens                               int64
	spawn, depth                         *int
	calls, callsPerTool                  int
	bytesIn, bytesOut, money             int64
	perTool                              []toolCount
	time                                 time.Duration
	roles                                []role
	secretsSet                           bool
	secrets                              []secretUse
	gates
}

// section is one section's three lists.
type section struct {
	set      bool // the document mentions it
	allowSet bool // it has an allow list, if an empty one
	lists    [3][]entry
}

// listNames are the lists' keys, by the effect that an entry has.
var listNames = [3]string{Deny: "deny", Ask: "ask", Allow: "allow"}

// entry is one line of a list, compiled as far as that needs no environment.
type entry struct {
	pos   fault.Pos
	text  string // the pattern as written
	added int    // bytes that the braces of a path pattern add
	args  *arguments
	net   *target.Rule
	look  bool    // a network entry's inspect, or it has a secret
	key   *Secret // a network entry's secret
	cmd   *command.Pattern
	name  *glob.Text // tools, models and api
}

type riskGate struct {
	pos  fault.Pos
	risk tool.Risk
}

func (g *riskGate) text() string {
	if g == nil {
		return ""
	}
	return g.risk.String()
}

type toolCount struct {
	pos     fault.Pos
	pattern string
	calls   int
	name    *glob.Text
}

type role struct {
	pattern string
	name    *glob.Text
	policy  *Policy
}

// arguments is an entry's constraints on a call's arguments, as a tree of
// argument names.
type arguments struct {
	list   []argument // in the document's order
	tree   node
	others bool // arguments that are not listed are allowed
}

// argument is one constraint as written.
type argument struct {
	name string // dotted
	rule *constraint
}

// node is a level of the tree: a named argument with a constraint, or with
// arguments of its own.
type node struct {
	name     string
	rule     *constraint
	children []*node
}

func (n *node) child(name string) *node {
	for _, c := range n.children {
		if c.name == name {
			return c
		}
	}
	return nil
}
