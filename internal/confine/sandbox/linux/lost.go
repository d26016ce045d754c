//go:build linux && (amd64 || arm64)

package linux

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/tool"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// maxLost bounds the size of a file whose content is compared and put back.
const maxLost = 64 << 10

// judge looks at the files whose protection was lost, of which the command may have written
// some, and adds to the error what became of them.
func (g *guard) judge(err error) error {
	var coded *fault.Error
	if g == nil || len(g.lost) == 0 || !errors.As(err, &coded) {
		return err
	}
	text := coded.Msg
	for _, m := range g.marks {
		if !slices.Contains(g.lost, m.Path) || !m.gains() {
			continue
		}
		if what := m.judge(); what != "" {
			text += "; " + what
		}
	}
	return fault.Wrap(coded.Code, err, "%s", text).WithHint("%s", coded.Hint)
}

// judge compares a path with its earlier content. Whether the
// command wrote it or the program that replaced the file, nothing tells.
func (m mark) judge() string {
	root, err := os.OpenRoot(path.Dir(m.Path))
	if err != nil {
		return "" // it is gone
	}
	defer func() { _ = root.Close() }() // its own changes are synced by nobody
	name := path.Base(m.Path)
	st, err := root.Lstat(name)
	if err != nil {
		return "" // it is gone
	}
	now, readable := []byte(nil), false
	if st.Mode().IsRegular() {
		now, readable = readLost(root, name)
	}
	part := ""
	if i := strings.LastIndex(strings.ToLower(m.Path), "/.git/"); i >= 0 {
		part = m.Path[i+len("/.git/"):]
	}
	switch {
	case m.known && readable && bytes.Equal(m.was, now):
		return ""
	case part == "hooks" && st.IsDir() && onlySamples(root, name):
		return ""
	case strings.HasPrefix(part, "config") && readable && harmlessConfig(now, m.was):
		return ""
	case !steers(m.Path):
		return fmt.Sprintf("%q may hold what the command wrote at that moment: compare it with what you expect", m.Path)
	}
	return m.restore(root, name)
}

// restore renames a file that other programs run, and puts the earlier content back.
func (m mark) restore(root *os.Root, name string) string {
	to := name + ".refused-" + strings.ToLower(rand.Text()[:8])
	if err := root.Rename(name, to); err != nil {
		return fmt.Sprintf("%q can make other programs run what the command wrote, and could not be renamed: look at it before you use it", m.Path)
	}
	said := fmt.Sprintf("%q can make other programs run what it names, and the command could write it at that moment: it is %q now", m.Path, to)
	if !m.known {
		return said
	}
	f, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, m.mode)
	if err == nil {
		_, err = f.Write(m.was)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return said + ", and the earlier content could not be put back"
	}
	return said + ", and the earlier content is back"
}

// remember keeps the content of a file that other programs run, if the command could write it
// once its protection is gone. Afterwards nothing tells: while the kernel replaces a name, it
// takes the mount away first, so that for an instant the old file itself can be written.
func (m *mark) remember() {
	if m.pin < 0 || m.Folder || !m.gains() || !steers(m.Path) {
		return
	}
	var st unix.Stat_t
	b := make([]byte, maxLost+1)
	n, err := unix.Pread(m.pin, b, 0)
	err = errors.Join(err, unix.Fstat(m.pin, &st))
	m.mode = os.FileMode(st.Mode & 0o777)
	if m.known = err == nil && n <= maxLost; m.known {
		m.was = bytes.Clone(b[:n])
	}
}

// gains reports whether the command could write at the path without the mount.
func (m *mark) gains() bool {
	return m.Access&sandbox.WriteOnly == 0 && m.around&sandbox.WriteOnly != 0
}

func readLost(root *os.Root, name string) ([]byte, bool) {
	f, err := root.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, false
	}
	defer func() { _ = f.Close() }() // only read
	b, err := io.ReadAll(io.LimitReader(f, maxLost+1))
	return b, err == nil && len(b) <= maxLost
}

// steers reports whether a file of that name controls other programs, see [policy.Sensitive].
func steers(p string) bool {
	chain, err := everything()
	if err != nil {
		return true
	}
	may := func(kind tool.ActionKind) bool {
		return chain.DecideAction(tool.Action{Kind: kind, Path: p, Real: p}).Effect == policy.Allow
	}
	return !may(tool.FileWrite) && may(tool.FileRead)
}

// everything is a policy of files with nothing but the protection of sensitive names.
var everything = sync.OnceValues(func() (policy.Chain, error) {
	p, err := policy.Parse("names", []byte("version: 1\nname: names\nfiles: {read: {allow: [\"**\"]}, write: {allow: [\"**\"]}}\n"))
	if err != nil {
		return nil, err
	}
	rules, err := p.Bind(policy.Env{Workspace: "/"})
	return policy.Chain{rules}, err
})
