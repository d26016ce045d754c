package target

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// cleanPath gives a URL path without dot segments twice: as sent, in which
// escapes stay as they were written, and decoded once, for comparison. An encoded
// slash is [EncodedSlash] in the decoded path. It refuses what servers read differently: encoded
// backslashes, a second layer of encoding, dot segments with parameters, after an empty
// segment, or beside an encoded slash.
func cleanPath(raw string) (sent, decoded, reason string) {
	if raw == "" {
		return "/", "/", ""
	}
	var kept, plain []string
	segments := strings.Split(raw[1:], "/")
	empty := false
	for i, seg := range segments {
		dec, reason := decodeSegment(seg)
		if reason != "" {
			return "", "", reason
		}
		last := i == len(segments)-1
		head, _, params := strings.Cut(dec, ";")
		dots := head == "." || head == ".."
		switch {
		case dots && params:
			return "", "", "a dot segment of the path has parameters"
		case dots && empty:
			return "", "", "the path has a dot segment after an empty one"
		case dots:
			if n := len(kept); dec == ".." && n > 0 {
				kept, plain = kept[:n-1], plain[:n-1]
			}
			if last {
				kept, plain = append(kept, ""), append(plain, "")
			}
		default:
			empty = empty || dec == ""
			kept, plain = append(kept, escapeSegment(seg)), append(plain, dec)
		}
	}
	return "/" + strings.Join(kept, "/"), "/" + strings.Join(plain, "/"), ""
}

// EncodedSlash stands for an encoded slash in a decoded path. Nothing else is decoded to it. Some servers take it
// for a slash and others for a character of the segment, so a rule has to hold for both.
const EncodedSlash = "%2F"

// decodeSegment decodes one segment of a path as it was written.
func decodeSegment(seg string) (dec, reason string) {
	parts := strings.Split(strings.ReplaceAll(seg, "%2f", EncodedSlash), EncodedSlash)
	for i := range parts {
		if parts[i], reason = decodePart(parts[i]); reason != "" {
			return "", reason
		}
		if head, _, _ := strings.Cut(parts[i], ";"); len(parts) > 1 && (head == "" || head == "." || head == "..") {
			return "", "the path has an encoded slash beside an empty or a dot segment"
		}
	}
	return strings.Join(parts, EncodedSlash), ""
}

func decodePart(seg string) (dec, reason string) {
	dec = seg
	if strings.Contains(seg, "%") {
		var b strings.Builder
		for i := 0; i < len(seg); i++ {
			c := seg[i]
			if c == '%' {
				if i+2 >= len(seg) || !isHex(seg[i+1]) || !isHex(seg[i+2]) {
					return "", "the path has an invalid percent escape"
				}
				c = unhex(seg[i+1])<<4 | unhex(seg[i+2])
				i += 2
				if c == '\\' {
					return "", "the path has an encoded backslash"
				}
			}
			b.WriteByte(c)
		}
		dec = b.String()
	}
	return dec, checkDecoded(dec)
}

func checkDecoded(dec string) (reason string) {
	if !utf8.ValidString(dec) {
		return "the decoded path is not UTF-8"
	}
	for _, r := range dec {
		if !unicode.IsGraphic(r) {
			return "the path has an encoded control or invisible character"
		}
	}
	for i := 0; i+2 < len(dec); i++ {
		if dec[i] == '%' && isHex(dec[i+1]) && isHex(dec[i+2]) {
			switch c := unhex(dec[i+1])<<4 | unhex(dec[i+2]); c {
			case '.', '/', '\\', '%', 0:
				return "the path has a doubly encoded separator, dot or NUL"
			}
		}
	}
	return ""
}

// escapeSegment escapes the bytes that RFC 3986 does not allow in a path and
// leaves escapes alone.
func escapeSegment(s string) string {
	return escape(s, "!$&'()*+,;=:@-._~%")
}

// escapeQuery does the same for a query, whose grammar has more characters.
func escapeQuery(s string) string {
	return escape(s, "!$&'()*+,;=:@-._~%/?[]{}|^`")
}

func escape(s, allowed string) string {
	const digits = "0123456789ABCDEF"
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		plain := c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
		if plain || c < 0x80 && strings.IndexByte(allowed, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		b.WriteByte('%')
		b.WriteByte(digits[c>>4])
		b.WriteByte(digits[c&15])
	}
	return b.String()
}

func isHex(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func unhex(c byte) byte {
	switch {
	case c >= 'a':
		return c - 'a' + 10
	case c >= 'A':
		return c - 'A' + 10
	}
	return c - '0'
}
