package repository

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/bmatcuk/doublestar/v4"

	"github.com/remitrun/remit/internal/base/regex"
)

// plainSettings are the settings of a person's Git that a command gets: none names a program, and none can hold a
// secret. The keys of a section are in lower case.
var plainSettings = map[string][]string{
	"user": {"name", "email", "signingkey"}, "author": {"name", "email"}, "committer": {"name", "email"},
	"init":   {"defaultbranch"},
	"core":   {"autocrlf", "eol", "safecrlf", "quotepath", "abbrev", "whitespace", "commentchar", "commentstring", "longpaths"},
	"pull":   {"rebase", "ff"},
	"push":   {"default", "autosetupremote", "followtags", "gpgsign"},
	"fetch":  {"prune", "prunetags"},
	"merge":  {"ff", "conflictstyle", "renames", "directoryrenames"},
	"rebase": {"autostash", "autosquash", "updaterefs", "stat"},
	"branch": {"autosetupmerge", "autosetuprebase", "sort"},
	"tag":    {"sort", "gpgsign", "forcesignannotated"},
	"gpg":    {"format"},
	"diff":   {"algorithm", "renames", "mnemonicprefix", "noprefix", "context", "colormoved", "submodule"},
	"log":    {"date", "abbrevcommit", "decorate", "follow"},
	"status": {"short", "branch", "showuntrackedfiles", "submodulesummary"},
	"commit": {"verbose", "cleanup", "status", "gpgsign"},
	"rerere": {"enabled", "autoupdate"},
	"column": {"ui"}, "color": {"ui"}, "help": {"autocorrect"}, "submodule": {"recurse"}, "checkout": {"guess", "defaultremote"}, "apply": {"whitespace"},
}

// leading are settings among the plain ones that lead a person's Git to other repositories, commands or contents, hide files, or
// decide about signatures.
var leading = []string{"commit.gpgsign", "tag.gpgsign", "tag.forcesignannotated", "push.gpgsign", "gpg.format", "user.signingkey", "push.default", "push.followtags", "push.autosetupremote", "help.autocorrect", "submodule.recurse", "diff.submodule", "checkout.defaultremote", "rerere.enabled", "rerere.autoupdate", "status.showuntrackedfiles"}

// IsPlain reports whether a setting, in lower case, can stand in a repository's own configuration: it names no program, and
// leads to no other repository. An alias is plain if it shows something, or is the common short form of a command.
func IsPlain(section, key, value string) bool {
	if section == "alias" {
		return shortForms[key] == value || showing.MatchString(value)
	}
	if values := harmlessValues[section+"."+key]; values != nil {
		return values.MatchString(value)
	}
	if section == "advice" {
		return slices.Contains([]string{"true", "false"}, value)
	}
	return slices.Contains(plainSettings[section], key) && !slices.Contains(leading, section+"."+key)
}

// harmlessValues lists the allowed values of settings whose other values run a program or weaken a check.
var harmlessValues = map[string]*regex.Expr{
	"commit.gpgsign": regex.Lazy(`^true$`), "tag.gpgsign": regex.Lazy(`^true$`),
	"core.pager": regex.Lazy(`^(?:cat|less(?: -[EFKNRSXimn]+)?)$`), "gc.auto": regex.Lazy(`^[0-9]{1,9}$`),
	"log.showsignature": regex.Lazy(`^(?:true|false)$`), "push.default": regex.Lazy(`^(?:nothing|simple|current)$`),
	"rerere.enabled": regex.Lazy(`^false$`), "status.showuntrackedfiles": regex.Lazy(`^(?:normal|all)$`), "submodule.recurse": regex.Lazy(`^false$`),
}

var (
	shortForms = map[string]string{"co": "checkout", "ci": "commit", "sw": "switch", "br": "branch", "cp": "cherry-pick", "unstage": "reset head --"}
	showing    = regex.Lazy(`^(?:branch(?: (?:-a|-r|-vv?|-av))*|(?:status|log|show|diff|shortlog|blame)(?: (?:-[a-z0-9]+|head|--(?:oneline|graph|all|decorate|stat|staged|cached|short|branch|name-only|name-status|word-diff|abbrev-commit|date=[a-z]+)))*)$`)
)

