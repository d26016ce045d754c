// Package target reads network destinations and the rules over them. A URL is
// either read in its one canonical form or refused: nothing is guessed, so that
// the decided target is the dialled one. Start at [Parse], [URL] and [ParseRule].
//
// The package is pure: it resolves no name and dials nothing.
package target

import (
	"net/url"
	"path"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/base/regex"
	"github.com/remitrun/remit/internal/base/tool"
)

// MaxURL is the longest URL that is read, in bytes.
const MaxURL = 8192

const maxMethod = 32

// Parse reads a URL into the target that a policy decides. An empty method is
// GET (for tcp: none). It accepts http, https and tcp://host:port. Errors have
// the code ArgsInvalid.
func Parse(method, rawURL string) (tool.Target, error) {
	t, _, err := parse(method, rawURL)
	return t, err
}

// URL reads a URL into the target that a policy decides and the one URL to send
// for it: its host, port and dot-free path are the target's, its query is kept,
// its fragment is dropped. Parsing the printed URL gives the same target.
// It accepts http and https only.
func URL(method, rawURL string) (*url.URL, tool.Target, error) {
	t, u, err := parse(method, rawURL)
	if err != nil {
		return nil, tool.Target{}, err
	}
	if t.Scheme == "tcp" {
		return nil, tool.Target{}, refuse(rawURL, "the scheme is tcp; use http or https")
	}
	return u, t, nil
}

// ParseTCP reads "host:port" (an IPv6 host in brackets) into a tcp target.
func ParseTCP(hostport string) (tool.Target, error) {
	return Parse("", "tcp://"+hostport)
}

// socketScheme is the scheme of Unix sockets, in unix:/path.
const socketScheme = "unix"

// Socket reads "unix:" and an absolute path without . and .. into the target of a Unix socket.
func Socket(text string) (tool.Target, error) {
	at, ok := strings.CutPrefix(text, socketScheme+":")
	switch {
	case !ok || !strings.HasPrefix(at, "/") || at == "/" || path.Clean(at) != at:
		return tool.Target{}, refuse(text, "a Unix socket is unix: and an absolute path without . and ..")
	case checkText(text) != "":
		return tool.Target{}, refuse(text, checkText(text))
	}
	return tool.Target{Scheme: socketScheme, Path: at}, nil
}

// agentScheme is the scheme of the keys of the person's SSH agent, in ssh-agent:SHA256:….
const agentScheme = "ssh-agent"

// AgentLogin and AgentSign are the uses of an agent's key: to log in to a server, and to sign
// a file or commit.
const (
	AgentLogin = "LOGIN"
	AgentSign  = "SIGN"
)

// fingerprint is a key's name, as ssh-keygen -l prints it.
var fingerprint = regex.Lazy(`^SHA256:[A-Za-z0-9+/]{43}$`)

// AgentKey reads a use and "ssh-agent:" with a key's fingerprint into the target of that use.
func AgentKey(method, text string) (tool.Target, error) {
	key, ok := strings.CutPrefix(text, agentScheme+":")
	switch {
	case !ok || !fingerprint.MatchString(key):
		return tool.Target{}, refuse(text, "a key is ssh-agent: and its fingerprint, as ssh-keygen -l prints it")
	case method != AgentLogin && method != AgentSign:
		return tool.Target{}, refuse(text, "a key is used for LOGIN or SIGN")
	}
	return tool.Target{Method: method, Scheme: agentScheme, Path: key}, nil
}

// Local reads the target of something of this machine that is not reached by a host: a Unix
// socket, or a use of a key.
func Local(text string) (tool.Target, error) {
	if method, rest, ok := strings.Cut(text, " "); ok {
		return AgentKey(method, rest)
	}
	return Socket(text)
}

