package clients

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/walk"
)

// Bounds of the search for a project's skills.
const (
	maxProjectEntries = 200_000 // files and folders in which .claude is looked for
	maxSkillEntries   = 5_000   // files and folders of skills
	maxSkillFile      = 1 << 20 // bytes
)

// Skill is an action of Claude Code itself when it starts a skill or slash command, without its hook.
type Skill struct {
	Reads   []string // files that the skill's text mentions with @, whose content goes to the model
	Refusal string   // why the skill cannot be judged; "": it can
}

// ProjectSkill finds the effects of starting a skill. It looks at the skills and commands of the
// project around dir: in its folders and those above, but not in the person's home folder, whose
// skills are the person's own.
func ProjectSkill(dir, home, name string) (Skill, error) {
	var out Skill
	dir, err := filepath.EvalSymlinks(dir)
	if err != nil || !filepath.IsAbs(dir) {
		return out, fault.New(fault.Usage, "the folder %q of the event cannot be read", dir)
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	s := skillSearch{home: home}
	if err := s.searchProject(dir); err != nil {
		return out, err
	}
	for _, file := range s.files {
		b, err := os.ReadFile(file)
		if err != nil {
			return out, fault.Wrap(fault.Usage, err, "the skill file %q cannot be read: %v", file, err)
		}
		text := lineEnds.Replace(strings.TrimPrefix(string(b), "\ufeff"))
		if !mayBe(file, text, name) {
			continue
		}
		if why := runs(text); why != "" {
			return Skill{Refusal: "the skill file " + file + " " + why + ", which Claude Code does without asking its hook"}, nil
		}
		out.Reads = append(out.Reads, mentions(text, dir, filepath.Dir(file), home)...)
	}
	return out, nil
}

// lineEnds makes all ends of lines the same: YAML has more of them than most programs.
var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// mayBe reports whether a file may be the skill of a name. A name is made of the folders and
// files below .claude, or is set in the file's head.
func mayBe(file, text, name string) bool {
	_, below, _ := strings.Cut(strings.ToLower(filepath.ToSlash(file)), "/.claude/")
	parts := strings.Split(strings.TrimSuffix(below, ".md"), "/")
	if set := skillName.FindStringSubmatch(head(text)); set != nil {
		own := strings.ToLower(strings.TrimSpace(set[1]))
		if !plainName.MatchString(own) {
			return true
		}
		parts = append(parts, own)
	}
	return slices.ContainsFunc(strings.FieldsFunc(strings.ToLower(name), func(r rune) bool { return r == ':' || r == '/' || r == ' ' }),
		func(part string) bool { return slices.Contains(parts, part) })
}

// head is the front matter of a text, in lines; "": it has none.
func head(text string) string {
	if !strings.HasPrefix(text, "---") {
		return ""
	}
	_, rest, _ := strings.Cut(text, "\n")
	before, _, _ := strings.Cut("\n"+rest, "\n---")
	return before
}

var (
	skillName  = regex.Lazy(`(?m)^name[ \t]*:(.*)$`)
	plainName  = regex.Lazy(`^[a-z0-9_-]+$`)
	plainKey   = regex.Lazy(`^([A-Za-z][A-Za-z0-9_-]*)[ \t]*:($|[ \t])`)
	shellBlock = regex.Lazy("(^|[^`])!`|```!")
	mentioned  = regex.Lazy(`(?:^|[\s\pZ({\[,;>])@("[^"]+"|[^\s"]+)`)
)

// runs says what a skill runs; "": nothing.
func runs(text string) string {
	if shellBlock.MatchString(text) {
		return "has a shell command"
	}
	begun := false // the keys stand at the begin of lines, as the first one
	for _, line := range strings.Split(head(text), "\n") {
		key := plainKey.FindStringSubmatch(line)
		switch {
		case line == "", strings.HasPrefix(line, "#"), begun && strings.ContainsRune(" \t-", rune(line[0])) && !strings.HasPrefix(line, "--"):
		case key == nil:
			return "has a head that cannot be read"
		case strings.EqualFold(key[1], "hooks"), strings.EqualFold(key[1], "shell"):
			return "sets " + key[1]
		default:
			begun = true
		}
	}
	return ""
}

// mentions are the existing files that a skill's text names with @.
func mentions(text, dir, folder, home string) (out []string) {
	for _, m := range mentioned.FindAllStringSubmatch(text, -1) {
		name, _, _ := strings.Cut(strings.Trim(m[1], `"`), "#")
		for _, one := range []string{name, strings.TrimRight(name, ".,:;!?)]}'`*_")} {
			for _, at := range []string{dir, folder, home} {
				file := filepath.Join(at, strings.TrimPrefix(one, "~/"))
				if filepath.IsAbs(one) {
					file = one
				}
				if _, err := os.Stat(file); one != "" && err == nil && !slices.Contains(out, file) {
					out = append(out, file)
				}
			}
		}
	}
	return out
}

// skillSearch collects the files of skills and commands.
type skillSearch struct {
	home        string
	files       []string
	seen, taken int
}

// searchProject looks in the project that has a folder: in all of its folders, and in those above.
func (s *skillSearch) searchProject(dir string) error {
	top := dir
	for at := dir; at != s.home && at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Lstat(filepath.Join(at, ".git")); err == nil {
			top = at
		}
		if err := s.claude(filepath.Join(at, ".claude")); err != nil {
			return err
		}
	}
	if top == s.home {
		return nil
	}
	return s.searchBelow(top)
}

// searchBelow looks for .claude in all folders below one.
func (s *skillSearch) searchBelow(dir string) error {
	entries, err := list(dir, &s.seen, maxProjectEntries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		at := filepath.Join(dir, e.Name())
		switch {
		case strings.EqualFold(e.Name(), ".claude"):
			err = s.claude(at)
		case e.IsDir() && e.Name() != ".git" && at != s.home:
			err = s.searchBelow(at)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// claude takes the files of one .claude folder.
func (s *skillSearch) claude(dir string) error {
	for _, name := range []string{"skills", "commands"} {
		if err := s.take(filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// take takes the texts below a folder. It follows links, as Claude Code does.
func (s *skillSearch) take(at string) error {
	info, err := os.Stat(at)
	if err != nil {
		return nil //nolint:nilerr // it is not there, or a link that leads nowhere
	}
	if !info.IsDir() {
		switch {
		case !strings.EqualFold(filepath.Ext(at), ".md") || slices.Contains(s.files, at):
			return nil
		case !info.Mode().IsRegular() || info.Size() > maxSkillFile:
			return fault.New(fault.LimitReached, "the skill file %q is not a file of at most %d bytes", at, maxSkillFile)
		}
		s.files = append(s.files, at)
		return nil
	}
	entries, err := list(at, &s.taken, maxSkillEntries)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := s.take(filepath.Join(at, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// list lists a folder, and counts the entries.
func list(dir string, seen *int, limit int) ([]os.DirEntry, error) {
	f, err := os.Open(dir)
	if os.IsPermission(err) || os.IsNotExist(err) {
		return nil, nil // the agent cannot read it either
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	left := walk.Budget{Names: limit - *seen, Bytes: walk.Most().Bytes}
	entries, err := walk.Entries(context.Background(), f, &left)
	if *seen = limit - left.Names; errors.Is(err, walk.ErrMany) {
		err = fault.New(fault.LimitReached, "the project has more than %d files in which its skills could be", limit).WithHint("start the skill yourself with /")
	}
	return entries, err
}
