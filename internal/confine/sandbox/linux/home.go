//go:build linux && (amd64 || arm64)

package linux

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"unicode"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// homesIn is the folder of kept homes below Remit's own folder.
const homesIn = "homes"

const maxHomeName = 40 // bytes of the workspace's name in that of a home

// keptHome is where the home of a command is kept: one for the same workspace, system, data and policies. Data with a label
// comes to no command without the label by it. "": the home ends with its sandbox.
func (b *Box) keptHome(chain policy.Chain, c command) string {
	if !chain.KeepsHome() || chain.Own() != "" || c.Folder != nil || c.layers != nil || b.conf.Place != policy.Local || b.conf.State == "" {
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

// makeHome makes the kept home of a command, if it has one.
func makeHome(prof sandbox.Profile) error {
	for _, m := range prof.Mounts {
		if m.Path != sandbox.HomeAt || m.From == "" {
			continue
		}
		err := os.MkdirAll(m.From, 0o700)
		if st, lerr := os.Lstat(m.From); lerr == nil && st.IsDir() && st.Mode().Perm() != 0o700 {
			err = os.Chmod(m.From, 0o700) // a command changed it
		}
		if err != nil {
			return fault.Wrap(fault.ToolFailed, err, "the folder that is the command's home cannot be made: %v", sandbox.RootCause(err)).
				ForOperator("look at %s; sandbox.home: fresh needs none", filepath.Dir(m.From))
		}
	}
	return nil
}
