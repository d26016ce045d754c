//go:build linux && (amd64 || arm64)

package linux

import (
	"errors"

	"github.com/remitrun/remit/internal/authority/policy"
	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Image is the image whose system commands see under these limits; nil: they see the
// machine's. It is the same for the decision about a command and for the command itself.
func (b *Box) Image(l policy.Limits, workspace string) (*sandbox.Image, error) {
	if l.Image == "" || b.conf.Place != policy.Local {
		return nil, nil
	}
	img, err := (*sandbox.Image)(nil), error(fault.New(fault.SandboxMissing, "the policy says where: container, and images are not available here"))
	if b.conf.Image != nil {
		img, err = b.conf.Image(l.Image, workspace)
	}
	if errors.Is(err, fault.SandboxMissing) && l.ImageOrLocal {
		return nil, nil
	}
	return img, err
}
