//go:build linux && (amd64 || arm64)

package linux

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"golang.org/x/sys/unix"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/repository"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// homesIn is the folder of kept homes below Remit's own folder.
const homesIn = "homes"

const maxHomeName = 40 // bytes of the workspace's name in that of a home

// keptHome is where the home of a command is kept: one for the same workspace, system, data and policies. Data with a label
// comes to no command without the label by it. "": the home ends with its sandbox.
func (b *Box) keptHome(chain policy.Chain, c command) string {
	if !chain.KeepsHome() || chain.Own() != c.Scratch || c.Folder != nil || c.layers != nil || b.conf.Place != policy.Local || b.conf.State == "" {
		return ""
	}
	of := append([]string{chain[0].Env().Workspace, "policy " + chain[0].Policy().Name()}, chain.Data()...)
	if c.image != nil {
		of = append(of, "image "+c.image.Digest)
	}
	for _, r := range chain[1:] { // of a grant: anybody can narrow one, and give the policy any name
		of = append(of, "policy "+r.Policy().Name()+" "+r.Policy().Digest().String())
	}
	sum := sha256.Sum256([]byte(strings.Join(of, "\x00")))
	name := strings.Map(func(r rune) rune {
		if r < 0x80 && (unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_') {
			return r
		}
		return '_'
	}, filepath.Base(of[0]))
	return filepath.Join(b.state(), homesIn, name[:min(len(name), maxHomeName)]+"-"+hex.EncodeToString(sum[:8]))
}

// isHome reports whether a mount is a kept home.
func isHome(m sandbox.Mount) bool { return m.Path == sandbox.HomeAt && m.From != "" }

// makeHome makes the kept home of a command, if it has one.
func makeHome(prof sandbox.Profile) error {
	for _, m := range prof.Mounts {
		if !isHome(m) {
			continue
		}
		err := os.MkdirAll(m.From, 0o700)
		if st, lerr := os.Lstat(m.From); lerr == nil && st.IsDir() && st.Mode().Perm() != 0o700 {
			err = os.Chmod(m.From, 0o700) // a command changed it
		}
		if err == nil {
			err = copySettings(m.From, prof.Git)
		}
		if err != nil {
			return fault.Wrap(fault.ToolFailed, err, "the folder that is the command's home cannot be made: %v", sandbox.RootCause(err)).
				ForOperator("look at %s; sandbox.home: fresh needs none", filepath.Dir(m.From))
		}
	}
	return nil
}

// homeGit is the file of a home folder with Git's settings.
const homeGit = ".gitconfig"

// copySettings writes the person's plain Git settings to a kept home, unless a command wrote other ones there.
func copySettings(home, settings string) error {
	in, err := os.OpenRoot(home)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	had, ours, err := hadSettings(in)
	switch want := repository.Copy(settings); {
	case err != nil || !ours || had == want || had == "" && settings == "":
		return err
	case settings == "":
		return in.Remove(homeGit)
	default:
		return replaceSettings(in, want)
	}
}

// hadSettings reads the settings of a kept home. ours: there are none, or an earlier copy.
func hadSettings(in *os.Root) (text string, ours bool, err error) {
	f, err := in.OpenFile(homeGit, os.O_RDONLY|unix.O_NONBLOCK, 0)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		_, err = in.Lstat(homeGit)
		return "", errors.Is(err, fs.ErrNotExist), nil
	case err != nil:
		return "", false, nil // a command made something else of it
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return "", false, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxCopy))
	return string(b), repository.IsCopy(string(b)), err
}

// maxCopy is the number of bytes to read of the settings in a kept home. A copy is smaller.
const maxCopy = 64 << 10

// replaceSettings replaces the settings of a kept home as Git does, which another command may be using. While Git itself
// replaces them, they stay.
func replaceSettings(in *os.Root, text string) error {
	const lock = homeGit + ".lock"
	f, err := in.OpenFile(lock, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = f.WriteString(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = in.Rename(lock, homeGit)
	}
	if err != nil {
		err = errors.Join(err, in.Remove(lock))
	}
	return err
}
