// Package tree describes a folder by digests, so that it can be sent to another machine:
// only the missing files are sent, and that machine can check all of it. The messages have the
// shape of the Bazel Remote Execution API's Directory, FileNode and SymlinkNode, as JSON.
// Start at [Scan] and [Make].
package tree

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

// Digest identifies the content of a file, or an encoded Directory.
type Digest struct {
	Hash string `json:"hash"` // SHA-256, lower-case hexadecimal
	Size int64  `json:"size_bytes"`
}

// DigestOf is the digest of a text.
func DigestOf(b []byte) Digest {
	h := sha256.Sum256(b)
	return Digest{hex.EncodeToString(h[:]), int64(len(b))}
}

// CheckHash reports whether a text is a digest's hash, so that it can be a file's name.
func CheckHash(hash string) error {
	b, err := hex.DecodeString(hash)
	if err != nil || len(b) != sha256.Size || strings.ToLower(hash) != hash {
		return invalid("%q is not a digest", hash)
	}
	return nil
}

// Directory is one folder.
type Directory struct {
	Files       []File   `json:"files,omitempty"`
	Directories []Folder `json:"directories,omitempty"`
	Symlinks    []Link   `json:"symlinks,omitempty"`
	Mode        uint32   `json:"unix_mode"`
}

// File is a file in a folder.
type File struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
	Mode   uint32 `json:"unix_mode"`
}

// Folder is a folder in a folder; the digest is of its Directory.
type Folder struct {
	Name   string `json:"name"`
	Digest Digest `json:"digest"`
}

// Link is a symbolic link, as it is written.
type Link struct {
	Name   string `json:"name"`
	Target string `json:"target"`
}

// Limits of one tree, and of one encoded Directory.
const (
	MaxNames     = 200_000
	MaxBytes     = 4 << 30
	MaxDirectory = 64 << 20
	maxDepth     = 200
)

func invalid(format string, args ...any) error {
	return fault.New(fault.ArgsInvalid, "the sent files are refused: "+format, args...)
}

// CheckName refuses a name that is not the plain name of one file.
func CheckName(name string) error {
	switch {
	case name == "" || name == "." || name == ".." || len(name) > 255 || !utf8.ValidString(name):
		return invalid("%q is not a name of a file", name)
	case strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsControl(r) }):
		return invalid("the name %q contains a slash or a control character", name)
	}
	return nil
}

// CheckPath refuses a path that is not clean, relative, and below its root.
func CheckPath(p string) error {
	parts := strings.Split(p, "/")
	if len(parts) > maxDepth {
		return invalid("%q is too deep", p)
	}
	for _, name := range parts {
		if err := CheckName(name); err != nil {
			return err
		}
	}
	return nil
}

// CheckTarget refuses the target of a link at path p that leads out of the root.
func CheckTarget(p, target string) error {
	if target == "" || len(target) > 4095 || !utf8.ValidString(target) || strings.ContainsFunc(target, unicode.IsControl) || path.IsAbs(target) {
		return invalid("the link %q leads to %q", p, target)
	}
	if to := path.Join(path.Dir(p), target); to == ".." || strings.HasPrefix(to, "../") {
		return invalid("the link %q leads out of the folder", p)
	}
	return nil
}

// encode gives the one encoding of a directory, which its digest is of.
func (d *Directory) encode() ([]byte, error) {
	b, err := json.Marshal(d)
	if err == nil && len(b) > MaxDirectory {
		err = fault.New(fault.LimitReached, "a folder has too many names to be sent: its list has %d bytes, and the limit is %d", len(b), MaxDirectory)
	}
	return b, err
}

// decode reads a directory, and refuses names that are not in order or not plain.
func decode(b []byte) (Directory, error) {
	var d Directory
	if err := json.Unmarshal(b, &d); err != nil {
		return d, invalid("a folder's list cannot be read: %v", err)
	}
	seen, last := map[string]bool{}, ""
	name := func(s string) error {
		if seen[s] || s < last {
			return invalid("the name %q is out of order", s)
		}
		seen[s], last = true, s
		return CheckName(s)
	}
	for _, f := range d.Files {
		if err := name(f.Name); err != nil {
			return d, err
		}
		if err := CheckHash(f.Digest.Hash); err != nil || f.Digest.Size < 0 || f.Mode&^0o777 != 0 {
			return d, invalid("the file %q has no valid digest or mode", f.Name)
		}
	}
	last = ""
	for _, f := range d.Directories {
		if err := name(f.Name); err != nil {
			return d, err
		}
		if err := CheckHash(f.Digest.Hash); err != nil {
			return d, err
		}
	}
	last = ""
	for _, l := range d.Symlinks {
		if err := name(l.Name); err != nil {
			return d, err
		}
	}
	if d.Mode&^0o777 != 0 {
		return d, invalid("a folder has the mode %o", d.Mode)
	}
	return d, nil
}
