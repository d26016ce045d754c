package policy

import (
	"slices"
	"strings"

	"github.com/remitrun/remit/internal/policy/glob"
)

// readSensitive are names whose files hold secrets. One * at the start or the
// end stands for anything; names with a slash are two folders deep.
var readSensitive = []string{
	".env", ".env.*", ".ssh", ".gnupg", ".aws", ".azure", ".kube", ".docker", ".netrc", ".npmrc", ".pypirc",
	".git-credentials", ".config/gh", ".config/gcloud", "*.pem", "*.key", "*.p12", "id_rsa*", "id_ed25519*",
	".bash_history", ".zsh_history", ".sh_history", ".ash_history", ".history", "fish_history", ".python_history",
	".node_repl_history", ".psql_history", ".mysql_history", ".sqlite_history", ".rediscli_history", ".lesshst",
	".mozilla", ".thunderbird", ".config/google-chrome", ".config/chromium", ".config/BraveSoftware",
	".config/microsoft-edge", ".config/vivaldi", ".config/opera",
}

// writeSensitive are names whose files other programs run by themselves.
var writeSensitive = []string{
	".git/hooks", ".git/config", ".git/config.worktree", ".git/modules", ".husky", ".bashrc", ".bash_profile", ".bash_login", ".bash_logout", ".profile", ".zshrc",
	".zshenv", ".zprofile", ".zlogin", ".zlogout", ".kshrc", ".cshrc", ".tcshrc", ".login", ".config/fish", ".inputrc",
	".envrc", ".vscode", ".idea", ".claude", ".cursor", ".mcp.json", "remit.yaml",
}

// Sensitive lists the names that no wildcard of an allow or ask list matches:
// for reading, and with write set those for writing, which are more. A name
// with a slash is a folder and what is in it. $REMIT_HOME is among them too,
// with everything beneath.
func Sensitive(write bool) []string {
	if write {
		return append(slices.Clone(readSensitive), writeSensitive...)
	}
	return slices.Clone(readSensitive)
}

// nameTable finds sensitive names fast.
type nameTable struct {
	first    [256]bool // what the names in exact, pairs and prefixes begin with, in either case
	last     [256]bool // what those in suffixes end with
	exact    map[string]bool
	prefixes []string // of names that end with *
	suffixes []string // of names that begin with *
	pairs    map[string][]string
}

var sensitiveNames = [2]nameTable{tableOf(Sensitive(false)), tableOf(Sensitive(true))}

func tableOf(names []string) nameTable {
	t := nameTable{exact: map[string]bool{}, pairs: map[string][]string{}}
	for _, n := range names {
		n = strings.ToLower(n)
		if s, ok := strings.CutPrefix(n, "*"); ok {
			t.suffixes = append(t.suffixes, s)
			mark(&t.last, s[len(s)-1])
			continue
		}
		mark(&t.first, n[0])
		if s, ok := strings.CutSuffix(n, "*"); ok {
			t.prefixes = append(t.prefixes, s)
			continue
		}
		if dir, name, ok := strings.Cut(n, "/"); ok {
			t.pairs[dir] = append(t.pairs[dir], name)
		} else {
			t.exact[n] = true
		}
	}
	return t
}

func mark(set *[256]bool, c byte) {
	set[c] = true
	if c >= 'a' && c <= 'z' {
		set[c-'a'+'A'] = true
	}
}

// ordinary reports whether a name, in any case, is certainly not in the table.
func (t *nameTable) ordinary(name string) bool {
	return !t.first[name[0]] && !t.last[name[len(name)-1]]
}

// need says how much of a lower-case name a pattern must spell, and which
// names are sensitive right beneath it.
func (t *nameTable) need(name []byte) (n glob.Need, beneath []string) {
	if t.first[name[0]] {
		if t.exact[string(name)] {
			n.Prefix = len(name)
		}
		beneath = t.pairs[string(name)]
	}
	for _, p := range t.prefixes {
		if len(name) >= len(p) && string(name[:len(p)]) == p {
			n.Prefix = max(n.Prefix, len(p))
		}
	}
	for _, s := range t.suffixes {
		if len(name) >= len(s) && string(name[len(name)-len(s):]) == s {
			n.Suffix = max(n.Suffix, len(s))
		}
	}
	return n, beneath
}

// kernel are folders whose files are no files.
func kernel(name []byte) bool {
	switch string(name) {
	case "proc", "sys", "dev":
		return true
	}
	return false
}

// stackNeeds is how many segments of a path have their needs without
// allocation.
const stackNeeds = 32

// needs gives what a pattern must spell to match the path, by segment, in buf
// or, for a deep path, beyond it. nil: nothing is sensitive.
func (r *Rules) needs(p, folded string, write bool, buf []glob.Need) []glob.Need {
	t := &sensitiveNames[0]
	if write {
		t = &sensitiveNames[1]
	}
	var lower [256]byte
	var beneath []string
	sensitive, inKernel, odd := false, false, folded != p
	_, own := r.owned(p) // the names in it are ordinary; those of the way to it are spelled
	out := buf[:0]
	for i, at, rest := 0, 0, strings.TrimPrefix(folded, "/"); rest != ""; i++ {
		name := rest
		if k := strings.IndexByte(rest, '/'); k >= 0 {
			name, rest = rest[:k], rest[k+1:]
		} else {
			rest = ""
		}
		at += 1 + len(name)
		if name == "" { // folding made a slash of another character
			odd = true
			out = append(out, glob.Need{})
			continue
		}
		var need glob.Need
		if i == 0 || len(beneath) > 0 || !t.ordinary(name) {
			key := lowerName(name, lower[:0])
			var next []string
			if need, next = t.need(key); len(beneath) > 0 && slices.Contains(beneath, string(key)) {
				need = glob.Literal
				out[i-1] = glob.Literal
			}
			beneath = next
			inKernel = inKernel || i == 0 && kernel(key)
		}
		if inKernel || r.inState(folded, at) && (!own || odd || at <= len(r.own)) {
			need = glob.Literal
		}
		if need != (glob.Need{}) {
			sensitive = true
			if odd {
				need = glob.Literal // the name is written in a way of its own
			}
		}
		out = append(out, need)
	}
	switch {
	case !sensitive:
		return nil
	case odd && strings.Count(folded, "/") != strings.Count(p, "/"):
		// Segments do not line up: nothing in this path is matched by wildcards.
		for i := range out {
			out[i] = glob.Literal
		}
	}
	return out
}

// inState reports whether the path's first n bytes are the state folder or in it.
func (r *Rules) inState(folded string, n int) bool {
	s := len(r.state)
	return s > 1 && n >= s && (len(folded) == s || folded[s] == '/') && strings.EqualFold(folded[:s], r.state)
}

func lowerName(name string, buf []byte) []byte {
	for i := 0; i < len(name); i++ {
		c := name[i]
		if c >= 'A' && c <= 'Z' {
			c += 'a' - 'A'
		}
		buf = append(buf, c)
	}
	return buf
}
