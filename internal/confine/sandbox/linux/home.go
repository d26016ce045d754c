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

// keptHome is where the home of a command is kept: one for the same workspace, policies and system. "": its home ends with
// its sandbox.
func (b *Box) keptHome(chain policy.Chain, c command) string {
	if !chain.KeepsHome() || chain.Own() != "" || c.Folder != nil || c.layers != nil || b.conf.Place != policy.Local || b.conf.State == "" {
		return ""
	}
	of := []string{chain[0].Env().Workspace}
	if c.image != nil {
		of = append(of, c.image.Digest)
	}
	for _, r := range chain {
		of = append(of, r.Policy().Name())
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
		if err := os.MkdirAll(m.From, 0o700); err != nil {
			return fault.Wrap(fault.ToolFailed, err, "the folder that is the command's home cannot be made: %v", sandbox.RootCause(err)).
				ForOperator("look at %s; sandbox.home: fresh needs none", filepath.Dir(m.From))
		}
	}
	return nil
}
