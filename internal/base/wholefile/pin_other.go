//go:build !linux

package wholefile

// Elsewhere no sandbox mounts anything.
func lockPin(int) error { return nil }

func hasPin(int) bool { return false }
