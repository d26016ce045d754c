package seatbelt

import (
	"context"
	"os"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// program applies a profile to itself and executes a command.
const program = "/usr/bin/sandbox-exec"

// Config has a Box's inputs. The fields are the same as on Linux.
type Config struct {
	Getenv func(name string) (string, bool)
	Secret func(key string) (string, bool)
	State  string
	Egress func(p permit.Permit, c sandbox.Command) (sandbox.Proxy, error)
	Place  policy.Place
	// Program takes the place of sandbox-exec in tests; "": the system's.
	Program string
}

// Box runs confined commands. A Box may be used by any number of goroutines.
type Box struct{ conf Config }

// New makes a Box.
func New(c Config) *Box {
	if c.Getenv == nil {
		c.Getenv = func(string) (string, bool) { return "", false }
	}
	if c.Program == "" {
		c.Program = program
	}
	return &Box{conf: c}
}

// Warm does nothing.
func (b *Box) Warm() {}

// Close does nothing: every command has been waited for.
func (b *Box) Close() error { return nil }

// view: no writes of a run are held here.
type view struct{}

func (view) At(path string) string { return path }

func same(path string) string { return path }

// Contents fills in the content of the files that commands name.
func (b *Box) Contents(ctx context.Context, _ permit.Held, _ string, chain policy.Chain, actions []tool.Action) error {
	return sandbox.Contents(ctx, view{}, chain, actions)
}

// Image refuses a policy that names an image, whose programs are those of Linux.
func (b *Box) Image(l policy.Limits, _ string) (*sandbox.Image, error) {
	if l.Image == "" {
		return nil, nil
	}
	return nil, needsLinux("an image")
}

// Overlay fails: this system has no overlay file system.
func (b *Box) Overlay(string, string, string) (int, error) {
	return -1, needsLinux("holding the writes of a command")
}

// NewFolder refuses: it would have to be at a path of the sandbox's own.
func (b *Box) NewFolder(permit.Permit, int64, int) (*sandbox.Folder, error) {
	return nil, needsLinux("a command with a folder of its own")
}

func needsLinux(what string) error {
	return fault.New(fault.SandboxMissing, "%s needs full isolation, and macOS has seatbelt", what).
		WithHint("use Linux on amd64 or arm64, also in a virtual machine")
}

// needsFull refuses commands that need full isolation.
func needsFull(p policy.Chain, c sandbox.Command) error {
	switch {
	case p.Isolation() == policy.FullIsolation:
		return fault.New(fault.SandboxMissing, "the policies require full isolation, and macOS has seatbelt, which is weaker").
			ForOperator("isolation: landlock in every policy of the chain accepts it, unless a flow of labelled data needs more; or use Linux, also in a virtual machine")
	case c.Folder != nil:
		return needsLinux("a command with a folder of its own")
	case c.Stdio != nil && c.Stdio.Terminal != nil:
		return needsLinux("a terminal of the command's own")
	case len(c.Services) > 0:
		return needsLinux("a socket that Remit serves")
	case len(c.Publish) > 0:
		return needsLinux("a published port")
	case c.Observe:
		return needsLinux("observing a command")
	case c.Proxy != nil: // it may take whoever connects for the command
		return needsLinux("a program that outlives its call")
	}
	return nil
}

// prepared is a command on its way.
type prepared struct {
	prof sandbox.Profile
	exe  string
}

// prepare looks the command up, has it checked, and computes the profile.
func (b *Box) prepare(ctx context.Context, chain policy.Chain, limits policy.Limits, c sandbox.Command, check func(dir, exe string, names []string) error) (prepared, error) {
	if err := needsFull(chain, c); err != nil {
		return prepared{}, err
	}
	dir, err := canonical(c.Dir)
	if st, serr := os.Stat(c.Dir); err != nil || serr != nil || !st.IsDir() {
		return prepared{}, fault.New(fault.ArgsInvalid, "the working folder %q is not a folder", c.Dir)
	}
	exe, names, err := sandbox.LookupIn(same, limits.Path, c.Argv[0], dir)
	if err != nil {
		return prepared{}, err
	}
	if err := check(dir, exe, names); err != nil {
		return prepared{}, err
	}
	state := b.conf.State
	if real, err := canonical(state); err == nil && state != "" {
		state = real
	}
	in := sandbox.Inputs{Chain: chain, Limits: limits, System: system(limits.Path, chain.StandardSystem()), Dir: dir, Exe: exe, State: state,
		Proxy: b.conf.Egress != nil, Isolation: policy.LandlockIsolation, Seatbelt: true}
	if err := fill(ctx, &in); err != nil {
		return prepared{}, err
	}
	prof, err := sandbox.Compile(in)
	if err != nil {
		return prepared{}, err
	}
	prof.Removable = slices.DeleteFunc(prof.Removable, func(dir string) bool {
		st, err := os.Lstat(dir)
		return err != nil || !st.IsDir()
	})
	if len(chain.Sockets()) > 0 || chain.Agent() {
		prof.Notes = append(prof.Notes, "the sockets and keys that the policy names are out of reach: they need full isolation")
	}
	if _, over := sandbox.Cover(prof.Mounts, dir); over != nil && over.Kind == sandbox.Mask {
		return prepared{}, fault.New(fault.HandleRefused, "the working folder %q is not readable under the policy", c.Dir)
	}
	return prepared{prof: prof, exe: exe}, nil
}

// Profile says what a command would get to see and use under a chain of policies. Nothing
// is run.
func (b *Box) Profile(chain policy.Chain, c sandbox.Command) (sandbox.Profile, error) {
	if err := sandbox.CheckArgs(c); err != nil {
		return sandbox.Profile{}, err
	}
	pr, err := b.prepare(context.Background(), chain, sandbox.WithDefaults(chain.Limits()), c, func(string, string, []string) error { return nil })
	return pr.prof, err
}

// Run runs one command under a permit and waits until its process group is gone. It is
// confined by what the permit's policies allow, or not run at all. As on Linux, a command
// that fails, is killed or runs out of time is a [sandbox.Outcome]; an error means that it
// did not run, or that ctx ended.
func (b *Box) Run(ctx context.Context, p permit.Permit, c sandbox.Command) (sandbox.Outcome, error) {
	defer c.Stdio.Close()
	if err := ctx.Err(); err != nil {
		return sandbox.Outcome{}, fault.Wrap(fault.ToolCancelled, err, "cancelled before the command started")
	}
	if err := sandbox.CheckArgs(c); err != nil {
		return sandbox.Outcome{}, err
	}
	if at := p.Chain().Placement(); !at.Allows(b.conf.Place) {
		return sandbox.Outcome{}, at.Refusal(b.conf.Place)
	}
	if _, err := b.Image(p.Limits(), ""); err != nil {
		return sandbox.Outcome{}, err
	}
	if p.Held() != nil {
		return sandbox.Outcome{}, needsLinux("holding the writes of a command")
	}
	limits := sandbox.WithDefaults(p.Limits())
	pr, err := b.prepare(ctx, p.Chain(), limits, c, func(dir, exe string, names []string) error {
		return sandbox.CheckCommand(ctx, p, view{}, same, c, dir, exe, names, limits.Path)
	})
	if err != nil {
		return sandbox.Outcome{}, sandbox.TellWhere(err, p.Env().Home, c.Argv[0])
	}
	tmp, err := newScratch()
	if err != nil {
		return sandbox.Outcome{}, fault.Wrap(fault.ToolFailed, err, "a folder for the command's own files cannot be made: %v", sandbox.RootCause(err))
	}
	defer func() { _ = walk.Remove(tmp) }() // the system clears its temporary folder
	env, err := sandbox.Environ(b.conf.Getenv, nil, p.Chain(), limits, c, filepath.Join(tmp, "home"), tmp)
	if err == nil {
		env, _, err = sandbox.AddSecrets(p, c, b.conf.Secret, env)
	}
	if err != nil {
		return sandbox.Outcome{}, err
	}
	out, err := b.exit(p, c, pr.prof, tmp)
	if err != nil {
		return sandbox.Outcome{}, err
	}
	defer out.close()
	text, err := Compile(pr.prof, Own{Tmp: tmp, Port: out.port, MayWrite: func(at string) bool {
		return p.Chain().DecideAction(tool.Action{Kind: tool.FileWrite, Path: at, Real: at}).Effect == policy.Allow
	}})
	if err != nil {
		return sandbox.Outcome{}, err
	}
	r := run{b: b, p: p, c: c, prepared: pr, text: text, env: sandbox.WithVariables(env, out.vars), tmp: tmp, out: out}
	return r.do(ctx)
}

// Probe returns the kinds of confinement that this machine supports.
func Probe() []sandbox.Layer {
	l := sandbox.Layer{Name: "isolation: landlock", Required: true, Detail: "Seatbelt by " + program +
		"; only if every policy of the chain allows it. Remit tests its profiles as text, and not on Apple hardware"}
	if st, err := os.Stat(program); err != nil || st.Mode().Perm()&0o111 == 0 {
		l.Detail, l.Hint = program+" is not there", "use Linux on amd64 or arm64, also in a virtual machine"
	} else {
		l.Available = true
	}
	full := sandbox.Layer{Name: "isolation: full", Detail: "not on " + runtime.GOOS + ": it has no namespaces", Hint: "use Linux on amd64 or arm64, also in a virtual machine"}
	limits := sandbox.Layer{Name: "limits", Available: true, Detail: "processor time, open files and file sizes of each process (rlimit), output, and the time limit of the command; memory and the number of processes are not limited"}
	return []sandbox.Layer{l, full, limits}
}
