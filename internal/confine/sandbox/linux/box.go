//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// Box runs confined commands. A Box may be used by any number of goroutines.
type Box struct {
	*Sandboxes
	conf    Config
	warming sync.WaitGroup // of Warm
}

// New makes a Box. Close ends its spawner.
func New(c Config) *Box {
	if c.Getenv == nil {
		c.Getenv = func(string) (string, bool) { return "", false }
	}
	b := &Box{conf: c, Sandboxes: c.Sandboxes}
	if b.Sandboxes == nil {
		b.Sandboxes = NewSandboxes()
	}
	return b
}

// Warm starts the spawner in the background, for a process that is about to run a command:
// the spawner starts while the command is decided and recorded. Whether that succeeded, Run
// reports. It must not be called once Close was.
func (b *Box) Warm() {
	b.warming.Go(func() { _, _ = b.ready() })
}

// Close ends the spawner and with it every command that still runs, unless other Boxes have it too.
func (b *Box) Close() error {
	b.warming.Wait()
	if b.conf.Sandboxes != nil {
		return nil
	}
	return b.Sandboxes.Close()
}

// command is a command on its way, with the layers of its run if writes are held.
type command struct {
	sandbox.Command
	layers *layers
	image  *sandbox.Image // whose system it sees; nil: the machine's
}

// at is where a path that the command will see can be looked up now.
func (c command) at(p string) string {
	if q := c.layers.lookup(p); q != p {
		return q
	}
	return c.image.At(p)
}

// Run runs one command under a permit and waits until every process of it is
// gone. It is confined by what the permit's policies allow, or not run at all
// (fault.SandboxMissing says what this machine lacks). A command that fails,
// is killed or runs out of time is a [sandbox.Outcome]; an error means that it did not
// run, or that ctx ended (then the Outcome tells how far it came).
func (b *Box) Run(ctx context.Context, p permit.Permit, asked sandbox.Command) (sandbox.Outcome, error) {
	defer asked.Stdio.Close()
	if err := ctx.Err(); err != nil {
		return sandbox.Outcome{}, fault.Wrap(fault.ToolCancelled, err, "cancelled before the command started")
	}
	if err := sandbox.CheckArgs(asked); err != nil {
		return sandbox.Outcome{}, err
	}
	img, err := b.Image(p.Limits(), p.Env().Workspace)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	place := b.conf.Place
	if img != nil {
		place = policy.Container
	}
	if at := p.Chain().Placement(); !at.Allows(place) {
		return sandbox.Outcome{}, at.Refusal(place)
	}
	if asked, err = pinShell(img, asked); err != nil {
		return sandbox.Outcome{}, err
	}
	c := command{Command: asked, image: img}
	m, err := b.machine()
	if err != nil && p.Chain().Isolation() == policy.FullIsolation {
		return sandbox.Outcome{}, err
	}
	if c.Folder == nil { // else nothing of the workspace is there
		var leave func()
		if c.layers, leave, err = b.layers(ctx, p); err != nil {
			return sandbox.Outcome{}, err
		}
		defer leave()
	}
	prof, st, err := b.prepare(ctx, &m, p, c)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	c.layers.close()
	sp, err := b.ready()
	if err != nil {
		return sandbox.Outcome{}, err
	}
	if st.port = proxyPort; sharesSandbox(p.Chain(), c, prof) && !st.secrets {
		st.shares, st.port = true, b.agents.nextPort()
	}
	out, err := b.exit(p, asked, prof, &st)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	defer out.close()
	defer b.late.record(c.Session.ID, p)
	st.watch = c.Observe
	r := run{b: b, long: c.Long, sp: sp, m: m, p: p, prof: prof, st: st, limit: sandbox.TimeLimit(p, asked), keep: sandbox.OutputLimit(p, asked), out: out, watch: c.Observe,
		note: once(func() { note(p, asked, prof) })}
	done, err := watchFolder(ctx, c.Folder, func(ctx context.Context) (sandbox.Outcome, error) { return r.anywhere(ctx, c) })
	if prof.Isolation != policy.FullIsolation {
		done.Notes = append(slices.Clip(done.Notes), sweep(ctx, r.limit, prof, p.Chain(), st.repositories)...)
	}
	return done, err
}

