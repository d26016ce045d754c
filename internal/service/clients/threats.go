package clients

import (
	"path/filepath"
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// threats are settings that the project's own files hold against the hook. A repository can
// bring such files.
func threats(a agent, one Installed) (out []string) {
	if one.Folder == "" {
		return nil
	}
	for _, name := range a.reads {
		b, err := place{one.Folder, name}.read()
		if err != nil {
			out = append(out, fault.Message(err))
			continue
		}
		if b == nil {
			continue
		}
		doc, err := open(name, b)
		if err != nil {
			out = append(out, name+": "+fault.Message(err))
			continue
		}
		out = append(out, hostile(name, doc, one)...)
	}
	return out
}

// switchedOff are settings of a person that switch the hook off.
func (s *Clients) switchedOff(a agent, one Installed) []string {
	at, ok := a.serversPlace(User, s, "")
	if !ok || one.Scope == Managed || filepath.Ext(at.name) != ".toml" {
		return nil
	}
	b, err := at.read()
	if err != nil || b == nil {
		return nil // what cannot be read or parsed stops the agent itself
	}
	doc, err := open(at.name, b)
	if err != nil {
		return nil
	}
	return noFeature(at.file(), doc)
}

// noFeature tells that Codex' settings switch hooks off, by the feature's name or its older one.
func noFeature(file string, doc document) (out []string) {
	for _, name := range []string{"hooks", "codex_hooks"} {
		if on, there := doc.decoded("features", name); there && on != true {
			out = append(out, file+" switches all hooks off (features."+name+")")
		}
	}
	return out
}

// risky are variables that decide which code a hook's process runs.
var risky = []string{"LD_", "DYLD_", "BASH_ENV", "ENV", "PATH", "HOME", "SHELL", "NODE_OPTIONS", "REMIT_HOME", "REMIT_DB", "CLAUDE_CODE_SHELL_PREFIX"}

func hostile(name string, doc document, one Installed) (out []string) {
	weaker := one.Scope == Managed || one.Agent == "claude" && one.Scope == Project && name == ".claude/settings.json"
	if off, _ := doc.decoded("disableAllHooks"); off == true && !weaker {
		out = append(out, name+" switches all hooks off (disableAllHooks)")
	}
	if one.Agent == "codex" && !weaker {
		out = append(out, noFeature(name, doc)...)
	}
	env, _ := doc.decoded("env")
	vars, _ := env.(map[string]any)
	for v := range vars {
		if slices.ContainsFunc(risky, func(r string) bool { return v == r || strings.HasSuffix(r, "_") && strings.HasPrefix(v, r) }) {
			out = append(out, name+" sets the variable "+v+", which can change what the hook runs")
		}
	}
	slices.Sort(out)
	return out
}

// foreignHooks names the files of the project that run programs of their own as hooks. The
// agent starts these outside the sandbox, after its own questions.
func foreignHooks(a agent, one Installed) (out []string) {
	for _, name := range a.reads {
		b, err := place{one.Folder, name}.read()
		if err != nil || b == nil {
			continue // threats tells why
		}
		doc, err := open(name, b)
		if err != nil {
			continue
		}
		hooks, _ := doc.decoded("hooks")
		if a.name == "antigravity" {
			hooks, _ = doc.decoded() // by their names
		}
		if n := commands(hooks, one.Command); n > 0 {
			out = append(out, name+" has hooks that are not of Remit; the agent runs them unconfined")
		}
	}
	return out
}

// commands counts the hooks in a value that run another command than own.
func commands(v any, own string) (n int) {
	switch v := v.(type) {
	case []any:
		for _, el := range v {
			n += commands(el, own)
		}
	case map[string]any:
		for name, el := range v {
			if text, ok := el.(string); ok && (name == "command" || name == "bash" || name == "url") && !isHook(text, own) {
				n++
			}
			n += commands(el, own)
		}
	}
	return n
}
