package command

import (
	"path"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/tool"
)

// gitLocal are subcommands that send nothing and change no address that Git sends to.
var gitLocal = lazy(`add am annotate apply archive bisect blame branch bundle cat-file check-attr check-ignore check-mailmap check-ref-format checkout checkout-index
	cherry cherry-pick clone column commit commit-graph commit-tree count-objects describe diff diff-files diff-index diff-tree difftool fast-export fetch
	for-each-ref format-patch fsck gc get-tar-commit-id grep gui gitk hash-object help index-pack init log ls-files ls-remote ls-tree maintenance merge merge-base
	merge-file merge-index merge-tree mergetool mktag mktree multi-pack-index mv name-rev notes pack-objects pack-refs patch-id prune pull range-diff read-tree
	rebase reflog repack replace rerere reset restore rev-list rev-parse revert rm shortlog show show-branch show-index show-ref sparse-checkout stash status
	stripspace switch symbolic-ref tag unpack-objects update-index update-ref var verify-commit verify-pack verify-tag version whatchanged worktree write-tree`)

// gitReads are subcommands of remote, submodule and config that change no address.
var gitReads = map[string]map[string]bool{
	"remote":    words("show get-url prune update"),
	"submodule": words("status init update summary foreach deinit"),
	"config":    words("get list get-color get-colorbool"),
}

// GitEffect returns the effect of a git command line beyond this repository's files and
// history: "push", "remote add", "remote set-url", "remote", "config", "clean" or "". A
// subcommand that is not known to be local, such as an alias, counts as push.
func GitEffect(argv []string) string {
	args := gitGlobals.read(argv[1:]).rest
	if len(args) == 0 {
		return ""
	}
	sub, rest := args[0], args[1:]
	first := slices.IndexFunc(rest, func(w string) bool { return nonLiteral(w) || !strings.HasPrefix(w, "-") })
	what := ""
	if first >= 0 {
		what = rest[first]
	}
	switch {
	case sub == "clean" && !slices.Contains(rest, "-n") && !slices.Contains(rest, "--dry-run"):
		return sub
	case sub == "clean", gitLocal()[sub]:
		return ""
	case sub == "config":
		if gitConfigReads(rest) {
			return ""
		}
		return sub
	case sub == "remote" || sub == "submodule":
		if what == "" || gitReads[sub][what] {
			return ""
		}
		if what == "add" || what == "set-url" {
			return "remote " + what
		}
		return "remote"
	}
	return "push"
}

// gitConfigReads reports whether the words of git config only read, or set a key that is known
// to be harmless.
func gitConfigReads(args []string) bool {
	r := gitCommandSet()["config"].read(args)
	operands := slices.Concat(r.operands(), r.rest)
	switch {
	case r.problem != "" || slices.ContainsFunc(operands, isMany), r.has("e", "edit", "f", "file", "blob", "unset", "unset-all", "rename-section", "remove-section", "replace-all"):
		return false
	case r.has("l", "list", "get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool"), len(operands) == 0:
		return true
	case gitReads["config"][operands[0]], len(operands) == 1 && operands[0] != "edit":
		return true
	case operands[0] == "set":
		operands = gitSetOperands(operands)
	}
	return len(operands) == 2 && !nonLiteral(operands[0]) && (gitConfig()[strings.ToLower(operands[0])] || harmlessConfig(operands[0]+"="+operands[1]))
}

// deleters are programs that delete the files that they are given.
var deleters = words("rm rmdir unlink shred mv rsync")

// DeletesUnnamed reports whether a command deletes files that its words do not certainly name.
func DeletesUnnamed(argv []string, env tool.Env, dir string) bool {
	name := base(argv[0])
	if !deleters[name] {
		return false
	}
	r := programs()[name].read(argv[1:])
	if name == "rsync" && !oneOf(r.given, "remove-source-files remove-sent-files") {
		return false
	}
	d := newDeriver(env, dir)
	return slices.ContainsFunc(r.operands(), func(w string) bool { return d.argumentPath(w) == "" })
}

// GitWorktree returns the folder in which a git command line that starts in dir adds a worktree; "": it adds none, or the
// text does not tell.
func GitWorktree(argv []string, dir string) string {
	at := slices.Index(argv, "worktree")
	if at < 1 || path.Base(argv[0]) != "git" || at+1 >= len(argv) || argv[at+1] != "add" {
		return ""
	}
	for i, word := range argv[1:at] {
		if word == "-C" {
			dir = absolute(dir, argv[i+2])
		}
	}
	for i := at + 2; i < len(argv); i++ {
		switch word := argv[i]; {
		case nonLiteral(dir + word):
			return ""
		case slices.Contains([]string{"-b", "-B", "--reason"}, word):
			i++
		case !strings.HasPrefix(word, "-"):
			return absolute(dir, word)
		}
	}
	return ""
}

func absolute(dir, p string) string {
	if path.IsAbs(p) {
		return path.Clean(p)
	}
	return path.Join(dir, p)
}
