package command

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// gitConfig are configuration keys, with a value or for any, that cannot make
// git start a program. Any other -c is refused: git has many that do.
var gitConfig = words(`user.name user.email color.ui color.diff color.status color.branch core.quotepath core.abbrev core.autocrlf
	core.pager= core.pager=cat core.fsmonitor=false core.hookspath=/dev/null init.defaultbranch commit.gpgsign=false tag.gpgsign=false
	diff.algorithm diff.renames log.showsignature=false log.date pull.rebase push.default status.short column.ui
	advice.detachedhead rebase.autosquash merge.conflictstyle`)

// gitFlags are global options of git without a value, gitValues those with one.
var (
	gitFlags  = words("-p --paginate -P --no-pager --no-replace-objects --bare --literal-pathspecs --no-optional-locks --version --help -h -v --html-path --man-path --info-path --exec-path")
	gitValues = words("-C --work-tree --namespace --list-cmds --attr-source")
)

// gitHooks are options of subcommands that name a program to start. The
// subcommand "" is any of those that talk to another repository.
var gitHooks = map[string]*program{
	"":         {hooks: []string{"-u", "--upload-pack", "--receive-pack", "--exec"}, plain: []string{"--upload"}},
	"clone":    {hooks: []string{"-u", "-c", "--upload-pack", "--config", "--template"}},
	"init":     {hooks: []string{"--template"}},
	"rebase":   {hooks: []string{"-x", "--exec"}},
	"grep":     {hooks: []string{"-O", "--open-files-in-pager"}},
	"difftool": {hooks: []string{"-x", "-t", "--extcmd", "--tool"}},
}

var gitRemote = words("fetch pull ls-remote archive fetch-pack send-pack")

// gitNever are subcommands that start what their arguments or configuration say.
var gitNever = words("filter-branch mergetool for-each-repo remote-ext remote-fd send-email instaweb web--browse daemon shell credential hook help difftool gui citool gitk maintenance imap-send interpret-trailers")

func runGit(d *deriver, args []string) {
	for len(args) > 0 && (nonLiteral(args[0]) || strings.HasPrefix(args[0], "-")) {
		name, value, attached := strings.Cut(args[0], "=")
		switch {
		case nonLiteral(args[0]):
			d.unknownStart("git", "an option is not literal")
			return
		case args[0] == "-c" && len(args) > 1 && harmlessConfig(args[1]):
			args = args[2:]
		case gitFlags[args[0]]:
			args = args[1:]
		case gitValues[name] && attached:
			args = args[1:]
		case gitValues[name] && len(args) > 1 && !isMany(args[1]):
			value, args = args[1], args[2:]
		default:
			d.unknown("git's option " + name + " can make it start any program; leave it out")
			return
		}
		if name == "-C" {
			d.move(value)
		}
	}
	if len(args) > 0 {
		d.gitCommand(args[0], args[1:])
	}
}

func harmlessConfig(kv string) bool {
	if nonLiteral(kv) {
		return false
	}
	key, value, _ := strings.Cut(kv, "=")
	key = strings.ToLower(key)
	return gitConfig[key] || gitConfig[key+"="+value]
}

func (d *deriver) gitCommand(sub string, args []string) {
	hooks := gitHooks[sub]
	if gitRemote[sub] {
		hooks = gitHooks[""]
	}
	switch {
	case nonLiteral(sub):
		d.unknownStart("git", "its subcommand is not literal")
	case gitNever[sub]:
		d.unknownStart("git "+sub, readsCmds)
	case sub == "push":
		d.hooks(&program{hooks: []string{"--receive-pack", "--exec"}}, "git push", args)
	case sub == "bisect" && len(args) > 0 && nonLiteral(args[0]):
		d.unknownStart("git bisect", "its subcommand is not literal")
	case sub == "bisect" && len(args) > 0 && args[0] == "run":
		d.command(args[1:])
	case sub == "submodule":
		d.gitForeach(args)
	case hooks != nil:
		d.hooks(hooks, "git "+sub, args)
	}
	for _, w := range args {
		if strings.HasPrefix(w, "ext::") || strings.HasPrefix(w, "fd::") {
			d.unknown("git starts a program for an address that begins with ext::; use https")
		}
	}
}

// gitForeach: one word behind foreach is a script, several are a command.
func (d *deriver) gitForeach(args []string) {
	for i, w := range args {
		switch {
		case nonLiteral(w):
			d.unknownStart("git submodule", "a word is not literal")
			return
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
			return
		}
	}
}
