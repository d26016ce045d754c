package target

import (
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/authority/policy/language"
	"github.com/remitrun/remit/internal/base/tool"
)

// Text is a target as the texts of [Rule.Language] have it: method, scheme, host,
// port and decoded path.
func Text(t tool.Target) string {
	if t.Scheme == socketScheme || t.Scheme == agentScheme {
		return t.Method + " " + t.Scheme + ":" + t.Path
	}
	host := t.Host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	port := ""
	if t.Port != 0 {
		port = ":" + strconv.Itoa(int(t.Port))
	}
	return t.Method + " " + t.Scheme + "://" + host + port + t.Path
}

// Targets is the language of all [Text]s that name a host, a port, a method and a path:
// requests of which all is known.
func Targets(b *language.Builder) language.Language {
	method := b.Then(b.In('A', 'Z'), b.Repeat(b.In('A', 'Z', '-', '-')))
	requests := b.Then(method, b.Text(" "), b.Or(b.Text("https://"), b.Text("http://")), hosts(b), ports(b), anyPath(b))
	connections := b.Then(b.Text(" tcp://"), hosts(b), ports(b))
	return b.Or(requests, connections, sockets(b, language.All), keys(b, language.All, language.All))
}

// sockets are connections to Unix sockets of this machine.
func sockets(b *language.Builder, path language.Language) language.Language {
	return b.Then(b.Text(" "+socketScheme+":"), b.And(path, anyPath(b)))
}

// keys are uses of keys of the person's SSH agent.
func keys(b *language.Builder, use, key language.Language) language.Language {
	char := b.In('!', '~')
	return b.Then(b.And(use, words(b, []string{AgentLogin, AgentSign})), b.Text(" "+agentScheme+":"), b.And(key, b.Then(char, b.Repeat(char))))
}

// ParseText reads a [Text] back.
func ParseText(text string) (tool.Target, bool) {
	method, url, _ := strings.Cut(text, " ")
	for _, scheme := range []string{socketScheme, agentScheme} {
		if path, ok := strings.CutPrefix(url, scheme+":"); ok {
			return tool.Target{Method: method, Scheme: scheme, Path: path}, true
		}
	}
	scheme, rest, ok := strings.Cut(url, "://")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	i := strings.LastIndexByte(authority, ':')
	if !ok || i < 0 {
		return tool.Target{}, false
	}
	port, err := strconv.ParseUint(authority[i+1:], 10, 16)
	return tool.Target{Method: method, Scheme: scheme, Host: strings.Trim(authority[:i], "[]"), Port: uint16(port), Path: path}, err == nil
}

func labels(b *language.Builder) language.Language {
	edge := b.In('a', 'z', '0', '9')
	label := b.Then(edge, b.Repeat(b.In('a', 'z', '0', '9', '-', '-', '_', '_')))
	return b.Then(label, b.Repeat(b.Then(b.Text("."), label)))
}

// hosts are names and addresses, also some that are neither.
func hosts(b *language.Builder) language.Language {
	return b.Or(labels(b), b.Then(b.Text("["), b.Repeat(b.In('a', 'f', '0', '9', ':', ':')), b.Text("]")))
}

func ports(b *language.Builder) language.Language {
	digit := b.In('0', '9')
	return b.Then(b.Text(":"), b.In('1', '9'), b.Or(language.Empty, digit, b.Then(digit, digit), b.Then(digit, digit, digit), b.Then(digit, digit, digit, digit)))
}

func anyPath(b *language.Builder) language.Language {
	return b.Then(b.Text("/"), b.Repeat(b.NotIn(0, ' ', '?', '?', '#', '#', '\\', '\\', 0x7f, 0xa0)))
}

