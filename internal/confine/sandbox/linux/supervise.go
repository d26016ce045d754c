//go:build linux && (amd64 || arm64)

package linux

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strings"
	"sync"
	"unsafe"

	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
	"github.com/remitrun/remit/internal/confine/supervisor"
)

const stepSupervise = "have the policy asked about each path"

// supervise adds the filter by which the kernel asks about each path, as the last thing before the
// command.
func (b *builder) supervise(observed bool) {
	if !b.p.Supervised {
		return
	}
	b.askAbout(supervisedCalls(observed))
	b.Hand(stepSupervise, b.fd)
	b.Call(stepSupervise, unix.SYS_CLOSE, spawn.From(b.fd))
}

// askAbout adds a filter, and saves the descriptor at which the kernel asks.
func (b *builder) askAbout(filter []bpf.RawInstruction) {
	prog := b.Bytes(unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(filter)*int(unsafe.Sizeof(filter[0]))))
	fprog := spawn.Object(b.Program, struct{ Len, Ptr uint64 }{uint64(len(filter)), 0})
	b.Pointer(fprog+8, prog)
	b.Save(stepSupervise, b.fd, unix.SYS_SECCOMP, spawn.Int(unix.SECCOMP_SET_MODE_FILTER),
		spawn.Int(unix.SECCOMP_FILTER_FLAG_NEW_LISTENER|unix.SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV), spawn.At(fprog))
}

// supervisedCalls is the filter. The sandbox's first filter judges the same calls, and the strictest
// answer counts.
func supervisedCalls(observed bool) []bpf.RawInstruction {
	if observed {
		return observedFilter()
	}
	return supervisedFilter()
}

var (
	supervisedFilter = sync.OnceValue(func() []bpf.RawInstruction { return supervisingFilter(nil) })
	observedFilter   = sync.OnceValue(func() []bpf.RawInstruction { return supervisingFilter(observed) })
)

// supervisingFilter asks about all calls of the supervisor's rules, and about others besides.
func supervisingFilter(besides map[uint32][]named) []bpf.RawInstruction {
	then := supervisor.Rules()
	maps.Copy(then, supervisor.SocketRules())
	for nr := range besides {
		then[nr] = []bpf.Instruction{bpf.RetConstant{Val: actNotify}}
	}
	var rules []rule
	for nr, do := range then {
		rules = append(rules, rule{nr, do})
	}
	slices.SortFunc(rules, func(a, b rule) int { return cmp.Compare(a.nr, b.nr) })
	f, err := bpf.Assemble(append([]bpf.Instruction{bpf.LoadAbsolute{Off: offNr, Size: 4}}, tree(spans(rules))...))
	if err != nil {
		panic(err) // its rules are fixed: any test finds it
	}
	return f
}

// supervised is what answers for one command.
type supervised struct {
	*supervisor.Supervisor
	decider *decider
	watch   *observer // nil: the command is not observed
}

// supervise begins to answer. After an error the sandbox must be ended.
func (r run) supervise(child *spawn.Child, c sandbox.Command) (*supervised, error) {
	if !r.prof.Supervised {
		return nil, nil
	}
	f := child.Take()
	if f == nil {
		return nil, nil // the sandbox ended before; Wait tells why
	}
	ask := c.Ask
	if ask == nil {
		ask = r.p.Asker()
	}
	d := newDecider(r.p, r.prof, r.st.layers, ask)
	d.late = func(refused tool.Refused) { r.b.late.add(c.Session.ID, r.p.Intent(), refused) }
	o := supervisor.Options{IDs: supervisor.IDs{User: insideID, Group: insideID}, Spawner: r.sp, Decide: d.decide, Denied: d.denied, Changed: d.changed, Gone: d.gone, Detour: r.out.detour(d), Names: r.b.namesOf(cmp.Or(r.p.Chain().Repository(), path.Join(r.p.Env().Workspace, ".git")))}
	s := &supervised{decider: d}
	if r.watch {
		s.watch = newObserver()
		o.Seen = s.watch.tell
	}
	var err error
	if s.Supervisor, err = supervisor.Start(f, o); err != nil {
		return nil, err
	}
	return s, nil
}

// namesOf is the lock for the names of a workspace, and of the other worktrees of its repository. Sandboxes of other
// workspaces do not wait for each other.
func (b *Box) namesOf(repository string) *sync.RWMutex {
	names, _ := b.workspaces.LoadOrStore(repository, new(sync.RWMutex))
	return names.(*sync.RWMutex)
}

// stop ends answering. In a shared sandbox it does so once no process of the command is left: until then their uses are
// decided, and no approver is asked, since the call is over. It returns the paths that the command used.
func (s *supervised) stop(prof sandbox.Profile, child *spawn.Child, shared bool) (used []sandbox.Touch, unseen int) {
	if s == nil {
		return nil, 0
	}
	if kept := s.decider.kept; kept != nil {
		defer kept.Kept() // when nothing is decided for the command any more
	}
	if shared {
		s.decider.outlive()
		go func() {
			<-child.Gone()
			s.Stop()
		}()
		return nil, 0
	}
	s.Stop()
	return s.watch.used(prof, s.decider)
}