func parse(method, raw string) (tool.Target, *url.URL, error) {
	fail := func(reason string) (tool.Target, *url.URL, error) {
		return tool.Target{}, nil, refuse(raw, reason)
	}
	if reason := checkText(raw); reason != "" {
		return fail(reason)
	}
	scheme, rest, ok := strings.Cut(raw, "://")
	scheme = strings.ToLower(scheme)
	if !ok {
		return fail("it has no scheme://host")
	}
	if scheme != "http" && scheme != "https" && scheme != "tcp" {
		return fail("only http and https are known")
	}
	rest, _, _ = strings.Cut(rest, "#")
	rest, query, hasQuery := strings.Cut(rest, "?")
	authority, path := rest, ""
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority, path = rest[:i], rest[i:]
	}
	host, port, reason := splitAuthority(authority)
	if reason != "" {
		return fail(reason)
	}
	if scheme == "tcp" {
		if method != "" || path != "" || hasQuery || port == 0 {
			return fail("tcp takes a host and a port and nothing else")
		}
		return tool.Target{Scheme: scheme, Host: host, Port: port}, nil, nil
	}
	method, reason = canonicalMethod(method)
	if reason != "" {
		return fail(reason)
	}
	sent, decoded, reason := cleanPath(path)
	if reason != "" {
		return fail(reason)
	}
	t := tool.Target{Method: method, Scheme: scheme, Host: host, Port: port, Path: decoded}
	if port == 0 {
		t.Port = defaultPort(scheme)
	}
	u := &url.URL{Scheme: scheme, Host: urlHost(t), Path: strings.ReplaceAll(decoded, EncodedSlash, "/"), RawPath: sent,
		RawQuery: escapeQuery(query), ForceQuery: hasQuery && query == ""}
	return t, u, nil
}

// checkText refuses texts that parsers are known to read differently.
func checkText(s string) string {
	if s == "" {
		return "it is empty"
	}
	if len(s) > MaxURL {
		return "it is longer than " + strconv.Itoa(MaxURL) + " bytes"
	}
	if !utf8.ValidString(s) {
		return "it is not UTF-8"
	}
	for _, r := range s {
		switch {
		case r == '\\':
			return "it contains a backslash"
		case r == ' ' || unicode.IsSpace(r):
			return "it contains white space"
		case !unicode.IsGraphic(r):
			return "it contains a control or invisible character"
		}
	}
	return ""
}

func canonicalMethod(m string) (method, reason string) {
	if m == "" {
		return "GET", ""
	}
	if len(m) > maxMethod {
		return "", "the method is too long"
	}
	for i := 0; i < len(m); i++ {
		if c := m[i]; (c < 'A' || c > 'Z') && (c < 'a' || c > 'z') && (i == 0 || c != '-') {
			return "", "the method is not a word of letters"
		}
	}
	m = strings.ToUpper(m)
	if m == "CONNECT" || m == "TRACE" {
		return "", "the methods CONNECT and TRACE are not for callers"
	}
	return m, ""
}

// splitAuthority gives the canonical host, and the port or 0 if none is written.
func splitAuthority(a string) (host string, port uint16, reason string) {
	if strings.Contains(a, "@") {
		return "", 0, "it has user information before the host"
	}
	var h, p string
	var hasPort bool
	if strings.HasPrefix(a, "[") {
		end := strings.IndexByte(a, ']')
		if end < 0 {
			return "", 0, "the bracket around the address is not closed"
		}
		h = a[:end+1]
		if after := a[end+1:]; after != "" {
			if after[0] != ':' {
				return "", 0, "text follows the address's bracket"
			}
			p, hasPort = after[1:], true
		}
	} else {
		h, p, hasPort = strings.Cut(a, ":")
	}
	if h == "" {
		return "", 0, "the host is missing"
	}
	if hasPort {
		if port, reason = parsePort(p); reason != "" {
			return "", 0, reason
		}
	}
	host, reason = canonicalHost(h)
	return host, port, reason
}

func parsePort(s string) (port uint16, reason string) {
	n, err := strconv.ParseUint(s, 10, 16)
	if err != nil || n == 0 || strconv.FormatUint(n, 10) != s {
		return 0, "the port is not a plain number from 1 to 65535"
	}
	return uint16(n), ""
}

func defaultPort(scheme string) uint16 {
	switch scheme {
	case "https":
		return 443
	case "http":
		return 80
	}
	return 0
}

// urlHost is the host as a URL and a Host header write it.
func urlHost(t tool.Target) string {
	hp := t.HostPort()
	if t.Port == defaultPort(t.Scheme) {
		return strings.TrimSuffix(hp, ":"+strconv.Itoa(int(t.Port)))
	}
	return hp
}

func refuse(raw, reason string) *fault.Error {
	const most = 200
	raw = hideUser(raw)
	if len(raw) > most {
		raw = strings.ToValidUTF8(raw[:most], "") + "…"
	}
	return fault.New(fault.ArgsInvalid, "the URL %q is refused: %s", raw, reason)
}

// hideUser keeps a password in a refused URL out of messages and logs.
func hideUser(raw string) string {
	_, rest, ok := strings.Cut(raw, "://")
	if !ok {
		rest = raw
	}
	end := strings.IndexAny(rest, "/?#")
	if end < 0 {
		end = len(rest)
	}
	at := strings.LastIndexByte(rest[:end], '@')
	if at < 0 {
		return raw
	}
	return raw[:len(raw)-len(rest)] + "***" + rest[at:]
}
