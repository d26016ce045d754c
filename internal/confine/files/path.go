package files

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// Bounds of a path, those of Linux (PATH_MAX, NAME_MAX), in bytes.
const (
	MaxPath = 4096
	MaxName = 255
)

// maxLinks is how many symbolic links one path may go through, as in Linux.
const maxLinks = 40

// Clean gives the absolute, lexically clean form of a path as a call writes it:
// relative to the workspace, nothing decoded or expanded ("~" and "%2e" are
// plain names). A path that climbs out of the workspace is not an error here:
// policy decides it. Clean reads nothing but its arguments.
//
// "a/../b" is cleaned to "b" even if a is a symbolic link; the handle opens the
// cleaned path, so the decided path is the opened one.
func Clean(env tool.Env, asked string) (string, error) {
	switch {
	case asked == "":
		return "", fault.New(fault.ArgsInvalid, "the path is empty").WithHint("the workspace itself is \".\"")
	case len(asked) > MaxPath:
		return "", fault.New(fault.ArgsInvalid, "the path has %d bytes, at most %d are possible", len(asked), MaxPath)
	case strings.IndexByte(asked, 0) >= 0:
		return "", fault.New(fault.ArgsInvalid, "the path %s holds a NUL byte", quote(asked))
	case !utf8.ValidString(asked):
		return "", fault.New(fault.ArgsInvalid, "the path %s is not UTF-8", quote(asked))
	}
	for name := range strings.SplitSeq(asked, "/") {
		if len(name) > MaxName {
			return "", fault.New(fault.ArgsInvalid, "the path %s has a name of %d bytes, at most %d are possible", quote(asked), len(name), MaxName)
		}
	}
	p := asked
	if !path.IsAbs(p) {
		if !path.IsAbs(env.Workspace) {
			return "", fault.New(fault.HandleRefused, "the path %s is relative and there is no workspace", quote(asked))
		}
		p = env.Workspace + "/" + p
	}
	if p = path.Clean(p); len(p) > MaxPath {
		return "", fault.New(fault.ArgsInvalid, "the path %s is too long within the workspace", quote(asked))
	}
	if climbs(asked) && inside(env.Workspace, p) {
		return "", fault.New(fault.ArgsInvalid, "the path %s leaves the workspace and comes back", quote(asked)).
			WithHint("write it relative to the workspace")
	}
	return p, nil
}

// climbs reports whether a relative path is above its start at any point.
func climbs(p string) bool {
	if path.IsAbs(p) {
		return false
	}
	depth := 0
	for name := range strings.SplitSeq(p, "/") {
		switch name {
		case "", ".":
		case "..":
			if depth--; depth < 0 {
				return true
			}
		default:
			depth++
		}
	}
	return false
}

// inside reports whether an absolute clean path is dir or beneath it.
func inside(dir, p string) bool {
	return p == dir || dir == "/" || dir != "" && strings.HasPrefix(p, dir+"/")
}

// Rel gives an absolute clean path as it is shown: relative to the workspace
// where it is inside it, else absolute.
func Rel(env tool.Env, abs string) string {
	if abs == env.Workspace {
		return "."
	}
	if env.Workspace != "/" {
		if r, ok := strings.CutPrefix(abs, env.Workspace+"/"); ok && env.Workspace != "" {
			return r
		}
		return abs
	}
	return strings.TrimPrefix(abs, "/")
}

// Resolve gives a path's facts: its clean form, and where it really is, with
// every symbolic link resolved as far as the path exists. A link whose target
// is missing resolves to that target, so that policy sees where a write would
// go. Loops and links of the process file system (/proc/self, /proc/*/fd,
// /dev/fd) are errors: they lead into Remit itself. So are links that leave the
// workspace and come back, absolute ones too, as in [os.Root]: where they end
// is up to what lies outside.
func Resolve(env tool.Env, asked string) (clean, real string, err error) {
	return ResolveIn(context.Background(), nil, env, asked) // nothing to wait for
}