// refused returns the first paths that were refused, with the reason, and the number of all refusals.
func (s *supervised) refused() (list []sandbox.Refusal, count int) {
	if s == nil {
		return nil, 0
	}
	s.decider.mu.Lock()
	defer s.decider.mu.Unlock()
	return s.decider.list, s.decider.count
}

// decider decides about the paths of one command.
type decider struct {
	p       permit.Permit
	chain   policy.Chain
	mounts  []sandbox.Mount
	deletes bool // the policy decides deleting apart from writing
	names   func() *policy.LikeNames
	at      func(string) string // where a path of the command is on the host
	leads   *repository.Finder

	ask     permit.Asker // nil: no approver can be asked
	answers sandbox.Answers[string]

	mu       sync.Mutex
	said     map[string]bool
	given    map[string]bool // actions that a person approved
	over     bool            // the call has ended
	list     []sandbox.Refusal
	count    int
	claims   map[string]bool
	settings map[string]string  // of repositories, by their paths, as the command found them
	late     func(tool.Refused) // is told of refusals after the call
	uses     changes
	follows  follows
	kept     permit.CommandKeeper // nil: no copies are made
	again    []string             // names of folders in which nothing is kept
	top      string               // the workspace: the names of folders above it do not count
}

func newDecider(p permit.Permit, prof sandbox.Profile, l *layers, ask permit.Asker) *decider {
	chain, env := p.Chain(), p.Env()
	return &decider{p: p, leads: repository.New(env.Home, env.Workspace), chain: chain, mounts: prof.Mounts, kept: p.Replaced(), again: slices.Concat(policy.PackageFolders(), policy.RepositoryFolders()), top: env.Workspace, deletes: chain.PartsDeleting(), at: l.At, ask: ask, given: map[string]bool{}, said: map[string]bool{}, claims: map[string]bool{}, settings: map[string]string{},
		names: sync.OnceValue(func() *policy.LikeNames { return chain.NamesLike(sandbox.AnyName) })}
}

// decide implements [supervisor.Decide].
func (d *decider) decide(r supervisor.Request) error {
	d.note(r)
	d.sign(r)
	err := d.judge(r)
	var refused refusal
	var ask *supervisor.Ask
	if !errors.As(err, &refused) && !errors.As(err, &ask) {
		d.keep(r)
		d.follow(r)
	}
	return err
}

func (d *decider) judge(r supervisor.Request) error {
	if r.Act&(supervisor.Remove|supervisor.Moved) != 0 && d.carriesMount(r.Path) {
		return d.noName(r.Path, "the sandbox shows folders of the machine there, or below it")
	}
	if !d.concerns(r.Path) {
		return nil
	}
	if r.Act&supervisor.Connect != 0 {
		return d.connects(r)
	}
	if r.Act&supervisor.Read != 0 {
		if err := d.may(tool.FileRead, r.Path); err != nil {
			return passedOver(r, err)
		}
	}
	if r.Act&^supervisor.Read == 0 {
		return nil
	}
	d.claim(r)
	if err := d.may(tool.FileWrite, r.Path); err != nil && !d.isEmptied(tool.FileWrite, r, err) {
		if err = d.ofRepository(r, err); err != nil {
			if _, content := err.(supervisor.Instead); content && d.concerns(r.From) && d.may(tool.FileRead, r.From) != nil {
				return d.may(tool.FileRead, r.From) // the new file could be read
			}
			return err
		}
	}
	if d.deletes && r.Act&supervisor.Remove != 0 {
		if err := d.may(tool.FileDelete, r.Path); err != nil && !d.isEmptied(tool.FileDelete, r, err) {
			return err
		}
	}
	if err := d.takes(r); err != nil {
		return err
	}
	if r.From != "" && d.concerns(r.From) {
		return d.moved(r)
	}
	return nil
}

// searchPrograms search folders, and end with an error if they cannot read one of the files.
var searchPrograms = []string{"grep", "rg", "ag", "ugrep"}

// passedOver has a search find nothing in a file that it may not read. err is the refusal. A file that a command names itself
// is refused, as far as that can be known.
func passedOver(r supervisor.Request, err error) error {
	var by refusal
	if r.Act != supervisor.Read || !errors.As(err, &by) {
		return err
	}
	line, lerr := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", r.PID))
	args := strings.Split(string(line), "\x00")
	exe, _ := os.Readlink(fmt.Sprintf("/proc/%d/exe", r.PID))
	name := path.Base(exe)
	if !slices.Contains(searchPrograms, name) {
		name = path.Base(args[0]) // agents have searches in their own program, and call them by another name
	}
	if lerr != nil || !slices.Contains(searchPrograms, name) || name == "grep" && !r.Beneath || slices.ContainsFunc(args[1:], tellsAbsence) {
		return err
	}
	return supervisor.Blank{Err: err}
}

