package command

import (
	"path"
	"slices"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/syntax"
)

// gitConfig are configuration keys, with a value or for any, that cannot make
// git start a program. Any other -c is refused: git has many that do.
var gitConfig = lazy(`user.name user.email color.ui color.diff color.status color.branch core.quotepath core.abbrev core.autocrlf
	core.pager= core.pager=cat core.fsmonitor=false core.hookspath=/dev/null init.defaultbranch commit.gpgsign=false tag.gpgsign=false
	diff.algorithm diff.renames log.showsignature=false log.date pull.rebase push.default status.short column.ui
	advice.detachedhead rebase.autosquash merge.conflictstyle`)

// gitSettings are further keys that git config may set. Those of a repository only take effect
// where its own file is read, and start nothing either.
var gitSettings = lazy(`core.eol core.filemode core.ignorecase core.safecrlf core.longpaths core.symlinks core.precomposeunicode core.pager=less commit.gpgsign tag.gpgsign gpg.format=ssh gpg.format=openpgp user.signingkey
	push.autosetupremote push.followtags fetch.prune fetch.prunetags pull.ff merge.ff rebase.autostash rebase.updaterefs rerere.enabled diff.colormoved diff.mnemonicprefix diff.noprefix branch.sort tag.sort
	status.showuntrackedfiles status.branch log.decorate log.abbrevcommit core.commentchar help.autocorrect=0 feature.manyfiles index.version gc.auto maintenance.auto=false safe.directory submodule.recurse`)

var gitGlobals = &grammar{known: gitGlobal, lead: true, single: true}

// gitCommandSet is the options of each known subcommand of git.
var gitCommandSet = sync.OnceValue(func() map[string]*grammar {
	m := map[string]*grammar{}
	gitOptions(gitCommands, m, true)
	gitOptions(gitTalking, m, false)
	return m
})

func runGit(d *deriver, args []string) {
	r := gitGlobals.read(args)
	if r.problem != "" {
		d.unknownUse("git", r.problem)
		return
	}
	for _, g := range r.given {
		switch {
		case g.option == "c" && !harmlessConfig(g.text):
			d.unknown("git's option -c can make it start any program; leave it out")
			return
		case g.option == "C":
			d.gitFolder(g.text)
			d.move(g.text)
		case g.option == "work-tree":
			d.gitFolder(g.text)
		}
	}
	if len(r.rest) > 0 {
		d.gitCommand(r.rest[0], r.rest[1:])
	}
}

func harmlessConfig(kv string) bool {
	if nonLiteral(kv) {
		return false
	}
	key, value, _ := strings.Cut(kv, "=")
	key = strings.ToLower(key)
	return gitConfig()[key] || gitConfig()[key+"="+value]
}

func (d *deriver) gitCommand(sub string, args []string) {
	known := gitCommandSet()[sub]
	switch {
	case nonLiteral(sub):
		d.unknownUse("git", "its subcommand is not literal")
		return
	case sub == "send-pack" || sub == "http-push" || sub == "subtree":
		known = gitCommandSet()["push"] // with options of its own, which are not known
	case known == nil:
		d.unknownUse("git "+sub, "it is not a command of Git that is known to start nothing, and can be an alias or a program of that name")
		return
	}
	r := known.read(args)
	if sub == "bisect" && len(args) > 0 && args[0] == "run" {
		d.command(args[1:])
		return
	}
	if sub == "submodule" && d.gitForeach(args) {
		return
	}
	if why := gitProblem(sub, r, d.search != nil); why != "" {
		d.unknownUse("git "+sub, why)
	}
	d.gitFiles(sub, r)
	for _, w := range args {
		if strings.HasPrefix(w, "ext::") || strings.HasPrefix(w, "fd::") {
			d.unknown("git starts a program for an address that begins with ext::; use https")
		}
	}
}

