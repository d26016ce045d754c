package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
)

// FileLabels is the part of a FilesLabelled event: which labels of data files have from now
// on, or have no longer. The changes are made in this order.
type FileLabels struct {
	Changes []FileLabel `json:"changes"`
}

// FileLabel gives labels to one file, or takes all of its labels.
type FileLabel struct {
	File   LabelKey `json:"file"`
	Labels []string `json:"labels,omitempty"`
	Clear  bool     `json:"clear,omitempty"` // it has none any more; Labels is empty
}

// LabelKey names a labelled thing: a path, a content, or all that is below a folder while a call
// writes there.
type LabelKey string

// The beginnings of keys.
const (
	labelPath    = "path:"
	labelContent = "sha256:"
	labelFolder  = "folder:"
)

// PathKey is the key of a file with an absolute path without links.
func PathKey(path string) LabelKey { return LabelKey(labelPath + keyText(path)) }

// ContentKey is the key of every file with a content: its size and its SHA-256 in hexadecimal.
func ContentKey(size, sum string) LabelKey { return LabelKey(labelContent + size + ":" + sum) }

// FolderKey is the key of all below a folder, while one call may write there.
func FolderKey(call, folder string) LabelKey {
	return LabelKey(labelFolder + call + ":" + keyText(folder))
}

// longestPath is the longest path, in bytes, that a key has as it is.
const longestPath = 4096

// keyText is a path as keys have it: valid text of limited length. Different paths may become
// the same only if they are no valid text.
func keyText(path string) string {
	if len(path) > longestPath {
		sum := sha256.Sum256([]byte(path))
		path = path[:longestPath] + "/" + hex.EncodeToString(sum[:])
	}
	return strings.ToValidUTF8(path, "\uFFFD")
}

// Path is the path of a key of a file or of a folder; "": it is of a content.
func (k LabelKey) Path() string {
	if path, ok := strings.CutPrefix(string(k), labelPath); ok {
		return path
	}
	if rest, ok := strings.CutPrefix(string(k), labelFolder); ok {
		_, folder, _ := strings.Cut(rest, ":")
		return folder
	}
	return ""
}

// Content is the SHA-256 of a key of a content; "": it is of a path.
func (k LabelKey) Content() string {
	if rest, ok := strings.CutPrefix(string(k), labelContent); ok {
		_, sum, _ := strings.Cut(rest, ":")
		return sum
	}
	return ""
}

// Folder reports whether the key is of all below a folder.
func (k LabelKey) Folder() bool { return strings.HasPrefix(string(k), labelFolder) }

// KeyPrefixes are the beginnings of all keys of paths, of contents with a size, and of folders.
func KeyPrefixes(size string) (path, content, folder string) {
	return labelPath, labelContent + size + ":", labelFolder
}

// maxLabelKey bounds a key: its prefix and the longest path, of which each byte may be replaced by
// three.
const maxLabelKey = 4 * longestPath

func (k LabelKey) valid() bool {
	return len(k) <= maxLabelKey && utf8.ValidString(string(k)) && (k.Content() != "" || strings.HasPrefix(k.Path(), "/"))
}

// ReadFileLabels reads the part of a FilesLabelled event.
func ReadFileLabels(b []byte) (FileLabels, error) {
	var out FileLabels
	if err := json.Unmarshal(b, &out); err != nil {
		return out, fault.Wrap(fault.StoreCorrupt, err, "the labels of files cannot be read")
	}
	for _, c := range out.Changes {
		if !c.File.valid() || c.Clear == (len(c.Labels) > 0) {
			return out, fault.New(fault.StoreCorrupt, "the labels of the file %.200q make no sense", string(c.File))
		}
	}
	return out, nil
}
