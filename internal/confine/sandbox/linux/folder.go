//go:build linux && (amd64 || arm64)

package linux

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/walk"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

const (
	foldersIn   = "boxes"   // below Remit's own folder
	folderStale = time.Hour // after which a folder that nobody holds is left over
)

// NewFolder makes an empty folder for a command of a call that is under way, and
// says how many bytes and files it may hold. A command that makes more is
// killed; what it wrote between two looks comes on top.
func (b *Box) NewFolder(p permit.Permit, bytes int64, files int) (*sandbox.Folder, error) {
	if !p.Live() {
		return nil, fault.New(fault.HandleRefused, "the call that the folder is for is over")
	}
	in := b.state()
	if in == "" {
		in = os.TempDir()
	} else {
		in = filepath.Join(in, foldersIn)
		if err := os.MkdirAll(in, 0o700); err != nil {
			return nil, noFolder(err)
		}
	}
	in, err := filepath.EvalSymlinks(in)
	if err != nil {
		return nil, noFolder(err)
	}
	removeStale(in)
	dir, err := os.MkdirTemp(in, "remit-box-")
	if err != nil {
		return nil, noFolder(err)
	}
	lock, err := os.Open(dir)
	if err == nil {
		err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	}
	var f *sandbox.Folder
	if err == nil {
		f, err = sandbox.OpenFolder(dir, lock, bytes, files)
	}
	if err != nil {
		return nil, noFolder(errors.Join(err, os.RemoveAll(dir)))
	}
	return f, nil
}

func noFolder(err error) error {
	return fault.Wrap(fault.ToolFailed, err, "no folder can be made for the command: %v", sandbox.RootCause(err))
}

// removeStale removes folders that a process left behind when it died: old ones without
// a lock.
func removeStale(in string) {
	list, err := filepath.Glob(filepath.Join(in, "remit-box-*"))
	if err != nil {
		return
	}
	for _, dir := range list {
		st, err := os.Lstat(dir)
		if err != nil || !st.IsDir() || time.Since(st.ModTime()) < folderStale {
			continue
		}
		d, err := os.OpenFile(dir, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_DIRECTORY, 0)
		if err != nil {
			continue
		}
		if unix.Flock(int(d.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			_ = walk.Remove(dir) // the next one tries again
		}
		_ = d.Close() // nothing was written through it
	}
}

// folderEvery is how often a folder is looked at while its command runs.
const folderEvery = 200 * time.Millisecond

// watchFolder runs a command that may have a folder, and ends it when that holds too
// much.
func watchFolder(ctx context.Context, f *sandbox.Folder, do func(context.Context) (sandbox.Outcome, error)) (sandbox.Outcome, error) {
	if f == nil {
		return do(ctx)
	}
	inner, end := context.WithCancelCause(ctx)
	full := make(chan error, 1)
	go func() {
		full <- fullFolder(inner, f)
		end(nil)
	}()
	out, err := do(inner)
	end(nil)
	why := <-full
	if why == nil || ctx.Err() != nil || !errors.Is(err, fault.ToolCancelled) {
		return out, err
	}
	out.ExitCode, out.Signal, out.Limit = -1, "SIGKILL", fault.Message(why)
	return out, nil
}

// fullFolder waits until the folder holds too much, and gives the error, or until ctx
// ends.
func fullFolder(ctx context.Context, f *sandbox.Folder) error {
	look := time.NewTicker(folderEvery)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-look.C:
			if _, err := f.Files(ctx); errors.Is(err, fault.LimitReached) {
				return err
			}
		}
	}
}

// folderDir checks the working folder of a command that has a Folder. It gives
// the same.
func folderDir(c sandbox.Command) (string, error) {
	if c.Dir != sandbox.FolderAt {
		return "", fault.New(fault.ArgsInvalid, "the working folder is %s, not %q", sandbox.FolderAt, c.Dir)
	}
	if !c.Shell && filepath.Base(c.Argv[0]) != c.Argv[0] {
		return "", fault.New(fault.ArgsInvalid, "%q is a path: a command with a folder of its own is named as on the trusted PATH", c.Argv[0])
	}
	return c.Dir, nil
}