// ResolveIn resolves a path as the calls of a run with held writes see it, once no
// command of the run uses the held files.
func ResolveIn(ctx context.Context, held permit.Held, env tool.Env, asked string) (clean, real string, err error) {
	clean, err = Clean(env, asked)
	if err != nil {
		return "", "", err
	}
	v := view{env.Workspace, -1}
	if held != nil {
		var leave func()
		if v.root, leave, err = held.Enter(ctx); err != nil {
			return "", "", err
		}
		defer leave()
	}
	if real, err = resolve(env, v, clean); err != nil {
		return "", "", about(env, clean, err)
	}
	return clean, real, nil
}

// RealPath gives the fact [tool.Action.Real] of an action on a file. If the action is about the entry of a folder, a link is
// not followed where it is the last name of the path.
func RealPath(ctx context.Context, held permit.Held, env tool.Env, a *tool.Action) (string, error) {
	if !a.Entry || a.Path == "/" {
		_, real, err := ResolveIn(ctx, held, env, a.Path)
		return real, err
	}
	_, dir, err := ResolveIn(ctx, held, env, path.Dir(a.Path))
	if err != nil {
		return "", err
	}
	return path.Join(dir, path.Base(a.Path)), nil
}

var (
	errLoop  = errors.New("too many symbolic links")
	errMagic = errors.New("a link of the process file system")
	errRound = errors.New("a link that leaves the workspace and comes back")
)

// resolve walks an absolute clean path by hand.
func resolve(env tool.Env, v view, p string) (string, error) {
	if v.isPlain(p) {
		return p, ofProcess(p)
	}
	w := walker{view: v, done: "/", rest: split(p)}
	within := inside(env.Workspace, p) && env.Workspace != "/"
	left := false
	for len(w.rest) > 0 {
		if err := w.step(); err != nil {
			return "", err
		}
		left = left || w.links > 0 && !inside(env.Workspace, w.done)
	}
	switch {
	case len(w.done) > MaxPath:
		return "", errLoop
	case within && left && inside(env.Workspace, w.done):
		return "", errRound
	}
	return w.done, ofProcess(w.done)
}

// walker is how far a path has been resolved: done is free of links.
type walker struct {
	view
	done    string
	rest    []string
	links   int
	missing bool // done does not exist
	file    bool // done is not a folder
}

// step takes one name.
func (w *walker) step() error {
	name := w.rest[0]
	w.rest = w.rest[1:]
	switch name {
	case "", ".":
		if w.file {
			return unix.ENOTDIR
		}
		return nil
	case "..": // of a link's target; done is free of links, so its parent is
		w.done, w.file = path.Dir(w.done), false
		return nil
	}
	next := path.Join(w.done, name)
	if w.missing || len(next) > MaxPath {
		w.done, w.missing = next, true
		return nil
	}
	mode, err := w.lstat(next)
	switch {
	case errors.Is(err, fs.ErrNotExist) || notDir(err):
		w.done, w.missing = next, true
		return nil
	case err != nil:
		return err
	case mode&fs.ModeSymlink == 0:
		w.done, w.file = next, !mode.IsDir()
		return nil
	}
	return w.follow(next)
}

func (w *walker) follow(link string) error {
	if w.links++; w.links > maxLinks {
		return errLoop
	}
	if !w.shows(w.done) && onProc(w.done) {
		return errMagic
	}
	to, err := w.readlink(link)
	if err != nil {
		return err
	}
	if path.IsAbs(to) {
		w.done = "/"
	}
	w.rest = append(split(to), w.rest...)
	return nil
}

// ofProcess refuses the folders of processes: memory, environment, descriptors.
func ofProcess(real string) error {
	rest, ok := strings.CutPrefix(real, "/proc/")
	if !ok {
		return nil
	}
	first, _, _ := strings.Cut(rest, "/")
	if _, err := strconv.Atoi(first); err == nil || first == "self" || first == "thread-self" {
		return errMagic
	}
	return nil
}

func split(p string) []string { return strings.Split(strings.TrimPrefix(p, "/"), "/") }

func quote(s string) string {
	if len(s) > 200 {
		return strconv.Quote(s[:200]) + "..."
	}
	return strconv.Quote(s)
}
