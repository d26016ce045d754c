package policy

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/remitrun/remit/internal/base/tool"
)

// FilesDigest identifies what the chain decides about files: this program decides each path
// alike under two chains with the same digest. ok is false for a chain that has none.
func (c Chain) FilesDigest() (d tool.Digest, ok bool) {
	h := sha256.New()
	write := func(parts ...string) {
		for _, p := range parts {
			_, _ = h.Write(binary.AppendUvarint(nil, uint64(len(p)))) // a hash takes everything
			_, _ = h.Write([]byte(p))
		}
	}
	for _, r := range c {
		if r == nil || r.policy == nil || len(r.policy.src) == 0 {
			return d, false
		}
		write(string(r.policy.src), r.env.Workspace, r.env.Home, r.env.State, r.own, r.env.Repository)
	}
	return tool.Digest(h.Sum(nil)), len(c) > 0
}
