package target

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/remitrun/remit/internal/base/fault"
)

// Rule is one entry of a policy's network lists. It is immutable.
type Rule struct {
	deny    bool
	ask     bool     // see Asks
	methods []string // sorted; nil: any
	scheme  string   // "": any (deny only)
	kind    hostKind
	host    string       // the name, or what follows "*."
	addr    netip.Addr   // hostLiteral
	prefix  netip.Prefix // hostRange
	port    uint16       // 0: any (deny only)
	written bool         // the port was written and is not the scheme's
	path    string       // the pattern; "": any
}

type hostKind uint8

const (
	hostNone hostKind = iota // matches nothing
	hostAny                  // *
	hostName
	hostBelow   // *.name
	hostLiteral // one address
	hostRange   // a range of addresses (deny only)
	hostSocket  // a Unix socket of this machine; path is where
	hostAgent   // keys of the person's SSH agent; path is one's fingerprint, or "" for any
)

// Asks makes the rule one of an ask list. It is called before the rule is used.
func (r *Rule) Asks() { r.ask = true }

// ParseRule reads an entry of a network list:
//
//	[METHOD[,METHOD...] ][scheme://]host[:port][/path/pattern/**]
//
// In allow and ask (deny is false) a bare host means https on port 443, any
// method and path, and a written scheme brings its own default port. In deny,
// every part that is not written matches anything. A host is a name, *.name
// (one or more labels more), * (any public host), a literal address, or in deny
// an address range as 10.0.0.0/8. In a path * stands for any text within one
// segment and ** for any number of segments, also none. An entry unix:/path names a
// Unix socket of this machine. [LOGIN|SIGN ]ssh-agent:KEY names the uses of a key of the
// person's SSH agent, by its fingerprint or, for any key, *.
//
// Errors have the code PolicyInvalid.
func ParseRule(s string, deny bool) (*Rule, error) {
	bad := func(reason, hint string) (*Rule, error) {
		return nil, fault.New(fault.PolicyInvalid, "the network entry %q cannot be read: %s", hideUser(s), reason).WithHint("%s", hint)
	}
	r := &Rule{deny: deny}
	rest := s
	if words, after, ok := strings.Cut(s, " "); ok {
		var reason string
		if r.methods, reason = parseMethods(words); reason != "" {
			return bad(reason, "write methods as GET or GET,HEAD and one space before the host")
		}
		rest = after
	}
	if reason := checkText(rest); reason != "" {
		return bad(reason, "")
	}
	if strings.HasPrefix(rest, socketScheme+":/") {
		return r.withSocket(rest, bad)
	}
	if key, ok := strings.CutPrefix(rest, agentScheme+":"); ok {
		return r.withAgent(key, bad)
	}
	if strings.HasPrefix(rest, "gpg-agent:") {
		return bad("a GPG agent signs hashes, so what it signs cannot be decided or recorded",
			"sign with an SSH key: `git config gpg.format ssh`, and the entry SIGN ssh-agent:KEY")
	}
	if strings.ContainsAny(rest, "?#") {
		return bad("queries and fragments are not compared", "leave out ? and # and what follows")
	}
	if p, err := netip.ParsePrefix(rest); err == nil {
		return r.withRange(p, bad)
	}
	// A path may hold "://" too, so that a scheme is what no slash comes before.
	if scheme, after, ok := strings.Cut(rest, "://"); ok && !strings.Contains(scheme, "/") {
		r.scheme, rest = strings.ToLower(scheme), after
		if r.scheme != "http" && r.scheme != "https" && r.scheme != "tcp" {
			return bad("the scheme is not https, http or tcp", "")
		}
	} else if !deny {
		r.scheme = "https"
	}
	authority := rest
	if i := strings.IndexByte(rest, '/'); i >= 0 {
		authority = rest[:i]
		var reason string
		if r.path, reason = cleanPattern(rest[i:]); reason != "" {
			return bad(reason, "")
		}
	}
	if reason := r.setAuthority(authority); reason != "" {
		return bad(reason, "")
	}
	if r.scheme == "tcp" && (r.methods != nil || r.path != "") {
		return bad("tcp has no methods and paths", "")
	}
	if r.scheme == "tcp" && r.port == 0 && !deny {
		return bad("tcp needs a port", "write tcp://host:port")
	}
	return r, nil
}

func (r *Rule) withRange(p netip.Prefix, bad func(reason, hint string) (*Rule, error)) (*Rule, error) {
	switch {
	case !r.deny:
		return bad("an address range can only be denied", "name each address that is allowed")
	case p != p.Masked():
		return bad("the range has bits set after its prefix", "write "+p.Masked().String())
	case p.Addr().Is4In6():
		return bad("the range is of IPv4 addresses in IPv6 form", "write it as IPv4")
	}
	r.kind, r.prefix = hostRange, p
	return r, nil
}

// withSocket reads the entry of a Unix socket.
func (r *Rule) withSocket(entry string, bad func(reason, hint string) (*Rule, error)) (*Rule, error) {
	if r.methods != nil {
		return bad("a Unix socket has no methods", "")
	}
	t, err := Socket(entry)
	if err != nil || strings.Contains(t.Path, "*") {
		return bad("a Unix socket is one absolute path without . or .. and wildcards", "write unix:/run/docker.sock")
	}
	r.scheme, r.kind, r.path = socketScheme, hostSocket, t.Path
	return r, nil
}

