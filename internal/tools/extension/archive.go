package extension

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/authority/policy/glob"
	"github.com/remitrun/remit/internal/base/fault"
)

// The names of the files that mean something.
const (
	ManifestFile  = "manifest.json"
	SignatureFile = "manifest.json.sig"
	CommandsFile  = "commands/commands.yaml"
	UsageFile     = "docs/USAGE.md"
	PlanFile      = "install/plan.yaml"
	PolicyFile    = "install/policy.yaml"
	WorkFolder    = "work" // where an installed extension works; not an installed file
)

// Bounds on the size of an extension.
const (
	MaxArchive = 32 << 20 // bytes of an archive
	MaxTotal   = 64 << 20 // of all files together
	MaxFile    = 32 << 20 // of one
	MaxFiles   = 2000     // files, folders and whatever else an archive lists
	maxRatio   = 100      // how much an archive may grow when it is unpacked,
	ratioFree  = 1 << 20  // beyond this many bytes
	maxSegment = 100      // bytes of one name of a path
	maxPath    = 300      // bytes of a path
)

// File is one file of an extension.
type File struct {
	Name string // with slashes, relative to the extension's folder
	Data []byte
}

// Sum is the hash of the file's content.
func (f File) Sum() [sha256.Size]byte { return sha256.Sum256(f.Data) }

// Executable reports whether the file is a program: files in bin are.
func (f File) Executable() bool { return strings.HasPrefix(f.Name, "bin/") }

// tops are the names that an extension's folder may hold.
var (
	topFolders = []string{"commands", "docs", "install", "bin", "wasm"}
	topFiles   = []string{ManifestFile, SignatureFile, "README.md", "README", "LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "CHANGELOG.md"}
)

// CheckName says why a file cannot have a name in an extension, "" if it can.
// Names are relative, clean and in UTF-8, have nothing in them that another system
// or a terminal would read otherwise, and begin with what an extension consists of.
func CheckName(name string) string {
	switch {
	case name == "":
		return "it is empty"
	case !utf8.ValidString(name):
		return "it is not UTF-8"
	case len(name) > maxPath:
		return fmt.Sprintf("it has %d bytes; the most is %d", len(name), maxPath)
	case name[0] == '/':
		return "it is absolute"
	case strings.ContainsAny(name, `\:*?"<>|`):
		return "it holds one of \\ : * ? \" < > |"
	case strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }):
		return "it holds a character that cannot be seen"
	}
	parts := strings.Split(name, "/")
	for _, part := range parts {
		switch {
		case part == "..":
			return "it leads out of the extension's folder"
		case part == "" || part == ".":
			return "it is not clean"
		case len(part) > maxSegment:
			return fmt.Sprintf("a part of it has %d bytes; the most is %d", len(part), maxSegment)
		case part[0] == ' ' || strings.HasSuffix(part, " ") || strings.HasSuffix(part, "."):
			return "a part of it begins or ends with what some systems leave out"
		}
	}
	switch {
	case len(parts) == 1 && !slices.Contains(topFiles, name):
		return "not part of an extension: expected " + strings.Join(topFiles[:2], ", ") + ", README.md, LICENSE, and the folders " + strings.Join(topFolders, ", ")
	case len(parts) > 1 && !slices.Contains(topFolders, parts[0]):
		return "it is in no folder of an extension: there are " + strings.Join(topFolders, ", ")
	}
	return ""
}

// Unsafe makes the error for an entry that is never unpacked.
func Unsafe(name, format string, args ...any) error {
	return fault.New(fault.ExtensionUnsafe, "%q: %s", name, fmt.Sprintf(format, args...))
}

// Entries checks the names of an extension's files and folders as they come in:
// each alone, and that no two of them are one on a system that folds names.
type Entries struct {
	seen  map[string]string // names as they are, by their folded form
	files map[string]bool   // the names that are files
	count int
	total int64
}

// Folder takes a folder's name.
func (e *Entries) Folder(name string) error { return e.add(strings.TrimSuffix(name, "/"), false, 0) }

// File takes a file's name and size.
func (e *Entries) File(name string, size int64) error { return e.add(name, true, size) }

func (e *Entries) add(name string, file bool, size int64) error {
	if e.seen == nil {
		e.seen, e.files = map[string]string{}, map[string]bool{}
	}
	e.count++
	e.total += size
	top := !file && slices.Contains(topFolders, name)
	switch why := CheckName(name); {
	case why != "" && !top:
		return Unsafe(name, "%s", why)
	case e.count > MaxFiles:
		return fault.New(fault.ExtensionUnsafe, "it has more than %d files", MaxFiles)
	case size < 0 || size > MaxFile:
		return Unsafe(name, "it has more than %d bytes", MaxFile)
	case e.total > MaxTotal:
		return fault.New(fault.ExtensionUnsafe, "its files have more than %d bytes together", MaxTotal)
	}
	for at := path.Dir(name); at != "."; at = path.Dir(at) {
		if err := e.claim(at, false, true); err != nil {
			return err
		}
	}
	return e.claim(name, file, false)
}

