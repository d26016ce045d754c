//go:build linux && (amd64 || arm64)

package linux

// OverlayThere is how an ordinary user's overlay is mounted, for tests.
func (b *Box) OverlayThere(lower, upper, work string) (int, error) {
	return b.overlayThere([3]string{lower, upper, work})
}