// withAgent reads the entry of keys of the SSH agent.
func (r *Rule) withAgent(key string, bad func(reason, hint string) (*Rule, error)) (*Rule, error) {
	for _, m := range r.methods {
		if m != AgentLogin && m != AgentSign {
			return bad("a key is used for LOGIN or SIGN, not "+m, "write SIGN ssh-agent:"+key)
		}
	}
	if key == "*" {
		key = ""
	} else if !fingerprint.MatchString(key) {
		return bad("a key of the SSH agent is named by its fingerprint, or * for any", "write ssh-agent:SHA256:… as `ssh-add -l` prints it")
	}
	r.scheme, r.kind, r.path = agentScheme, hostAgent, key
	return r, nil
}

// Agent reports whether the rule names keys of the SSH agent.
func (r *Rule) Agent() bool { return r.kind == hostAgent }

// Socket returns the path of the Unix socket that the rule names; false: it names none.
func (r *Rule) Socket() (path string, ok bool) { return r.path, r.kind == hostSocket }

func parseMethods(words string) (methods []string, reason string) {
	for m := range strings.SplitSeq(words, ",") {
		if m == "" {
			return nil, "a method is missing"
		}
		m, reason := canonicalMethod(m)
		if reason != "" {
			return nil, reason
		}
		methods = append(methods, m)
	}
	slices.Sort(methods)
	return slices.Compact(methods), ""
}

func (r *Rule) setAuthority(a string) (reason string) {
	wild := false
	switch {
	case a == "*" || strings.HasPrefix(a, "*:"):
		r.kind = hostAny
		a = "x" + a[1:] // a stand-in, so that the port is read as everywhere
	case strings.HasPrefix(a, "*."):
		wild = true
		a = a[2:]
	}
	if strings.Contains(a, "*") {
		return "* can only be the whole host or its first label"
	}
	host, port, reason := splitAuthority(a)
	if reason != "" {
		return reason
	}
	r.setPort(port)
	if r.kind == hostAny {
		return ""
	}
	addr, err := netip.ParseAddr(host)
	switch {
	case err == nil && wild:
		return "an address has no names below it"
	case err == nil:
		r.kind, r.addr = hostLiteral, addr
	case wild && isLocalhost(host):
		return "names below localhost are not all the same machine everywhere; write localhost"
	case wild:
		r.kind, r.host = hostBelow, host
	default:
		r.kind, r.host = hostName, host
	}
	return ""
}

func (r *Rule) setPort(port uint16) {
	def := defaultPort(r.scheme)
	r.port = port
	if port == 0 && !r.deny {
		r.port = def
	}
	// In deny an unwritten port is any port, so the default must be printed too.
	r.written = port != 0 && (r.deny || port != def)
}

// cleanPattern gives a path pattern in the form that paths are compared in.
func cleanPattern(raw string) (pattern, reason string) {
	switch low := strings.ToLower(raw); {
	case strings.Contains(low, "%2a"):
		return "", "a literal star cannot be matched"
	case strings.Contains(low, "%2f"):
		return "", "an encoded slash cannot be matched; replace its segment and the rest by **"
	}
	for seg := range strings.SplitSeq(raw, "/") {
		if dec, _ := decodeSegment(seg); dec == "." || dec == ".." {
			return "", "the path has a dot segment"
		}
	}
	_, pattern, reason = cleanPath(raw)
	if reason != "" {
		return "", reason
	}
	for seg := range strings.SplitSeq(pattern, "/") {
		if strings.Contains(seg, "**") && seg != "**" {
			return "", "** must be a whole segment of the path"
		}
	}
	return pattern, ""
}

// String prints the rule in its canonical form, which parses to the same rule.
func (r *Rule) String() string {
	var b strings.Builder
	if r.methods != nil {
		b.WriteString(strings.Join(r.methods, ",") + " ")
	}
	switch {
	case r.kind == hostSocket:
		return socketScheme + ":" + r.path
	case r.kind == hostAgent && r.path == "":
		return b.String() + agentScheme + ":*"
	case r.kind == hostAgent:
		return b.String() + agentScheme + ":" + r.path
	}
	if r.scheme != "" && (r.deny || r.scheme != "https") {
		b.WriteString(r.scheme + "://")
	}
	switch r.kind {
	case hostAny:
		b.WriteString("*")
	case hostName:
		b.WriteString(r.host)
	case hostBelow:
		b.WriteString("*." + r.host)
	case hostLiteral:
		if r.addr.Is6() {
			b.WriteString("[" + r.addr.String() + "]")
		} else {
			b.WriteString(r.addr.String())
		}
	case hostRange:
		b.WriteString(r.prefix.String())
	}
	if r.written {
		b.WriteString(":" + strconv.Itoa(int(r.port)))
	}
	b.WriteString(printPattern(r.path))
	return b.String()
}

// printPattern escapes the characters that a pattern cannot hold.
func printPattern(p string) string { return escape(p, "!$&'()*+,;=:@-._~/") }