const (
	maxIncluded = 10       // files, one in the other, as Git has it
	maxFiles    = 100      // files of settings: one can include another many times
	maxPersonal = 16 << 10 // bytes of all settings
)

// Personal returns the plain settings of a person's Git as a file of settings: the name for commits, how lines end,
// aliases of Git's own commands, whether commits are signed. Files that are included for the repository around a folder count. home is
// the person's home folder, config their folder of settings, as $XDG_CONFIG_HOME, and global the file in place of both, as
// $GIT_CONFIG_GLOBAL.
func Personal(home, config, global, folder string) string {
	if home == "" {
		return ""
	}
	if config == "" {
		config = home + "/.config"
	}
	p := personal{home: home, git: gitAround(folder), folder: folder}
	if global != "" {
		p.read(global, 0, nil)
		return p.out.String()
	}
	p.read(config+"/git/config", 0, nil)
	p.read(home+"/.gitconfig", 0, nil)
	return p.out.String()
}

// copyHead begins a copy of a person's settings. It is followed by the checksum of the rest.
const copyHead = "# Remit's copy of your Git settings, without programs and secrets. It is renewed until something here changes it.\n# "

// Copy returns the text of a home folder's .gitconfig that holds settings of [Personal].
func Copy(settings string) string {
	sum := sha256.Sum256([]byte(settings))
	return copyHead + hex.EncodeToString(sum[:]) + "\n" + settings
}

// IsCopy reports whether a text is what [Copy] returned, for any settings.
func IsCopy(text string) bool {
	rest, ok := strings.CutPrefix(text, copyHead)
	_, settings, _ := strings.Cut(rest, "\n")
	return ok && text == Copy(settings)
}

type personal struct {
	home, git, folder string
	files             int // that were read
	out               strings.Builder
}

// demands are the settings without which a commit or tag would be unsigned. For an included file whose condition may begin
// to hold while a command runs, those with a true value count.
var demands = []string{"commit.gpgsign", "tag.gpgsign", "tag.forcesignannotated", "push.gpgsign"}

// gitAround is the own folder of the repository that a folder belongs to, or "".
func gitAround(folder string) string {
	for dir := folder; path.IsAbs(dir); dir = path.Dir(dir) {
		if git := gitFolder(dir); git != "" || dir == path.Dir(dir) {
			return git
		}
	}
	return ""
}

// read adds the settings of a file. If only is not nil, it adds nothing but settings of that list with a true value.
func (p *personal) read(file string, depth int, only []string) {
	if p.files++; p.files > maxFiles {
		return
	}
	for _, s := range parse(settingsText(file)) {
		included, beside := absolute(path.Dir(file), s.value, p.home), path.Dir(file)
		switch {
		case s.key == "path" && depth < maxIncluded && (s.section == "include" && s.sub == "" || s.section == "includeif" && p.holds(s.sub, beside)):
			p.read(included, depth+1, only)
		case s.key == "path" && depth < maxIncluded && s.section == "includeif" && p.mayHold(s.sub, beside):
			p.read(included, depth+1, demands)
		case only != nil && (!slices.Contains(only, s.section+"."+s.key) || !slices.Contains([]string{"", "true", "yes", "on", "1", "if-asked"}, strings.ToLower(s.value))):
		case s.sub == "" && (slices.Contains(plainSettings[s.section], s.key) || s.section == "alias" && isPlainAlias(s.value)):
			if s.section+"."+s.key == "user.signingkey" {
				s.value = p.publicKey(s.value)
			}
			p.add(s)
		}
	}
}