// note records that the command was started.
func note(p permit.Permit, c sandbox.Command, prof sandbox.Profile) {
	h := tool.Happened{Effect: tool.SystemExec, On: tool.Action{Kind: tool.Command, Argv: c.Argv}.Subject()}
	if prof.Isolation != policy.FullIsolation {
		h.Rule = "isolation " + prof.Isolation.String()
	}
	h.Place = place(prof)
	if c.Proxy == nil { // else the caller has noted it: the call may be over
		p.Note(h)
	}
}

// place is where a command runs, for people: "" is this machine's own system.
func place(prof sandbox.Profile) string {
	if prof.Image == "" {
		return ""
	}
	return "image " + prof.Image
}

// Profile says what a command would get to see and use under a chain of
// policies. Nothing is run.
func (b *Box) Profile(chain policy.Chain, c sandbox.Command) (sandbox.Profile, error) {
	if err := sandbox.CheckArgs(c); err != nil {
		return sandbox.Profile{}, err
	}
	img, err := b.Image(chain.Limits(), c.Dir)
	if err != nil {
		return sandbox.Profile{}, err
	}
	prof, _, err := b.compile(context.Background(), &machine{}, chain, img.Limits(sandbox.WithDefaults(chain.Limits())), command{Command: c, image: img}, func(string, string, []string) error { return nil })
	return prof, err
}

// prepare looks the command up, checks it against the permit, and compiles the
// profile.
func (b *Box) prepare(ctx context.Context, m *machine, p permit.Permit, c command) (sandbox.Profile, start, error) {
	limits := c.image.Limits(sandbox.WithDefaults(p.Limits()))
	if c.Proxy != nil {
		limits.WriteBytes = 0 // of the call's files; the program's own have a bound in its folder
	}
	prof, st, err := b.compile(ctx, m, p.Chain(), limits, c, func(dir, exe string, names []string) error {
		return sandbox.CheckCommand(ctx, p, c.layers, c.at, c.Command, dir, exe, names, limits.Path)
	})
	if c.image == nil {
		err = sandbox.TellWhere(err, p.Env().Home, c.Argv[0])
	}
	if err == nil && c.Folder == nil && prof.Standard && prof.Isolation == policy.FullIsolation {
		st.env = prof.CacheVariables(p.Chain(), p.Env().Workspace, p.Env().Home, b.conf.Getenv, st.env)
		config, _ := b.conf.Getenv("XDG_CONFIG_HOME")
		global, _ := b.conf.Getenv("GIT_CONFIG_GLOBAL")
		if prof.Git = repository.Personal(p.Env().Home, config, global, prof.Dir); prof.Git != "" {
			st.env = append(st.env, "GIT_CONFIG_SYSTEM="+gitFile)
		}
	}
	if err == nil {
		err = makeHome(prof)
	}
	if err == nil && c.Proxy == nil {
		var added bool
		st.env, added, err = sandbox.AddSecrets(p, c.Command, b.conf.Secret, st.env)
		st.secrets = added
		prof.Session = prof.Session && !added // another command of it could read them there
	}
	return prof, st, err
}

// workDir is the folder that a command starts in, as the command will find it.
func workDir(c command) (string, error) {
	if c.Folder != nil {
		return folderDir(c.Command)
	}
	dir, err := c.layers.real(c.Dir)
	if err != nil {
		return "", notInLayers(c.Dir, err)
	}
	if st, err := os.Stat(c.layers.At(dir)); err != nil || !st.IsDir() {
		return "", fault.New(fault.ArgsInvalid, "the working folder %q is not a folder", c.Dir)
	}
	return dir, nil
}

