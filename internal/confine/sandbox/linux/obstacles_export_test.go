//go:build linux && (amd64 || arm64)

package linux

import (
	"io/fs"

	"github.com/remitrun/remit/internal/confine/sandbox"
)

// Obstacles names what is in the way by the files of a /proc and the refused calls.
func Obstacles(proc fs.FS, root bool, refused ...string) []sandbox.Layer {
	return surroundings{proc: proc, root: root, refused: refused}.obstacles()
}
