package runs

import (
	"bytes"
	"context"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/authority/policy/learn"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/record/ledger"
)

// LearnedExec is the policy learned from one observed command.
type LearnedExec struct {
	Policy  []byte
	Refused int // the refused attempts, which are comments in it
	Unseen  int // uses of paths that could not be looked at, or were too many
}

// execLearner makes a policy of what one command used. The command runs under a
// wider policy than it will: all of the workspace may be read, and written, as
// all writes are held. What the person's own outer bound and the policy's deny
// entries refuse stays refused.
type execLearner struct {
	runs *Runs
	root *policy.Policy // as the person gave it
	argv []string
	ask  bool

	mu       sync.Mutex
	approved []tool.Target
}

// execLearner prepares to learn from a command, and gives the policy to run it
// under. Without a policy it starts from one that allows nothing.
func (s *Runs) execLearner(q *ExecRequest) (*execLearner, *policy.Policy, error) {
	root, hint, err := s.Policies.Root(q.Policy, q.Workspace)
	if err == nil && hint != "" {
		root, err = policy.Parse("learned", []byte("version: 1\nname: learned\n"))
	}
	if err != nil {
		return nil, nil, err
	}
	l := &execLearner{runs: s, root: root, argv: q.Argv, ask: q.Ask != nil}
	if ask := q.Ask; ask != nil {
		q.Ask = func(ctx context.Context, act tool.Action, d policy.Decision) bool {
			yes := ask(ctx, act, d)
			if yes && act.Path == "" {
				l.mu.Lock()
				l.approved = append(l.approved, act.Target)
				l.mu.Unlock()
			}
			return yes
		}
	}
	wide, err := root.Widened(policy.Wide{Files: true, Hold: true, System: "standard", Ask: l.ask})
	return l, wide, err
}

// learned writes the policy, under a name.
func (l *execLearner) learned(name, workspace string, out sandbox.Outcome, tried ledger.Attempts, chain policy.Chain) (LearnedExec, error) {
	got := LearnedExec{Unseen: out.Unseen}
	if len(out.Touched) == 0 && out.Unseen > 0 {
		return got, fault.New(fault.SandboxMissing, "this machine does not let Remit observe the command, so nothing can be learned").
			WithHint("process_vm_readv is held back: by kernel.yama.ptrace_scope, or by the filter of the container that Remit runs in")
	}
	w := witness{env: l.runs.Home.Env(workspace), chain: chain, used: map[string]bool{}, first: map[string]string{}, open: map[string]bool{}}
	w.uses = append(w.uses, learn.Use{Tool: ExecID})
	w.files(l.started(workspace, out.Touched))
	w.connections(out.Connections, tried)
	for _, u := range w.uses {
		if u.Refused {
			got.Refused++
		}
	}
	system := "minimal"
	if w.standard {
		system = "standard"
	}
	var more []string
	for _, t := range l.approved {
		if _, err := l.root.Widened(policy.Wide{Network: []string{t.String()}}); err == nil { // a path may be none that an entry can name
			more = append(more, t.String())
		}
	}
	from, err := l.root.Widened(policy.Wide{Files: true, Hold: l.root.Holds(), System: system, Network: more})
	if err != nil {
		return got, err
	}
	rules, err := from.Bind(w.env)
	if err != nil {
		return got, err
	}
	learned, err := learn.Policy(name, w.uses, learn.Options{
		Workspace: w.env.Workspace, Home: w.env.Home, Chain: policy.Chain{rules}, Exact: true,
		Secret: func(s string) bool { return l.runs.Home.Redactor().Text(s) != s || l.runs.Secrets.Mask.Holds(s) },
		Spec:   func(tool.ID) *tool.Spec { return (&execTool{}).Spec() }, // there is no other tool
	})
	got.Policy = learned.Policy
	if head, rest, ok := bytes.Cut(got.Policy, []byte("\n")); ok && bytes.HasPrefix(head, []byte("#")) {
		got.Policy = append([]byte(learnedHead), rest...)
	}
	got.Policy = append(got.Policy, w.firstSteps()...)
	if err == nil {
		_, err = policy.Parse(name, got.Policy)
	}
	return got, err
}

const learnedHead = `# Learned from one run of a command, which might have used all of the workspace.
# Read it before you use it: the command may have done more than it should.
`

