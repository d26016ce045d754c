package command

import (
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/remitrun/remit/internal/base/tool"
)

// gitFileList says which options and operands of subcommands of git are files. Operands that are
// paths of the repository only select, and are not listed.
var gitFileList = []struct {
	names string
	files fileWords
}{
	{"diff diff-files diff-index diff-tree log show whatchanged rev-list range-diff reflog stash", fileWords{read: "O pathspec-from-file", write: "output"}},
	{"format-patch", fileWords{read: "O signature-file", write: "output o output-directory"}},
	{"annotate blame", fileWords{read: "contents ignore-revs-file S"}},
	{"add stage checkout reset restore rm", fileWords{read: "pathspec-from-file"}},
	{"commit", fileWords{read: "F file t template pathspec-from-file"}},
	{"commit-tree fmt-merge-msg merge notes tag", fileWords{read: "F file"}},
	{"grep", fileWords{read: "f"}},
	{"ls-files", fileWords{read: "X exclude-from exclude-per-directory"}},
	{"apply", fileWords{write: "build-fake-ancestor", rest: reads}},
	{"am verify-pack", fileWords{rest: reads, tree: "*"}},
	{"hash-object", fileWords{rest: reads}},
	{"merge-file", fileWords{first: changes, rest: reads, other: "object-id", with: ignored}},
	{"mailinfo", fileWords{rest: writes}},
	{"mailsplit", fileWords{write: "o", rest: reads, tree: "*"}},
	{"pack-objects", fileWords{rest: writes, other: "stdout", with: ignored}},
	{"fast-export", fileWords{read: "import-marks", write: "export-marks"}},
	{"read-tree", fileWords{write: "index-output"}},
	{"checkout-index", fileWords{write: "prefix"}},
	{"commit-graph multi-pack-index", fileWords{read: "refs-snapshot", write: "object-dir"}},
	{"repack", fileWords{write: "expire-to"}},
	{"clone", fileWords{write: "separate-git-dir", first: ignored, rest: writes}},
	{"init init-db", fileWords{write: "separate-git-dir", rest: writes}},
	{"archive", fileWords{read: "add-file", write: "o output"}},
	{"bugreport diagnose", fileWords{write: "o output-directory"}},
}

// gitFileWords is that list by subcommand.
var gitFileWords = sync.OnceValue(func() map[string]*fileWords {
	m := map[string]*fileWords{}
	for i := range gitFileList {
		for n := range strings.FieldsSeq(gitFileList[i].names) {
			m[n] = &gitFileList[i].files
		}
	}
	return m
})

var (
	gitBundle  = fileWords{rest: reads}
	gitCreate  = fileWords{first: writes, rest: ignored}
	gitNoIndex = fileWords{rest: reads, tree: "*"}
	gitSearch  = fileWords{read: "f", first: ignored, rest: reads, unless: "e f", tree: "*"}
	gitReading = fileWords{read: "f file"}
	gitSetting = fileWords{write: "f file"}
)

// gitFiles adds the files that a subcommand's words name.
func (d *deriver) gitFiles(sub string, r *parsed) {
	words := slices.Clone(r.given)
	for _, w := range r.rest {
		words = append(words, given{"", w})
	}
	add := func(f *fileWords) {
		d.optionFiles(f, words)
		d.operandFiles(f, "git", words)
	}
	if f := gitFileWords()[sub]; f != nil {
		add(f)
	}
	operands := slices.Concat(r.operands(), r.rest)
	switch sub {
	case "diff":
		if r.has("no-index") || len(operands) == 2 && slices.ContainsFunc(operands, d.outside) {
			add(&gitNoIndex)
		}
	case "grep":
		if r.has("no-index", "untracked") {
			add(&gitSearch)
		}
	case "bundle":
		if len(operands) < 2 {
			return
		}
		words = []given{{"", operands[1]}}
		if operands[0] == "create" {
			add(&gitCreate)
		} else {
			add(&gitBundle)
		}
	case "config":
		add(&gitReading)
		if !gitConfigLooks(r, operands) {
			add(&gitSetting)
		}
	}
}

// gitConfigLooks reports whether the words of git config only read settings.
func gitConfigLooks(r *parsed, operands []string) bool {
	return r.has("l", "list", "get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool") ||
		len(operands) > 0 && gitReads["config"][operands[0]] || len(operands) < 2 && !r.has("unset", "unset-all", "remove-section", "e", "edit")
}

// outside reports whether a word certainly is a path outside of the workspace, of which Git has
// no version.
func (d *deriver) outside(w string) bool {
	full := d.argumentPath(w)
	return full != "" && d.env.Workspace != "" && !d.within(full)
}

// gitFolder adds the folder of another repository, whose settings Git then reads. Within the
// workspace, and in the folders that sandboxes have of their own, it is like cd.
func (d *deriver) gitFolder(w string) {
	full := d.argumentPath(w)
	switch {
	case !d.outside(w), !d.env.Foreign && InOwnFolder(full):
	case inHome(w):
		d.argument(reads, w, tool.TreeArgument)
	default:
		d.add(tool.Action{Kind: tool.FileRead, Path: path.Clean(full)})
	}
}
