package clients

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/service/home"
)

// AgentFile is a kind of file that an agent keeps for itself, outside of the project.
type AgentFile uint8

// The kinds of an agent's own files. The zero AgentFile is of every other file.
const (
	NoAgentFile AgentFile = iota
	OutputFile            // written by the agent itself in this session: output of tools and of commands in the background, to-do lists
	ScratchFile           // a scratch file of this session
	PlanFile              // a plan for the person, of this session or new; or the folder of plans
	OtherPlan             // a plan that another session made
	MemoryFile            // the agent's notes for its later sessions in the project
)

// AgentSession is a session of Claude Code, which names its folders after the session.
type AgentSession struct {
	ID         string
	Transcript string                           // the file with the session's conversation, as the agent's event tells it
	Lookup     func(name string) (string, bool) // finds a variable of the agent's environment
}

// AgentFiles finds the agent's own files of a session.
type AgentFiles struct {
	id, slug     string
	transcript   string
	config, temp string // real paths; temp: "" without a temporary folder of this person
}

// FilesOf gives the finder for a session; nil: the transcript is not where Claude Code keeps those of the person.
func FilesOf(s AgentSession) *AgentFiles {
	config, ok := s.Lookup("CLAUDE_CONFIG_DIR")
	if person, has := s.Lookup("HOME"); !ok && has {
		config = filepath.Join(person, ".claude")
	}
	slug := filepath.Base(filepath.Dir(s.Transcript))
	plain := isFolderName(s.ID) && isFolderName(slug)
	if !plain || !filepath.IsAbs(config) || s.Transcript != filepath.Join(config, "projects", slug, s.ID+".jsonl") {
		return nil
	}
	f := &AgentFiles{id: s.ID, slug: slug, transcript: s.Transcript, config: home.RealPath(filepath.Clean(config))}
	temp, ok := s.Lookup("CLAUDE_CODE_TMPDIR")
	if !ok || !filepath.IsAbs(temp) {
		temp = os.TempDir()
	}
	temp = home.RealPath(filepath.Join(temp, tempName()))
	if isOwnFolder(temp) && filepath.Base(temp) == tempName() {
		f.temp = temp
	}
	return f
}

// isFolderName reports whether a text is the name of one folder in another.
func isFolderName(s string) bool { return filepath.IsLocal(s) && s != "." && !strings.Contains(s, "/") }

// Kind says which kind of the agent's own files a path is, its links followed. The file need not exist.
func (f *AgentFiles) Kind(path string) AgentFile {
	if f == nil || !filepath.IsAbs(path) {
		return NoAgentFile
	}
	real := home.RealPath(filepath.Clean(path))
	in := func(root string, parts ...string) bool {
		return root != "" && isBelow(filepath.Join(append([]string{root}, parts...)...), real)
	}
	plans := filepath.Join(f.config, "plans")
	memory := filepath.Join(f.config, "projects", f.slug, "memory")
	switch {
	case real == memory, isBelow(memory, real) && strings.HasSuffix(real, ".md"):
		return MemoryFile
	case real == plans, filepath.Dir(real) == plans && strings.HasSuffix(real, ".md"):
		if _, err := os.Lstat(real); real != plans && err == nil && !f.madePlan(strings.TrimSuffix(filepath.Base(real), ".md")) {
			return OtherPlan
		}
		return PlanFile
	case in(f.temp, f.slug, f.id, scratchFolder):
		return ScratchFile
	case in(f.config, "projects", f.slug, f.id, "tool-results"), in(f.config, "tasks", f.id), in(f.temp, f.slug, f.id, "tasks"):
		return OutputFile
	}
	return NoAgentFile
}

// planTail is how many bytes at the end of a session's conversation are searched for the name of its plan. Claude Code
// writes the name into each entry after the plan was made.
const planTail = 4 << 20

// madePlan reports whether this session made a plan, or one of its sub-agents did.
func (f *AgentFiles) madePlan(name string) bool {
	file, err := os.Open(f.transcript)
	if err != nil {
		return false
	}
	defer func() { _ = file.Close() }()
	if _, err := file.Seek(-planTail, io.SeekEnd); err != nil { // it is shorter
		if _, err := file.Seek(0, io.SeekStart); err != nil {
			return false
		}
	}
	tail, err := io.ReadAll(io.LimitReader(file, planTail))
	if err != nil {
		return false
	}
	for line := range bytes.Lines(tail) {
		var entry struct {
			Slug string `json:"slug"`
		}
		if bytes.Contains(line, []byte(`"slug"`)) && json.Unmarshal(line, &entry) == nil && entry.Slug != "" &&
			(name == entry.Slug || strings.HasPrefix(name, entry.Slug+"-agent-")) {
			return true
		}
	}
	return false
}

// scratchFolder is the name of the folder for scratch files in a session's folder.
const scratchFolder = "scratchpad"

// Scratch is the folder for scratch files of the session; "": there is none.
func (f *AgentFiles) Scratch() string {
	if f == nil || f.temp == "" {
		return ""
	}
	return filepath.Join(f.temp, f.slug, f.id, scratchFolder)
}

// MakeScratch makes a session's folder for scratch files where it is missing, and returns it; "" if it cannot be used,
// as one that a link leads to. A folder of another form is an error.
func MakeScratch(dir, session string) (string, error) {
	of := filepath.Dir(dir)
	temp := filepath.Dir(filepath.Dir(of))
	if !filepath.IsAbs(dir) || filepath.Clean(dir) != dir || filepath.Base(dir) != scratchFolder || filepath.Base(of) != session || filepath.Base(temp) != tempName() {
		return "", fault.New(fault.Usage, "%q is not a folder for scratch files of the session %q", dir, session)
	}
	if !isOwnFolder(temp) || home.RealPath(dir) != dir {
		return "", nil
	}
	if err := os.MkdirAll(dir, 0o700); err != nil || !home.OwnedByUs(dir) {
		return "", nil //nolint:nilerr // commands then have no such folder
	}
	return dir, nil
}

// tempName is the name of Claude Code's own folder among temporary files.
func tempName() string { return "claude-" + strconv.Itoa(os.Getuid()) }

func isBelow(dir, path string) bool { return path == dir || strings.HasPrefix(path, dir+"/") }

// isOwnFolder reports whether a path is this person's own folder, without write access for others.
func isOwnFolder(path string) bool {
	st, err := os.Lstat(path)
	return err == nil && st.IsDir() && st.Mode().Perm()&0o022 == 0 && home.OwnedByUs(path)
}