// claim takes one name. A folder may come again, and be named by the files in it.
func (e *Entries) claim(name string, file, parent bool) error {
	key := strings.ToLower(glob.Fold(name))
	was, taken := e.seen[key]
	switch {
	case !taken:
		e.seen[key], e.files[key] = name, file
	case was != name:
		return Unsafe(name, "some systems take it for %q, which is there too", was)
	case file || e.files[key] && parent:
		return Unsafe(name, "it is there twice")
	case e.files[key]:
		return Unsafe(name, "it is a file and a folder")
	}
	return nil
}

// Unzip returns the files of an archive. An unsafe entry (a name that leads elsewhere, a link, a
// device, a bomb) is an error of the code ExtensionUnsafe that names the entry. All entries may be
// in one folder, as archives of folders are.
func Unzip(archive []byte) ([]File, error) {
	if len(archive) > MaxArchive {
		return nil, fault.New(fault.ExtensionUnsafe, "the archive has %d bytes; the limit is %d", len(archive), MaxArchive)
	}
	z, err := zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
	if err != nil {
		return nil, fault.New(fault.ExtensionInvalid, "not a valid zip archive: %v", err)
	}
	if len(z.File) > MaxFiles {
		return nil, fault.New(fault.ExtensionUnsafe, "the archive has %d entries; the limit is %d", len(z.File), MaxFiles)
	}
	within := commonFolder(z.File)
	var entries Entries
	var out []File
	for _, f := range z.File {
		if within != "" && f.Name == within {
			continue
		}
		name := strings.TrimPrefix(f.Name, within)
		if err := checkEntry(f, name, len(archive)); err != nil {
			return nil, err
		}
		if f.Mode().IsDir() {
			if err := entries.Folder(name); err != nil {
				return nil, err
			}
			continue
		}
		if err := entries.File(name, int64(min(f.UncompressedSize64, MaxFile+1))); err != nil {
			return nil, err
		}
		if grown := entries.total - ratioFree; grown > maxRatio*int64(len(archive)) {
			return nil, Unsafe(f.Name, "the archive unpacks to more than %d times its size", maxRatio)
		}
		data, err := unpack(f)
		if err != nil {
			return nil, err
		}
		out = append(out, File{name, data})
	}
	return out, nil
}

// commonFolder is the one folder that all entries are in, with its slash, where
// the manifest is not outside of it; else "".
func commonFolder(files []*zip.File) string {
	if len(files) == 0 {
		return ""
	}
	first, _, ok := strings.Cut(files[0].Name, "/")
	if !ok || CheckName("docs/"+first) != "" || slices.Contains(topFolders, first) {
		return ""
	}
	for _, f := range files {
		if !strings.HasPrefix(f.Name, first+"/") {
			return ""
		}
	}
	return first + "/"
}

// checkEntry refuses an entry with unsafe properties other than its name.
func checkEntry(f *zip.File, name string, size int) error {
	mode := f.Mode()
	folder := strings.HasSuffix(f.Name, "/")
	switch {
	case f.NonUTF8 && !ascii(f.Name):
		return Unsafe(f.Name, "its name is not said to be UTF-8")
	case mode&fs.ModeSymlink != 0:
		return Unsafe(f.Name, "it is a link")
	case mode&(fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky) != 0:
		return Unsafe(f.Name, "its mode %s gives it more than files have", mode)
	case mode.IsDir() != folder || !mode.IsRegular() && !folder:
		return Unsafe(f.Name, "it is neither a file nor a folder")
	case f.Flags&1 != 0:
		return Unsafe(f.Name, "it is encrypted")
	case f.Method != zip.Store && f.Method != zip.Deflate:
		return Unsafe(f.Name, "it is packed in a way that is not known (%d)", f.Method)
	case f.CompressedSize64 > uint64(size):
		return Unsafe(f.Name, "it says that it is larger than the archive")
	case folder && (f.UncompressedSize64 != 0 || name == ""):
		return Unsafe(f.Name, "it is a folder with content")
	}
	return nil
}

func ascii(s string) bool {
	return !slices.ContainsFunc([]byte(s), func(c byte) bool { return c >= utf8.RuneSelf })
}

// unpack reads an entry, no more than it said.
func unpack(f *zip.File) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fault.New(fault.ExtensionInvalid, "%q cannot be unpacked: %v", f.Name, err)
	}
	data, err := io.ReadAll(io.LimitReader(r, int64(f.UncompressedSize64)+1))
	if cerr := r.Close(); err == nil {
		err = cerr
	}
	switch {
	case err != nil:
		return nil, fault.New(fault.ExtensionInvalid, "%q cannot be unpacked: %v", f.Name, err)
	case uint64(len(data)) != f.UncompressedSize64:
		return nil, Unsafe(f.Name, "it has another size than it says")
	}
	return data, nil
}
