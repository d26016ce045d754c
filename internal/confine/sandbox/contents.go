package sandbox

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
)

// maxHashed bounds the bytes that are read for one command. A file that exceeds
// the rest is identified by inode, size and change time instead.
const maxHashed = 32 << 20

// maxPath bounds the names that are looked up: a path has at most 4096 bytes.
const maxPath = 3500

// maxNamed bounds the names that are looked up for one command.
const maxNamed = 4096

// View says where the files that a command will see are now.
type View interface {
	// At is the path of the host at which the file that the command sees at path
	// can be read: the same, but for the held writes of a run.
	At(path string) string
}

// Contents fills in the content of the files that commands name and that the
// chain permits to be written: programs, scripts, redirected input. It reads them where v says.
func Contents(ctx context.Context, v View, chain policy.Chain, actions []tool.Action) error {
	if !slices.ContainsFunc(actions, func(a tool.Action) bool { return a.Kind == tool.Command }) {
		return nil
	}
	for i := range actions {
		if err := fillContents(ctx, v, chain, &actions[i]); err != nil {
			return err
		}
	}
	return nil
}

// fillContents looks up the content for one action.
func fillContents(ctx context.Context, v View, chain policy.Chain, a *tool.Action) error {
	a.Contents = nil
	names, err := namedFiles(*a)
	if err != nil {
		return err
	}
	left := int64(maxHashed)
	seen := map[string]bool{}
	for _, name := range names {
		if err := ctx.Err(); err != nil {
			return err
		}
		real, err := resolve(v, name)
		if err != nil {
			real = filepath.Clean(name) // a missing file, or not a usable name
		}
		if seen[real] {
			continue
		}
		var state string
		switch {
		case writes(chain, real):
			if state, err = contentState(v.At(real), &left); err != nil {
				return fault.Wrap(fault.NeedsApproval, err, "needs approval, but the content of %q cannot be read: %v", name, RootCause(err))
			}
		case writes(chain, filepath.Clean(name)):
			state = "linked" // the link can be replaced, but not the file that it leads to
		}
		if seen[real] = true; state != "" {
			a.Contents = append(a.Contents, tool.Content{Path: real, State: state})
		}
	}
	return nil
}

func writes(chain policy.Chain, p string) bool {
	return chain.DecideAction(tool.Action{Kind: tool.FileWrite, Path: p, Real: p}).Effect != policy.Deny
}

// namedFiles are the absolute paths that an action's words may mean, the program
// first. They are not cleaned: "link/../x" is not always "x".
func namedFiles(a tool.Action) (out []string, err error) {
	if a.Argument != tool.NoArgument {
		return nil, nil // the command's own words name it
	}
	if a.Kind == tool.FileRead && filepath.IsAbs(a.Path) {
		return []string{a.Path}, nil
	}
	if a.Kind != tool.Command {
		return nil, nil
	}
	seen := map[string]bool{}
	add := func(w string) {
		if w == "" || strings.ContainsRune(w, 0) || len(w) > maxPath {
			return
		}
		if !filepath.IsAbs(w) {
			w = a.Dir + "/" + w
		}
		if filepath.IsAbs(w) && !seen[w] {
			seen[w] = true
			out = append(out, w)
		}
	}
	add(a.Exe)
	operands := false // the next words are not options
	for i, w := range a.Argv {
		if i == 0 && !strings.Contains(w, "/") {
			continue // searched for in PATH: that is Exe
		}
		option := strings.HasPrefix(w, "-") && !operands
		if operands = operands || w == "--"; !option {
			add(w)
		}
		if _, value, ok := strings.Cut(w, "="); ok {
			add(value) // --file=x, if=x
		} else if option && len(w) > 2 && w[1] != '-' {
			add(w[2:]) // -fx
		}
	}
	if len(out) > maxNamed {
		return nil, fault.New(fault.NeedsApproval, "needs approval, but %q names more than %d files", a.Argv[0], maxNamed).
			WithHint("use several commands with fewer arguments")
	}
	return out, nil
}

// resolve follows the symbolic links of a path as a program in the sandbox does.
func resolve(v View, p string) (string, error) {
	done, rest := "/", strings.Split(p, "/")
	for links := 0; len(rest) > 0; {
		name := rest[0]
		rest = rest[1:]
		switch name {
		case "", ".":
			continue
		case "..":
			done = filepath.Dir(done)
			continue
		}
		next := filepath.Join(done, name)
		to, err := os.Readlink(v.At(next))
		switch {
		case errors.Is(err, syscall.EINVAL): // not a link
			done = next
			continue
		case err != nil:
			return "", err
		}
		if links++; links > maxLinks {
			return "", syscall.ELOOP
		}
		if filepath.IsAbs(to) {
			done = "/"
		}
		rest = append(strings.Split(to, "/"), rest...)
	}
	return done, nil
}

// contentState describes the file at a path: its digest, "absent", or "" if it is
// not a regular file. It takes the bytes that it reads from left.
func contentState(p string, left *int64) (string, error) {
	st, err := os.Lstat(p)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "absent", nil
	case err != nil || !st.Mode().IsRegular():
		return "", nil // a program cannot open it either, or it is a folder, a device or a broken link
	}
	f, err := openContent(p)
	if err != nil {
		return "", err
	}
	defer func() { _ = f.Close() }() // only read from
	if st, err = f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", errors.Join(err, errors.New("it is being replaced"))
	}
	if st.Size() > *left {
		return largeState(st), nil
	}
	h := sha256.New()
	n, err := io.Copy(h, io.LimitReader(f, *left+1))
	if err != nil || n > *left {
		return "", errors.Join(err, errors.New("it is being written to"))
	}
	*left -= n
	return fmt.Sprintf("sha256:%x", h.Sum(nil)), nil
}

// VerifyContents refuses an action that a person approved while its files had other
// content.
func VerifyContents(ctx context.Context, p permit.Permit, v View, a tool.Action) error {
	approved, ok := p.ApprovedContents(a)
	if !ok {
		return nil
	}
	if err := fillContents(ctx, v, p.Chain(), &a); err != nil {
		return err
	}
	if slices.Equal(a.Contents, approved) {
		return nil
	}
	return fault.New(fault.HandleRefused, "%s: its files have changed since it was approved", a).
		WithHint("run it again to be asked about the new content")
}