// started adds the program itself, where it is in the workspace: the start of a program is not
// always seen.
func (l *execLearner) started(workspace string, all []sandbox.Touch) []sandbox.Touch {
	if len(l.argv) == 0 || !strings.Contains(l.argv[0], "/") {
		return all
	}
	p := path.Clean(l.argv[0])
	if !path.IsAbs(p) {
		p = path.Join(workspace, p)
	}
	real, err := filepath.EvalSymlinks(p)
	seen := slices.ContainsFunc(all, func(t sandbox.Touch) bool { return t.Path == p && t.Use == sandbox.Executed })
	if err != nil || seen || !strings.HasPrefix(p, workspace+"/") {
		return all
	}
	return append(slices.Clone(all), sandbox.Touch{Use: sandbox.Executed, Path: p, Real: real, Exists: true, Shown: "files", Count: 1})
}

// witness turns the observed actions of a command into uses.
type witness struct {
	env      policy.Env
	chain    policy.Chain // that the command ran under
	uses     []learn.Use
	used     map[string]bool   // folders beneath which files were used
	standard bool              // something of system: standard was used
	first    map[string]string // the steps to take before, by the path that they make
	open     map[string]bool   // folders that are there, in which names are made
}

func (w *witness) files(all []sandbox.Touch) {
	strongest := map[string]sandbox.Use{}
	for _, t := range all {
		strongest[t.Path] = max(strongest[t.Path], t.Use)
		if t.Shown == "files" && t.Exists && !t.Folder {
			for dir := path.Dir(t.Path); len(dir) > 1 && !w.used[dir]; dir = path.Dir(dir) {
				w.used[dir] = true
			}
		}
	}
	for _, t := range all {
		if t.Use == sandbox.Looked && strongest[t.Path] > sandbox.Looked {
			continue // it was used as well
		}
		switch t.Shown {
		case "system":
		case "standard":
			w.standard = w.standard || t.Exists
		case "own":
			w.hidden(t)
		case "files":
			w.file(t)
		default:
			w.hidden(t)
		}
		if t.Use == sandbox.Wrote && (t.Shown == "system" || t.Shown == "standard") {
			w.refuse(t, t.Path, "files of the system are never written")
		}
	}
}

// file is a use of something in the workspace, or shown by the policy.
func (w *witness) file(t sandbox.Touch) {
	a := tool.Action{Kind: tool.FileRead, Path: t.Path, Real: t.Real}
	below := false
	switch {
	case !utf8.ValidString(t.Path + t.Real):
		w.refuse(t, strings.ToValidUTF8(t.Path, "\uFFFD"), "its name is not UTF-8, so no entry can be written for it")
		return
	case t.Use == sandbox.Wrote:
		a.Kind = tool.FileWrite
	case !t.Exists:
		return // it asked for a missing file
	case t.Folder && (t.Use != sandbox.Read || w.used[t.Path] || t.Path == w.env.Workspace):
		return // the parent folders of shown files are there, and list them
	case t.Folder:
		below = true
	}
	if d := w.chain.DecideAction(a); d.Effect != policy.Allow {
		w.refuse(t, t.Path, d.Reason)
		return
	}
	if a.Path, below = w.place(t, below); below {
		a.Real = ""
	}
	w.uses = append(w.uses, learn.Use{Action: a, Count: t.Count, Below: below})
	if a.Kind == tool.FileWrite { // a sandbox shows nothing that can only be written
		a.Kind = tool.FileRead
		w.uses = append(w.uses, learn.Use{Action: a, Count: t.Count, Below: below})
	}
}

// place is the path that a policy has to name for a use: a sandbox can show files, and make them
// writable, only if they exist when it starts, and lets names be made only where a whole folder can
// be written.
func (w *witness) place(t sandbox.Touch, below bool) (p string, all bool) {
	if pathExists(t.Path) && !t.Named {
		return t.Path, below
	}
	dir := path.Dir(t.Path)
	if !pathExists(t.Path) && t.Folder || !pathExists(dir) {
		p = t.Path
		for !pathExists(path.Dir(p)) {
			p = path.Dir(p)
		}
		w.first[p] = "mkdir -p " + w.shown(p)
		return p, true
	}
	if dir != w.env.Workspace {
		w.open[dir] = w.open[dir] || t.Use == sandbox.Wrote
		return dir, true
	}
	if t.Use == sandbox.Wrote && pathExists(t.Path) {
		w.first[t.Path] = w.shown(t.Path) + " is replaced or removed, not written: only the entry \"**\" of files.write lets a command do that"
	} else {
		w.first[t.Path] = "touch " + w.shown(t.Path)
	}
	return t.Path, below
}

