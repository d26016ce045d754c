package repository

import (
	"bytes"
	"crypto/sha1" //nolint:gosec // Git names contents so
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"syscall"
)

// Tracks reports whether the repository in a folder has a file with this name, from the folder, and this content in its index.
// It knows the versions 2 and 3 of the index and SHA-1, see gitformat-index(5).
func Tracks(folder, name string, content []byte) bool {
	const most = 16 << 20 // bytes
	git := gitFolder(folder)
	if git == "" {
		return false
	}
	f, err := os.OpenFile(git+"/index", os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() || st.Size() > most {
		return false
	}
	index, err := io.ReadAll(io.LimitReader(f, most))
	h := sha1.New() //nolint:gosec // as above
	fmt.Fprintf(h, "blob %d\x00", len(content))
	h.Write(content)
	sum, ok := indexed(index, name)
	return err == nil && ok && bytes.Equal(sum, h.Sum(nil))
}

// indexed is the sum of a file's content in an index.
func indexed(index []byte, name string) (sum []byte, ok bool) {
	const head, stat, atFlags, fixed = 12, 40, 60, 62
	if len(index) < head || string(index[:4]) != "DIRC" {
		return nil, false
	}
	version := binary.BigEndian.Uint32(index[4:])
	rest := index[head:]
	for n := binary.BigEndian.Uint32(index[8:]); n > 0 && len(rest) >= fixed && (version == 2 || version == 3); n-- {
		flags, at := binary.BigEndian.Uint16(rest[atFlags:]), fixed
		if flags&0x4000 != 0 { // more of them
			at += 2
		}
		if len(rest) < at {
			break
		}
		end := bytes.IndexByte(rest[at:], 0)
		if end < 0 {
			break
		}
		if string(rest[at:at+end]) == name {
			return rest[stat:atFlags], flags&0x3000 == 0 // not of a merge
		}
		next := (at + end + 8) &^ 7
		if len(rest) < next {
			break
		}
		rest = rest[next:]
	}
	return nil, false
}