func (b *Box) compile(ctx context.Context, m *machine, chain policy.Chain, limits policy.Limits, c command, check func(dir, exe string, names []string) error) (sandbox.Profile, start, error) {
	dir, err := workDir(c)
	if err != nil {
		return sandbox.Profile{}, start{}, err
	}
	exe, names, err := sandbox.LookupIn(c.at, limits.Path, c.Argv[0], dir)
	if err != nil {
		return sandbox.Profile{}, start{}, err
	}
	if err := check(dir, exe, names); err != nil {
		return sandbox.Profile{}, start{}, err
	}
	env, err := sandbox.Environ(b.conf.Getenv, c.image, chain, limits, c.Command, sandbox.HomeAt, "/tmp")
	if err != nil {
		return sandbox.Profile{}, start{}, err
	}
	iso, err := b.isolation(chain.Isolation())
	if err == nil && iso != policy.FullIsolation {
		err = needsFull(c, iso)
	}
	if err != nil {
		return sandbox.Profile{}, start{}, err
	}
	if c.image == nil && iso == policy.FullIsolation {
		env = sandbox.WithAccount(env, account)
	}
	found := b.systems.find(c.image, limits.Path, chain.StandardSystem())
	m.links, m.which = found.links, found.which
	if c.image != nil {
		m.shell = shellOf(c.image)
	}
	in := sandbox.Inputs{Chain: chain, Limits: limits, System: found.mounts, Image: c.image, Held: c.layers.folder(),
		Dir: dir, Exe: exe, State: b.state(), Proxy: b.conf.Egress != nil || c.Proxy != nil, Isolation: iso}
	in.Publish = c.Publish
	for _, s := range c.Services {
		in.Services = append(in.Services, s.At)
	}
	if iso == policy.FullIsolation {
		in.Home = b.keptHome(chain, c)
	}
	in.Supervised = iso == policy.FullIsolation && (c.Folder == nil || c.Observe)
	switch {
	case c.Folder != nil: // nothing of the workspace is there
		in.Folder = c.Folder.Path()
	case in.Supervised: // each path is decided when it is used
		skeleton(&in, c.layers)
	default:
		if err := newSurvey(&in).Fill(ctx, &in); err != nil {
			return sandbox.Profile{}, start{}, err
		}
	}
	prof, err := sandbox.Compile(in)
	if err != nil {
		return prof, start{}, err
	}
	prof.Removable = slices.DeleteFunc(prof.Removable, func(dir string) bool { return !c.layers.isFolder(dir) })
	noteOwners(&prof)
	if _, over := sandbox.Cover(prof.Mounts, dir); over != nil && over.Kind == sandbox.Mask {
		return prof, start{}, fault.New(fault.HandleRefused, "the working folder %q is not readable under the policy", c.Dir)
	}
	st := start{layers: c.layers, exe: exe, argv: c.Argv, env: env, tty: terminalSize(c.Stdio), repositories: repositoriesIn(in.Trees, in.Own)}
	prof.Session = iso == policy.FullIsolation && stays(chain, c) && len(listeners(prof)) == 0 && len(prof.Publish) == 0 // these belong to one command
	return prof, st, nil
}

// state is Remit's own folder where it really is: mounts go by that.
func (b *Box) state() string {
	if real, err := realPath(b.conf.State); err == nil && b.conf.State != "" {
		return real
	}
	return b.conf.State
}

// run is one command on its way.
type run struct {
	b  *Box
	sp *spawn.Spawner
	m  machine
	p  permit.Permit
	st start

	seat  seat
	prof  sandbox.Profile
	limit time.Duration
	held  map[string]string // what limits the command, see limits
	keep  int64
	out   *exit
	watch bool
	long  bool // a person started it and waits for its end
	note  func()
}

// errStale: the sandbox was not as it had been, so the command was not run.
var errStale = errors.New("the sandbox is stale")

// drainTime is how long output may still come after every process has gone.
const drainTime = 2 * time.Second