// pathExists reports whether the host has a path.
func pathExists(p string) bool {
	_, err := os.Lstat(p)
	return err == nil
}

// shown is a path as a shell reads it, from the workspace.
func (w *witness) shown(p string) string {
	return tool.Action{Kind: tool.Command, Argv: []string{strings.TrimPrefix(p, w.env.Workspace+"/")}}.Subject()
}

// firstSteps lists the steps that must come before the command can run under the policy.
func (w *witness) firstSteps() []byte {
	var out []byte
	for _, p := range slices.Sorted(maps.Keys(w.first)) {
		if !w.canMakeIn(p) {
			out = append(out, "#   "+w.first[p]+"\n"...)
		}
	}
	if out == nil {
		return nil
	}
	return append([]byte("\n# A sandbox can make files writable that exist when it starts. Before that:\n"), out...)
}

// canMakeIn reports whether a path lies in a folder in which the command can make it.
func (w *witness) canMakeIn(p string) bool {
	for dir := path.Dir(p); len(dir) > 1; dir = path.Dir(dir) {
		if w.open[dir] {
			return true
		}
	}
	return false
}

// hidden adds a use of a file that was not shown. A file that the host does not have either was
// only looked for.
func (w *witness) hidden(t sandbox.Touch) {
	p := t.Path
	if rest, ok := strings.CutPrefix(p, privateHome+"/"); ok && w.env.Home != "" {
		p = path.Join(w.env.Home, rest)
	}
	if t.Shown == "own" && (t.Exists || p == t.Path && !strings.HasPrefix(p, "/etc/")) || slices.Contains(resolving, p) {
		return // the sandbox's own folders
	}
	at := p
	if t.Use == sandbox.Wrote {
		at = path.Dir(p)
	}
	if !pathExists(at) {
		return
	}
	a := tool.Action{Kind: kindOf(t.Use), Path: p, Real: p}
	why := "it was not shown: only the workspace and the system are, while learning"
	if d := w.chain.DecideAction(a); d.Effect == policy.Deny && d.Rule != nil && d.Rule.Pattern != "" || t.Shown == "mask" {
		why = d.Reason
	}
	w.refuse(t, p, why)
}

// resolving are the files that name resolution asks for. A sandbox has none:
// names are resolved by the proxy.
var resolving = []string{"/etc/resolv.conf", "/etc/host.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/networks"}

// privateHome is the home folder inside a sandbox.
const privateHome = "/tmp/home"

func kindOf(u sandbox.Use) tool.ActionKind {
	if u == sandbox.Wrote {
		return tool.FileWrite
	}
	return tool.FileRead
}

func (w *witness) refuse(t sandbox.Touch, p, why string) {
	if t.Use == sandbox.Looked || t.Folder && t.Use == sandbox.Read {
		return // nothing of it was asked for
	}
	w.uses = append(w.uses, learn.Use{Action: tool.Action{Kind: kindOf(t.Use), Path: p}, Count: t.Count, Refused: true, Why: why})
}

func (w *witness) connections(all []sandbox.Connection, tried ledger.Attempts) {
	for _, c := range all {
		if to, ok := learn.ParseTarget(c.Target()); ok && !c.Refused() {
			w.uses = append(w.uses, learn.Use{Action: tool.Action{Kind: tool.Network, Target: to}})
		}
	}
	for _, r := range tried.Refused { // each once, with a count
		what, ok := strings.CutPrefix(r.Action, tool.Network.String()+" ")
		to, parsed := learn.ParseTarget(what)
		if ok && parsed { // else nobody understood the request
			w.uses = append(w.uses, learn.Use{Action: tool.Action{Kind: tool.Network, Target: to}, Count: r.Count, Refused: true, Why: r.Reason})
		}
	}
}
