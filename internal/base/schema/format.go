package schema

import (
	"net/mail"
	"net/netip"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/remitrun/remit/internal/base/regex"
)

var hostForm = regex.Lazy(`^[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?(\.[A-Za-z0-9]([A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$`)

var pointerForm = regex.Lazy(`^(/([^~/]|~[01])*)*$`)

// hasFormat reports whether a text has a format. Drafts up to 7 ask for this; later ones
// take the format as a remark. A format that is not known here holds always.
func hasFormat(s, format string) bool {
	switch format {
	case "date-time":
		return parses(time.RFC3339, strings.ToUpper(s))
	case "date":
		return parses(time.DateOnly, s)
	case "time":
		return parses("15:04:05Z07:00", strings.ToUpper(s))
	case "email":
		a, err := mail.ParseAddress(s)
		return err == nil && a.Address == s
	case "hostname":
		return len(s) <= 253 && hostForm.MatchString(s)
	case "ipv4":
		a, err := netip.ParseAddr(s)
		return err == nil && a.Is4()
	case "ipv6":
		a, err := netip.ParseAddr(s)
		return err == nil && !a.Is4() && a.Zone() == ""
	case "uri":
		u, err := url.Parse(s)
		return err == nil && u.IsAbs()
	case "uri-reference":
		_, err := url.Parse(s)
		return err == nil && !strings.Contains(s, `\`)
	case "regex":
		_, err := regexp.Compile(s)
		return err == nil
	case "json-pointer":
		return pointerForm.MatchString(s)
	}
	return true
}

func parses(layout, s string) bool {
	_, err := time.Parse(layout, strings.Replace(s, ":60", ":59", 1)) // a leap second
	return err == nil
}
