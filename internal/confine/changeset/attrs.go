package changeset

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// maxAttrs bounds the extended attributes of one file, bytes.
const maxAttrs = 64 << 10

// system attributes are the machine's to give: each file system and security
// module labels new files by its own rules.
var systemAttrs = []string{"security.selinux", "security.ima", "security.evm", "security.apparmor", "security.SMACK64",
	"system.nfs4_acl", "system.cifs_acl", "btrfs.compression", "trusted.lov", "trusted.lma"}

// overlayMark gives the name of an overlay's own note, if an attribute is one.
func overlayMark(attr string) (mark string, ok bool) {
	if mark, ok = strings.CutPrefix(attr, "user.overlay."); ok {
		return mark, ok
	}
	return strings.CutPrefix(attr, "trusted.overlay.")
}

// listAttrs names the extended attributes of an open file or folder.
func listAttrs(fd int) ([]string, error) {
	for size := 1024; ; size = maxAttrs {
		buf := make([]byte, size)
		n, err := unix.Flistxattr(fd, buf)
		switch {
		case errors.Is(err, unix.ERANGE) && size < maxAttrs:
			continue
		case errors.Is(err, unix.ENOTSUP):
			return nil, nil
		case err != nil:
			return nil, err
		case n == 0:
			return nil, nil
		}
		return strings.Split(strings.TrimRight(string(buf[:n]), "\x00"), "\x00"), nil
	}
}

// attrs reads those of the listed attributes that a changeset carries: the
// user's own and access lists. It gives them as a JSON object of base64 values,
// "" if there are none, so that nodes can be compared. odd names an attribute
// that is neither carried nor the machine's to give.
func attrs(fd int, list []string) (carried, odd string, err error) {
	var vals map[string][]byte
	total := 0
	for _, a := range list {
		if _, mark := overlayMark(a); mark || slices.Contains(systemAttrs, a) {
			continue
		}
		if !carries(a) {
			return "", a, nil
		}
		v, err := attr(fd, a)
		if errors.Is(err, unix.ENODATA) {
			continue // gone since
		}
		if err != nil {
			return "", "", fmt.Errorf("its extended attribute %s: %w", quote(a), err)
		}
		if total += len(a) + len(v); total > maxAttrs {
			return "", a, nil
		}
		if vals == nil {
			vals = map[string][]byte{}
		}
		vals[a] = v
	}
	if vals == nil {
		return "", "", nil
	}
	b, err := json.Marshal(vals)
	return string(b), "", err
}

func carries(a string) bool {
	return (strings.HasPrefix(a, "user.") || a == "system.posix_acl_access" || a == "system.posix_acl_default") && utf8.ValidString(a)
}

func attr(fd int, name string) ([]byte, error) {
	for size := 256; ; size = maxAttrs {
		v := make([]byte, size)
		n, err := unix.Fgetxattr(fd, name, v)
		if errors.Is(err, unix.ERANGE) && size < maxAttrs {
			continue
		}
		if err != nil {
			return nil, err
		}
		return v[:n], nil
	}
}

// setAttrs gives an open file or folder the attributes of a node, and takes
// others of their kind away.
func setAttrs(fd int, want string) error {
	list, err := listAttrs(fd)
	if err != nil || len(list) == 0 && want == "" {
		return err
	}
	vals := map[string][]byte{}
	if want != "" {
		if err := json.Unmarshal([]byte(want), &vals); err != nil {
			return err
		}
	}
	for _, a := range list {
		if _, keep := vals[a]; keep || !carries(a) {
			continue
		}
		if err := unix.Fremovexattr(fd, a); err != nil && !errors.Is(err, unix.ENODATA) {
			return err
		}
	}
	for _, a := range sortedPaths(vals) {
		if err := unix.Fsetxattr(fd, a, vals[a], 0); err != nil {
			return fmt.Errorf("the extended attribute %s: %w", quote(a), err)
		}
	}
	return nil
}

// marks reads the overlay's notes on a file or folder of the upper layer. bad
// is the first note that this overlay does not make.
func marks(fd int, list []string) (bad string, opaque bool) {
	for _, a := range list {
		mark, ok := overlayMark(a)
		if !ok {
			continue
		}
		switch mark {
		case "origin", "impure", "nlink", "uuid", "protattr": // never read, never followed
		case "opaque":
			if v, err := attr(fd, a); err != nil || string(v) != "y" {
				return fmt.Sprintf("it carries a forged mark of the overlay (%s)", quote(a)), false
			}
			opaque = true
		default:
			return fmt.Sprintf("it carries a forged mark of the overlay (%s)", quote(a)), false
		}
	}
	return "", opaque
}

// strip takes the overlay's notes off an open file, and reports whether the
// file then has no other attributes than those of a node.
func strip(fd int, want string) bool {
	list, err := listAttrs(fd)
	if err != nil {
		return false
	}
	for _, a := range list {
		if _, mark := overlayMark(a); mark {
			if unix.Fremovexattr(fd, a) != nil {
				return false
			}
		} else if !carries(a) {
			return false // a label that the layer's place gave it
		}
	}
	have, odd, err := attrs(fd, list)
	return err == nil && odd == "" && have == want
}