// publicKey is a signing key as a command can name it: the files of keys are out of its reach, so an SSH key stands for its file.
func (p *personal) publicKey(value string) string {
	if !strings.HasPrefix(value, "/") && !strings.HasPrefix(value, "~/") {
		return value
	}
	file := absolute("/", value, p.home)
	if !strings.HasSuffix(file, ".pub") {
		file += ".pub" // beside the private key
	}
	parts := strings.Fields(settingsText(file))
	if len(parts) < 2 || !sshKey.MatchString(parts[0]+" "+parts[1]) {
		return value
	}
	return "key::" + parts[0] + " " + parts[1]
}

var sshKey = regex.Lazy(`^(?:ssh|ecdsa|sk-ssh|sk-ecdsa)-[a-z0-9@.-]+ [A-Za-z0-9+/=]+$`)

// secretOption finds options of Git's commands that can hold a secret, as --smtp-pass.
var secretOption = regex.Lazy(`(?i)pass|secret|token|credential|header`)

// isPlainAlias reports whether an alias stands for a command of Git's own. Options before it and addresses can hold secrets.
func isPlainAlias(value string) bool {
	value = strings.TrimSpace(value)
	return value != "" && 'a' <= value[0] && value[0] <= 'z' && !strings.ContainsAny(value, "@:") && !secretOption.MatchString(value)
}

// holds reports whether the condition of an includeIf holds. beside is the folder of its file.
func (p *personal) holds(condition, beside string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if p.git == "" || pattern == "" || kind != "gitdir" && kind != "gitdir/i" {
		return false
	}
	pattern = p.whole(pattern, beside)
	real, err := filepath.EvalSymlinks(p.git)
	if err != nil {
		return false
	}
	return slices.ContainsFunc([]string{p.git, real}, func(git string) bool { // Git compares both
		if kind == "gitdir/i" {
			return doublestar.MatchUnvalidated(strings.ToLower(pattern), strings.ToLower(git))
		}
		return doublestar.MatchUnvalidated(pattern, git)
	})
}

// whole is the pattern of a condition as Git completes it.
func (p *personal) whole(pattern, beside string) string {
	switch rest, homely := strings.CutPrefix(pattern, "~/"); {
	case homely:
		pattern = p.home + "/" + rest
	case strings.HasPrefix(pattern, "./"):
		pattern = beside + pattern[1:]
	case !path.IsAbs(pattern):
		pattern = "**/" + pattern
	}
	if strings.HasSuffix(pattern, "/") {
		pattern += "**"
	}
	return pattern
}

// mayHold reports whether a condition that does not hold now may hold for a repository that a command works in: one in the
// folder or below it, another branch, or other remotes.
func (p *personal) mayHold(condition, beside string) bool {
	kind, pattern, _ := strings.Cut(condition, ":")
	if kind != "gitdir" && kind != "gitdir/i" {
		return true
	}
	pattern = p.whole(pattern, beside)
	if i := strings.IndexAny(pattern, `*?[\\`); i >= 0 {
		pattern = pattern[:i]
	}
	base, folder := strings.ToLower(strings.TrimSuffix(pattern, "/")), strings.ToLower(p.folder)
	return base == "" || within(folder, base) || p.git == "" && within(base, folder)
}

// add writes a setting, unless it has a byte that no setting needs. Git reads nothing of a file with a key that begins with
// another character than a letter.
func (p *personal) add(s setting) {
	if s.key[0] < 'a' || strings.ContainsFunc(s.key+s.value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) {
		return
	}
	line := "[" + s.section + "]\n\t" + s.key + " = \"" + quoted.Replace(s.value) + "\"\n"
	if p.out.Len()+len(line) <= maxPersonal {
		p.out.WriteString(line)
	}
}

var quoted = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\t", `\t`)

// settingsText reads a file of settings; "": it is none.
func settingsText(p string) string {
	f, err := os.OpenFile(p, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	if st, err := f.Stat(); err != nil || !st.Mode().IsRegular() {
		return ""
	}
	text, err := io.ReadAll(io.LimitReader(f, maxSettings))
	if err != nil {
		return ""
	}
	return string(text)
}
