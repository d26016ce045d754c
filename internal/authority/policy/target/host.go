package target

import (
	"net/netip"
	"strings"

	"golang.org/x/net/idna"
)

// names maps a name as UTS 46 lookup does, non-transitionally, so that ß stays
// ß. Its result still passes checkName, which is stricter.
var names = idna.New(idna.MapForLookup(), idna.BidiRule(), idna.CheckJoiners(true),
	idna.CheckHyphens(false), idna.StrictDomainName(false), idna.Transitional(false))

// canonicalHost gives the one spelling of a host as a URL writes it: a name in
// lower-case ASCII without a final dot, or a literal address without brackets.
func canonicalHost(h string) (host, reason string) {
	if strings.HasPrefix(h, "[") {
		return canonicalV6(h)
	}
	if strings.Contains(h, "%") {
		return "", "the host is percent-encoded"
	}
	ascii := isASCII(h)
	name := strings.ToLower(h)
	if !ascii || strings.Contains(name, "xn--") {
		mapped, err := names.ToASCII(name)
		if err != nil || !isASCII(mapped) {
			return "", "the host is not a valid international name"
		}
		if ascii && mapped != name {
			return "", "the host is not in the canonical form of an international name"
		}
		name = mapped
	}
	if endsInNumber(name) {
		a, err := netip.ParseAddr(name)
		if !ascii || err != nil || !a.Is4() || a.String() != name {
			return "", "the host is an address that is not written as four plain decimal numbers"
		}
		return name, ""
	}
	name = strings.TrimSuffix(name, ".")
	if reason := checkName(name); reason != "" {
		return "", reason
	}
	return name, ""
}

func canonicalV6(h string) (host, reason string) {
	if strings.Contains(h, "%") {
		return "", "the address has a zone"
	}
	a, err := netip.ParseAddr(strings.Trim(h, "[]"))
	if err != nil || !a.Is6() {
		return "", "the brackets hold no IPv6 address"
	}
	if a.Is4In6() {
		return "", "the address is an IPv4 address in IPv6 form; write it as IPv4"
	}
	return a.String(), ""
}

// endsInNumber is the WHATWG URL standard's test for a host that some parser
// takes for an IPv4 address.
func endsInNumber(name string) bool {
	name = strings.TrimSuffix(name, ".")
	last := name[strings.LastIndexByte(name, '.')+1:]
	if last == "" {
		return false
	}
	if hex, ok := strings.CutPrefix(last, "0x"); ok {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return strings.Trim(last, "0123456789") == ""
}

// checkName checks an ASCII, lower-case DNS name. Underscores are allowed, as
// they occur in practice.
func checkName(name string) string {
	if name == "" {
		return "the host is missing"
	}
	if len(name) > 253 {
		return "the host is longer than 253 bytes"
	}
	for label := range strings.SplitSeq(name, ".") {
		if label == "" || len(label) > 63 {
			return "a label of the host is empty or longer than 63 bytes"
		}
		if label[0] == '-' || label[len(label)-1] == '-' {
			return "a label of the host begins or ends with a hyphen"
		}
		for i := 0; i < len(label); i++ {
			c := label[i]
			if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '_' {
				return "the host contains a character that host names cannot have"
			}
		}
	}
	return ""
}

func isASCII(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] >= 0x80 {
			return false
		}
	}
	return true
}
