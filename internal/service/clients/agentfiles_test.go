package clients_test

import (
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/remitrun/remit/internal/service/clients"
)

// Of the files outside of the project, only those of the session, plans and the project's notes are the agent's own. A link
// counts as the file that it leads to.
func TestAgentFiles(t *testing.T) {
	dir := t.TempDir()
	config, temp, own := dir+"/.claude", dir+"/tmp", "claude-"+strconv.Itoa(os.Getuid())
	make := func(path string) {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	link := func(to, at string) {
		if err := os.Symlink(to, at); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		config + "/projects/-w/s1/tool-results/a", config + "/projects/-w/memory/MEMORY.md", config + "/plans/p.md", config + "/plans/p-agent-1.md", config + "/plans/said.md", config + "/plans/other.md", config + "/tasks/s1/1.json", config + "/settings.json",
		temp + "/" + own + "/-w/s1/tasks/x.output", dir + "/secret",
	} {
		make(path)
	}
	conversation := `{"type":"user","slug":"p","message":{"content":"{\"slug\":\"said\"} /plans/other.md","slug":"said"}}` + "\n"
	if err := os.WriteFile(config+"/projects/-w/s1.jsonl", []byte(conversation), 0o600); err != nil {
		t.Fatal(err)
	}
	link(dir+"/secret", config+"/plans/link.md")
	link(dir, config+"/projects/-w/s1/up")
	link("../../../settings.json", config+"/projects/-w/memory/settings.md")
	env := map[string]string{"HOME": dir, "CLAUDE_CODE_TMPDIR": temp}
	lookup := func(name string) (string, bool) { v, ok := env[name]; return v, ok }
	session := func(id, transcript string) *clients.AgentFiles {
		return clients.FilesOf(clients.AgentSession{ID: id, Transcript: transcript, Lookup: lookup})
	}
	f := session("s1", config+"/projects/-w/s1.jsonl")
	for path, want := range map[string]clients.AgentFile{
		config + "/projects/-w/s1/tool-results/a":           clients.OutputFile,
		config + "/projects/-w/s1/tool-results/not-yet":     clients.OutputFile,
		config + "/projects/-w/s1":                          clients.NoAgentFile,
		config + "/projects/-w/s1/subagents/agent-1.jsonl":  clients.NoAgentFile,
		config + "/projects/-w/s1/workflows/w.js":           clients.NoAgentFile,
		temp + "/" + own + "/-w/s1/started":                 clients.NoAgentFile,
		config + "/tasks/s1/1.json":                         clients.OutputFile,
		temp + "/" + own + "/-w/s1/tasks/x.output":          clients.OutputFile,
		temp + "/" + own + "/-w/s1/scratchpad/new/deep.txt": clients.ScratchFile,
		config + "/plans/p.md":                              clients.PlanFile,
		config + "/plans/new.md":                            clients.PlanFile,
		config + "/projects/-w/memory/MEMORY.md":            clients.MemoryFile,
		config + "/projects/-w/memory/topic/new.md":         clients.MemoryFile,
		config + "/projects/-w/memory":                      clients.MemoryFile,
		config + "/projects/-w/memory/x.sh":                 clients.NoAgentFile,
		config + "/projects/-w/memory/settings.md":          clients.NoAgentFile,
		config + "/projects/-w/s1/up/secret":                clients.NoAgentFile,
		config + "/projects/-w/s1/../s2/a":                  clients.NoAgentFile,
		config + "/projects/-w/s1.jsonl":                    clients.NoAgentFile,
		config + "/projects/-w":                             clients.NoAgentFile,
		config + "/projects/-x/s1/a":                        clients.NoAgentFile,
		config + "/plans/link.md":                           clients.NoAgentFile,
		config + "/plans":                                   clients.PlanFile,
		config + "/plans/p-agent-1.md":                      clients.PlanFile,
		config + "/plans/said.md":                           clients.OtherPlan,
		config + "/plans/other.md":                          clients.OtherPlan,
		config + "/plans/x.sh":                              clients.NoAgentFile,
		config + "/settings.json":                           clients.NoAgentFile,
		temp + "/" + own + "/-w/s2/tasks/x.output":          clients.NoAgentFile,
		temp + "/" + own + "/-w/s12":                        clients.NoAgentFile,
		dir + "/secret":                                     clients.NoAgentFile,
		"projects/-w/s1/a":                                  clients.NoAgentFile,
	} {
		if got := f.Kind(path); got != want {
			t.Errorf("%s is of kind %d, want %d", path, got, want)
		}
	}
	for id, transcript := range map[string]string{
		"s1":    dir + "/projects/-w/s1.jsonl",
		"s2":    config + "/projects/-w/s1.jsonl",
		"..":    config + "/projects/-w/...jsonl",
		".":     config + "/projects/-w/..jsonl",
		"-w/s1": config + "/projects/-w/s1.jsonl",
		"s3":    config + "/projects/../s3.jsonl",
		"s4":    config + "/projects/s4.jsonl",
		"s5":    "projects/-w/s5.jsonl",
		"s6":    "",
	} {
		if f := session(id, transcript); f.Kind(config+"/plans/p.md") != clients.NoAgentFile {
			t.Errorf("the session %q with the transcript %s has own files", id, transcript)
		}
	}
	if err := os.Chmod(temp+"/"+own, 0o777); err != nil { //nolint:gosec // a folder that others can write to
		t.Fatal(err)
	}
	if f := session("s1", config+"/projects/-w/s1.jsonl"); f.Kind(temp+"/"+own+"/-w/s1/tasks/x.output") != clients.NoAgentFile {
		t.Error("a folder that others can write to has the agent's own files")
	}
}