// Language is a set of [Text]s. Of a rule of allow or ask it has every target that the
// rule matches, and perhaps others: of the addresses that are not public, only the usual
// ranges are left out. Of a rule of deny it has only targets that the rule matches, and
// not those that differ from it in letter case, repeated slashes, parameters or encoded slashes.
// Ranges of addresses are in no language.
func (r *Rule) Language(b *language.Builder) language.Language {
	local := r.local(b)
	if r.kind == hostNone || r.kind == hostRange || r.kind == hostSocket || r.kind == hostAgent {
		return local
	}
	method, scheme, port, path := language.All, language.All, language.All, language.All
	if r.methods != nil {
		method = words(b, r.methods)
	}
	if r.scheme != "" {
		scheme = b.Text(r.scheme)
	}
	if r.port != 0 {
		port = b.Text(":" + strconv.Itoa(int(r.port)))
	}
	if r.path != "" {
		slash := b.Text("/")
		if r.ask { // it matches either reading of an encoded slash
			slash = b.Or(slash, b.Text(EncodedSlash))
		}
		path = pathLanguage(b, r.path, slash)
	}
	target := b.Then(b.And(method, b.Repeat(b.In('A', 'Z', '-', '-'))), b.Text(" "), b.And(scheme, b.Repeat(b.In('a', 'z'))),
		b.Text("://"), r.hosts(b), b.And(port, ports(b)), b.And(path, b.Or(language.Empty, anyPath(b))))
	return b.Or(local, b.And(target, Targets(b)))
}

// local is the sockets and keys that the rule names. In deny, * names all of them.
func (r *Rule) local(b *language.Builder) language.Language {
	switch {
	case r.kind == hostSocket:
		return sockets(b, b.Text(r.path))
	case r.kind == hostAgent:
		use, key := language.All, language.All
		if r.methods != nil {
			use = words(b, r.methods)
		}
		if r.path != "" {
			key = b.Text(r.path)
		}
		return keys(b, use, key)
	case r.kind == hostAny && r.deny && r.Whole() && r.scheme == "" && r.port == 0:
		return b.Or(sockets(b, language.All), keys(b, language.All, language.All))
	}
	return language.None
}

func words(b *language.Builder, list []string) language.Language {
	var out []language.Language
	for _, w := range list {
		out = append(out, b.Text(w))
	}
	return b.Or(out...)
}

func (r *Rule) hosts(b *language.Builder) language.Language {
	switch {
	case r.kind == hostName && r.host == "localhost" && r.deny:
		return b.Or(b.Text("localhost"), b.Then(labels(b), b.Text(".localhost")), b.Then(b.Text("127."), b.Repeat(b.In('0', '9', '.', '.'))), b.Text("[::1]"))
	case r.kind == hostName:
		return b.Text(r.host)
	case r.kind == hostBelow:
		return b.Then(labels(b), b.Text("."+r.host))
	case r.kind == hostLiteral && r.addr.Is6():
		return b.Text("[" + r.addr.String() + "]")
	case r.kind == hostLiteral:
		return b.Text(r.addr.String())
	case r.deny:
		return hosts(b)
	}
	return b.And(hosts(b), b.Not(private(b)))
}

// private is hosts that the entry * does not open: names of this machine, and the
// addresses that private networks mostly have.
func private(b *language.Builder) language.Language {
	rest := b.Then(b.Text("."), b.Repeat(b.In('0', '9', '.', '.')))
	var first []language.Language
	for _, p := range []string{"0", "10", "127", "169.254", "192.168"} {
		first = append(first, b.Text(p))
	}
	for n := 16; n < 32; n++ {
		first = append(first, b.Text("172."+strconv.Itoa(n)))
	}
	return b.Or(b.Text("localhost"), b.Then(labels(b), b.Text(".localhost")), b.Then(b.Or(first...), rest),
		b.Text("[::1]"), b.Then(b.Text("[f"), b.In('c', 'f'), language.All))
}

// pathLanguage is the paths that a pattern matches, with a language for its slashes.
func pathLanguage(b *language.Builder, pattern string, slash language.Language) language.Language {
	any := b.Repeat(b.NotIn('/', '/'))
	var parts []language.Language
	for seg := range strings.SplitSeq(pattern[1:], "/") {
		if seg == "**" {
			parts = append(parts, b.Repeat(b.Then(slash, any)))
			continue
		}
		parts = append(parts, slash)
		if seg == "*" {
			parts = append(parts, b.NotIn('/', '/'), any)
			continue
		}
		for i, lit := range strings.Split(seg, "*") {
			if i > 0 {
				parts = append(parts, any)
			}
			parts = append(parts, b.Text(lit))
		}
	}
	return b.Then(parts...)
}
