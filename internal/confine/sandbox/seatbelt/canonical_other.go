//go:build !darwin

package seatbelt

import "path/filepath"

// canonical is the path of a file without links.
func canonical(p string) (string, error) { return filepath.EvalSymlinks(p) }
