//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
	"github.com/remitrun/remit/internal/confine/sandbox/spawn"
)

// layers is what a command of a held run gets instead of the workspace: an
// overlay, mounted anew inside its sandbox. The nil layers are none.
type layers struct {
	lower, upper, work string
	source             string // the folder that is mounted as lower; on a worker it has another path
	root               int    // of both together, while the command is prepared
	held               permit.Held
}

// elsewhere are held layers over a copy of the workspace.
type elsewhere interface {
	Workspace() string // the path at which commands see the copy
}

// layers takes a held run's layers for one command alone, until leave is
// called. Whoever else would write to them waits: the kernel does not let two
// overlays share an upper layer.
func (b *Box) layers(ctx context.Context, p permit.Permit) (l *layers, leave func(), err error) {
	h := p.Held()
	if h == nil {
		return nil, func() {}, nil
	}
	if err := h.Room(ctx, 1); err != nil { // not even a byte
		return nil, nil, err
	}
	l = &layers{root: -1, held: h}
	var done func()
	if l.source, l.upper, l.work, done, err = h.Alone(ctx); err != nil {
		return nil, nil, err
	}
	l.lower = l.source
	if e, ok := h.(elsewhere); ok {
		l.lower = e.Workspace()
	}
	if l.root, err = b.look(l.source, l.upper); err != nil {
		done()
		return nil, nil, err
	}
	return l, func() { l.close(); done() }, nil
}

// close closes the descriptors that were only needed to prepare the command.
func (l *layers) close() {
	if l != nil && l.root >= 0 {
		_ = unix.Close(l.root) // nothing was written through it
		l.root = -1
	}
}

// bounded runs a command of a held run, and ends it when the layer holds too
// much. The kernel has no quota for a folder, so bytes that are written between
// two looks, and until the command is dead, come on top.
func (l *layers) bounded(ctx context.Context, do func(context.Context) (sandbox.Outcome, error)) (sandbox.Outcome, error) {
	if l == nil {
		return do(ctx)
	}
	ctx, end := context.WithCancelCause(ctx)
	full := make(chan error, 1)
	go func() {
		full <- l.watch(ctx)
		end(nil)
	}()
	out, err := do(ctx)
	end(nil)
	why := <-full
	if why == nil || err != nil && !errors.Is(err, fault.ToolCancelled) {
		return out, err
	}
	var limit *fault.Error
	if !errors.As(why, &limit) || limit.Code != fault.LimitReached {
		return out, why
	}
	out.ExitCode, out.Signal, out.Limit = -1, "SIGKILL", limit.Msg
	return out, nil
}

// watch waits until the layer holds too much, and gives the error, or until ctx
// ends.
func (l *layers) watch(ctx context.Context) error {
	for look := time.NewTicker(sandbox.HeldInterval); ; {
		select {
		case <-ctx.Done():
			look.Stop()
			return nil
		case <-look.C:
			if err := l.held.Room(ctx, 0); err != nil && !errors.Is(err, ctx.Err()) {
				look.Stop()
				return err
			}
		}
	}
}

// limits adds what holds of a held run.
func (l *layers) limits(out map[string]string, p sandbox.Profile) {
	if l != nil {
		out["disk"] += fmt.Sprintf("; %s of held changes of the run (looked at every %v, then killed)", size(p.Disk), sandbox.HeldInterval)
	}
}

// Contents fills in the content of the files that commands name, see
// [sandbox.Contents]: as a run's held writes leave them, if held is not nil.
func (b *Box) Contents(ctx context.Context, held permit.Held, workspace string, chain policy.Chain, actions []tool.Action) error {
	var l *layers
	if held != nil && slices.ContainsFunc(actions, func(a tool.Action) bool { return a.Kind == tool.Command }) {
		root, leave, err := held.Enter(ctx)
		if err != nil {
			return err
		}
		defer leave()
		l = &layers{lower: workspace, root: root}
	}
	return sandbox.Contents(ctx, l, chain, actions)
}

// folder is the workspace that the layers stand for, or "".
func (l *layers) folder() string {
	if l == nil {
		return ""
	}
	return l.lower
}

// At is where a path that the command will see can be looked at now.
func (l *layers) At(p string) string {
	if l == nil || !sandbox.Within(p, l.lower) {
		return p
	}
	return fmt.Sprintf("/proc/self/fd/%d/.%s", l.root, strings.TrimPrefix(p, strings.TrimSuffix(l.lower, "/")))
}

// lookup is At for every prefix of a path: a name above a copied workspace is only a folder.
func (l *layers) lookup(p string) string {
	if l != nil && l.source != l.lower && p != l.lower && sandbox.Within(l.lower, p) {
		return "/"
	}
	return l.At(p)
}

// isFolder reports whether a path without links is a folder.
func (l *layers) isFolder(p string) bool {
	if l == nil || l.source == l.lower || !sandbox.Within(p, l.lower) {
		return isFolder(p)
	}
	st, err := os.Lstat(l.At(p))
	return err == nil && st.IsDir()
}

// errLinkedIn: within the layers no link is followed for a command.
var errLinkedIn = errors.New("a symbolic link is on the way")

// real resolves a path's links as the command will find them. In the layers
// there must be none.
func (l *layers) real(p string) (string, error) {
	if l == nil || !sandbox.Within(p, l.lower) {
		real, err := realPath(p)
		if err == nil && l != nil && sandbox.Within(real, l.lower) {
			return l.real(real)
		}
		return real, err
	}
	for d := p; d != l.lower; d = filepath.Dir(d) {
		st, err := os.Lstat(l.At(d))
		if err != nil {
			return "", err
		}
		if st.Mode()&fs.ModeSymlink != 0 {
			return "", errLinkedIn
		}
	}
	return p, nil
}

// layer mounts the overlay of a held run where its parts can be taken from.
func (b *builder) layer(l *layers) {
	if l == nil {
		return
	}
	b.held, b.holds = b.overlay([3]string{l.source, l.upper, l.work}), l.lower
	name := b.hollow()
	b.Call("overlay", unix.SYS_MOVE_MOUNT, spawn.From(b.held), b.Text(""), spawn.From(b.tree.hidden), b.Text(name), spawn.Int(unix.MOVE_MOUNT_F_EMPTY_PATH))
}

// layered shows a part of the overlay at its place.
func (b *builder) layered(p string, attr uint64) {
	step := fmt.Sprintf("bind %q", p)
	inside := strings.TrimPrefix(strings.TrimPrefix(p, strings.TrimSuffix(b.holds, "/")), "/")
	if inside == "" {
		inside = "."
	}
	b.open(step, b.fs, spawn.From(b.held), inside, unix.O_NOFOLLOW, noLinks)
	b.clone(step, spawn.From(b.fs), "", unix.AT_EMPTY_PATH, attr, p)
	b.Call(step, unix.SYS_CLOSE, spawn.From(b.fs))
}

// unlayer takes the overlay's own place away; mounts of its parts stay.
func (b *builder) unlayer() {
	if b.holds != "" {
		b.Call("overlay", unix.SYS_FCHDIR, spawn.From(b.held))
		b.Call("overlay", unix.SYS_UMOUNT2, b.Text("."), spawn.Int(unix.MNT_DETACH))
	}
}

// notInLayers explains why a folder cannot be entered.
func notInLayers(dir string, err error) error {
	if errors.Is(err, errLinkedIn) {
		return fault.New(fault.HandleRefused, "the working folder %q cannot be entered: the run's writes are held, and a symbolic link leads there", dir)
	}
	return fault.Wrap(fault.NotFound, err, "the working folder %q cannot be entered: %v", dir, sandbox.RootCause(err))
}