func (r run) do(ctx context.Context, c command) (sandbox.Outcome, error) {
	var exit spawn.Exit
	defer func() { r.seat.end(exit) }()
	std, err := newStreams(c.Command, r.keep, r.seat.tier == tierAgent)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	begun := time.Now()
	child, err := r.seat.start(std.fds)
	std.close()
	if err != nil {
		std.end(0)
		return sandbox.Outcome{}, notStarted(err)
	}
	handTerminal(c.Stdio, child)
	served := r.out.serve(child, r.seat.names)
	var answers *supervised
	if served == nil {
		answers, served = r.supervise(child, c.Command)
	}
	if served != nil {
		child.Kill()
	}
	timedOut := r.await(ctx, child)
	exit = child.Wait()
	seen, unseen := answers.stop(r.prof, child, r.seat.tier == tierAgent)
	if (exit.Stale || r.seat.tier == tierAgent && spoiled(exit)) && !timedOut && ctx.Err() == nil {
		std.end(0)
		return sandbox.Outcome{}, errStale
	}
	r.note()
	out := sandbox.Outcome{Duration: time.Since(begun), TimedOut: timedOut, Tier: r.seat.tier, Isolation: r.prof.Isolation.String(), Place: place(r.prof), CPU: exit.CPU, PeakMemory: exit.MaxRSS,
		DiskRead: exit.In, DiskWritten: exit.Out, Connections: r.out.close(), Notes: r.prof.Notes, Limits: r.held}
	out.Touched, out.Unseen = seen, unseen
	out.Refusals, out.RefusedPaths = answers.refused()
	out.Changed = answers.changed(r, out.Connections)
	out.Followed, out.Unfollowed, out.Signs = answers.followed(ctx)
	out.Stdout, out.Stderr = std.end(drainTime)
	if exit.Failed != "" && !timedOut && ctx.Err() == nil {
		return sandbox.Outcome{}, startFailed(exit, c.Command)
	}
	if served != nil && !timedOut && ctx.Err() == nil {
		return out, served
	}
	if !exit.Known && r.seat.tier != tierAgent {
		out.CPU = max(out.CPU, r.seat.group.cpu())
	}
	r.judge(&out, exit)
	out.PeakMemory = max(out.PeakMemory, r.seat.most())
	if timedOut && ctx.Err() != nil {
		out.Limit = "the call's time is over"
	}
	if err := ctx.Err(); err != nil && !timedOut {
		return out, fault.Wrap(fault.ToolCancelled, context.Cause(ctx), "the command was cancelled after %v", out.Duration.Round(time.Millisecond))
	}
	if exit.Lost {
		return out, fault.New(fault.ToolFailed, "the process that makes sandboxes ended, and the command with it")
	}
	return out, nil
}

// endTime is how long a command that a person started may take to end after a signal.
const endTime = 10 * time.Second

// passOn sends the signal that cancelled ctx to a command that a person started. It reports whether there was one.
func (r run) passOn(ctx context.Context, child *spawn.Child) bool {
	var cause interface{ Received() os.Signal }
	if !r.long || !errors.As(context.Cause(ctx), &cause) {
		return false
	}
	sig, ok := cause.Received().(unix.Signal)
	if ok {
		child.Signal(sig)
	}
	return ok
}

// await waits for the end of the sandbox, and makes it when the time is over.
func (r run) await(ctx context.Context, child *spawn.Child) (timedOut bool) {
	timer, tick := time.NewTimer(r.limit), time.NewTicker(lookTime)
	defer timer.Stop()
	defer tick.Stop()
	ended := ctx.Done()
	var over <-chan time.Time // the time after a signal
	for waits := true; waits; {
		select {
		case <-child.Done():
			return false
		case <-ended:
			if timedOut = errors.Is(ctx.Err(), context.DeadlineExceeded); timedOut || !r.passOn(ctx, child) {
				waits = false
			}
			ended, over = nil, time.After(endTime)
		case <-over:
			waits = false
		case <-timer.C:
			waits, timedOut = false, true
		case <-tick.C:
			child.Continue()
		}
	}
	child.Kill()
	<-child.Done()
	return timedOut
}
