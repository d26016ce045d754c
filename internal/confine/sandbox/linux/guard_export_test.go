//go:build linux && (amd64 || arm64)

package linux

// BreakMoves makes the watch of moved files fail, as where the kernel refuses one.
func (b *Box) BreakMoves() error {
	if err := b.moves.add(&guard{}, nil); err != nil {
		return err
	}
	return b.moves.file.Close()
}

// Watched counts the files whose moves are watched.
func (b *Box) Watched() int {
	b.moves.mu.Lock()
	defer b.moves.mu.Unlock()
	return len(b.moves.guards)
}