// gitProblem returns the reason why a known subcommand may start a program, or "". searched: a
// script has added folders to PATH, where Git also looks for merge strategies.
func gitProblem(sub string, r *parsed, searched bool) string {
	operands := r.operands()
	switch {
	case r.problem != "":
		return r.problem
	case searched && (r.has("s", "strategy") || len(operands) > 0 && nonLiteral(operands[0])):
		return "it can start a program of the folders that were added to PATH"
	case sub == "config":
		return gitConfigProblem(r)
	case sub == "bisect" && len(operands) > 0 && !gitBisect[operands[0]]:
		return "its subcommand " + showWord(operands[0]) + " can start programs"
	case sub == "archive" && (strings.HasPrefix(r.value("format"), "tar.") || strings.Contains(r.value("format"), "\x00")) && r.value("format") != "tar.gz":
		return "its format is one for which the configuration names a program"
	case sub == "archive" && !r.has("format") && strings.Contains(r.value("o")+r.value("output"), ".") && !gitArchives[path.Ext(r.value("o")+r.value("output"))]:
		return "the end of its output's name can be a format for which the configuration names a program; add --format=tar"
	}
	for _, g := range r.given {
		if (g.option == "s" || g.option == "strategy") && (sub == "merge" || sub == "pull" || sub == "rebase" || sub == "cherry-pick" || sub == "revert") && !gitStrategies[g.text] {
			return "its strategy " + showWord(g.text) + " can be a program of that name"
		}
	}
	return ""
}

// gitArchives are the ends of names of archives that git makes itself.
var gitArchives = words(".tar .tgz .gz .zip")

var gitBisect = words("start good bad new old skip reset log terms next")

var gitStrategies = words("ort recursive resolve octopus ours subtree")

// gitConfigProblem: settings can name programs, and aliases are commands.
func gitConfigProblem(r *parsed) string {
	const other = "; settings can name programs and make aliases"
	operands := slices.Concat(r.operands(), r.rest)
	sets := r.has("add", "replace-all")
	if len(operands) > 0 {
		switch operands[0] {
		case "get", "list", "unset":
			return ""
		case "set":
			operands, sets = gitSetOperands(operands), true
		case "edit", "rename-section", "remove-section":
			return "it rewrites the configuration" + other
		}
	}
	switch {
	case r.has("e", "rename-section"):
		return "it rewrites the configuration" + other
	case r.has("get", "get-all", "get-regexp", "get-urlmatch", "get-color", "get-colorbool", "l", "list", "unset", "unset-all", "remove-section"):
		return ""
	case len(operands) < 2 && !sets && (len(operands) == 0 || !isMany(operands[0])):
		return ""
	case len(operands) == 2 && !nonLiteral(operands[0]):
		key := strings.ToLower(operands[0])
		if gitConfig()[key] || gitSettings()[key] || gitConfig()[key+"="+operands[1]] || gitSettings()[key+"="+operands[1]] || gitRemoteKey(operands[0], operands[1]) {
			return ""
		}
	}
	return "it sets something that is not known to be harmless" + other
}

// gitSetOperands gives the key and the value of git config set, which reads options behind the
// word set.
func gitSetOperands(words []string) []string {
	for words = words[1:]; len(words) > 0 && (words[0] == "--append" || words[0] == "--all" || words[0] == "--global" || words[0] == "--local"); {
		words = words[1:]
	}
	return words
}

// gitRemoteKey reports whether a setting belongs to a branch or a remote, and names no program.
func gitRemoteKey(key, value string) bool {
	key = strings.ToLower(key)
	if !strings.HasPrefix(key, "branch.") && !strings.HasPrefix(key, "remote.") || nonLiteral(value) || strings.Contains(value, "::") {
		return false
	}
	last := key[strings.LastIndexByte(key, '.')+1:]
	return last == "merge" || last == "remote" || last == "rebase" || last == "fetch" || last == "description" || last == "pushremote" || last == "url" || last == "tagopt" || last == "prune"
}

// gitForeach: one word behind foreach is a script, several are a command. It reports whether
// the words have a foreach, or may.
func (d *deriver) gitForeach(args []string) bool {
	for i, w := range args {
		switch {
		case nonLiteral(w):
			d.unknownStart("git submodule", "a word is not literal")
			return true
		case w == "foreach":
			rest := args[i+1:]
			for len(rest) > 0 && (rest[0] == "--recursive" || rest[0] == "--quiet" || rest[0] == "-q") {
				rest = rest[1:]
			}
			d.dir = ""
			switch len(rest) {
			case 0:
			case 1:
				d.inner("git submodule foreach", rest[0], syntax.LangPOSIX)
			default:
				d.command(rest)
			}
			return true
		case !strings.HasPrefix(w, "-"):
			return false
		}
	}
	return false
}