// tellsAbsence reports whether a search with an argument may tell of files without a match, as grep -L and grep -c do. Of an empty
// file, that would not be true.
func tellsAbsence(arg string) bool {
	long, isLong := strings.CutPrefix(arg, "--")
	if isLong {
		return strings.HasPrefix(long, "cou") || strings.HasPrefix(long, "files-witho") || strings.HasPrefix(long, "stat")
	}
	return strings.HasPrefix(arg, "-") && strings.ContainsAny(arg, "Lc")
}

// isEmptied reports whether a refused request removes an empty folder whose name alone is sensitive, as git stash does. err is the
// refusal.
func (d *decider) isEmptied(kind tool.ActionKind, r supervisor.Request, err error) bool {
	var by refusal
	return r.Act == supervisor.Remove|supervisor.Folder && errors.As(err, &by) && !byRule(by) && d.may(kind, path.Join(path.Dir(r.Path), sandbox.AnyName)) == nil
}

// connects decides about a socket. A command connects to those alone that it made itself: others are the
// host's, and are reached through the sandbox's proxy.
func (d *decider) connects(r supervisor.Request) error {
	if err := d.may(tool.FileWrite, r.Path); err != nil {
		return err
	}
	if r.Act&supervisor.Create != 0 || r.Own {
		return nil
	}
	return refusal{tool.Action{Kind: tool.FileWrite, Path: r.Path, Real: r.Path}, policy.Decision{Reason: "it is a socket of another program; name it in network.sockets"}}
}

// refuses reports whether a path could not be used so.
func (d *decider) refuses(use sandbox.Use, p string) bool {
	switch use {
	case sandbox.Read:
		return d.may(tool.FileRead, p) != nil
	case sandbox.Wrote:
		return d.may(tool.FileWrite, p) != nil
	}
	return false
}

// concerns reports whether the policy decides about a path. Its mount decides about any
// other path, or it is the sandbox's own.
func (d *decider) concerns(p string) bool {
	_, over := sandbox.Cover(d.mounts, p)
	switch {
	case over == nil:
		return false
	case over.Kind == sandbox.Mask: // a move of the host's can take it away
		return true
	}
	return over.Kind == sandbox.Bind && (over.Folder || over.Access == sandbox.WriteOnly) && !over.System && over.From == ""
}

func (d *decider) may(kind tool.ActionKind, p string) error {
	a := tool.Action{Kind: kind, Path: p, Real: p}
	if kind != tool.FileRead {
		a.Lead = d.lead(p)
	}
	decided := d.chain.DecideAction(a)
	switch {
	case decided.Effect == policy.Allow:
		return nil
	case decided.Effect != policy.Ask:
		return refusal{a, decided}
	case d.approved(a):
		return nil
	case d.ask == nil || d.isOver():
		decided.Reason += ", but no approver can be asked"
		return refusal{a, decided}
	}
	return &supervisor.Ask{About: a.String(), Wait: func(ctx context.Context) error {
		if d.answers.Get(ctx, a.String(), func() bool { return d.ask(ctx, a, decided) }) && d.approve(a) {
			return nil
		}
		decided.Reason += ", which was not given"
		return refusal{a, decided}
	}}
}

// outlive is called when the call has ended before the processes of its command. They keep no approval.
func (d *decider) outlive() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.over = true
	clear(d.given)
}

// approve remembers an approval. It returns false if the call has ended.
func (d *decider) approve(a tool.Action) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.over {
		d.given[a.String()] = true
	}
	return !d.over
}

func (d *decider) isOver() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.over
}

func (d *decider) approved(a tool.Action) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.given[a.String()]
}

// refusal is a decision against an action.
type refusal struct {
	tool.Action
	policy.Decision
}

// Error implements error.
func (r refusal) Error() string { return r.Decision.Reason }

// maxRefusals bounds how many refused paths are named of one command.
const maxRefusals = 20

// denied is told of each refused call. Each path is recorded once.
func (d *decider) denied(_ supervisor.Request, err error) {
	var r refusal
	if !errors.As(err, &r) {
		return
	}
	action := r.Action.String()
	refused := tool.Refused{Action: action, Rule: r.Decision.Rule.String(), Reason: r.Decision.Reason}
	if d.isOver() {
		d.late(refused)
		return
	}
	d.p.Refuse(refused)
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count++
	if !d.said[action] && len(d.list) < maxRefusals {
		d.said[action] = true
		d.list = append(d.list, sandbox.Refusal{Kind: r.Action.Kind, Path: r.Action.Path, Reason: r.Decision.Reason, Asked: r.Decision.Effect == policy.Ask})
	}
}
