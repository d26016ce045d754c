package provenance

import (
	"hash/maphash"
	"strings"
)

// linkIn is the URL, or the host name with or without a path, in a run of text without spaces;
// "": none. Punctuation at its end is not part of it.
func linkIn(w string) string {
	scheme := strings.Index(w, "://")
	if scheme < 0 {
		dot := strings.IndexByte(w, '.')
		if dot < 0 {
			return ""
		}
		w = strings.Trim(w, "()[]{},;|!?*:.")
		if bareLink(w) {
			return w
		}
		return ""
	}
	start := scheme
	for start > 0 && letter(w[start-1]) {
		start--
	}
	return strings.TrimRight(w[start:], ".,;:!?)]}|*")
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// extensions are endings of file names that are no top-level domains of links in text.
var extensions = func() map[string]bool {
	m := map[string]bool{}
	for _, e := range strings.Fields("c cc cfg conf cpp cs css csv diff doc docx exe gif go gz h hpp htm html ini ipynb java jpeg jpg js json jsx kt lock log lua m md mp3 mp4 odt patch pdf php pl png ppt pptx py rb rs rst sh sql svg swift tar tex toml ts tsx txt vue xls xlsx xml yaml yml zip") {
		m[e] = true
	}
	return m
}()

// bareLink reports whether a text without a scheme is a link: a host name that is not the name
// of a file, or one with a path.
func bareLink(w string) bool {
	host, path, _ := strings.Cut(w, "/")
	host, port, _ := strings.Cut(host, ":")
	if strings.Contains(host, "@") || strings.Trim(port, "0123456789") != "" {
		return false
	}
	dot := strings.LastIndexByte(host, '.')
	if dot <= 0 {
		return false
	}
	top := strings.ToLower(host[dot+1:])
	if len(top) < 2 || len(top) > 24 {
		return false
	}
	for i := 0; i < len(top); i++ {
		if !letter(top[i]) && top[i] < 0x80 && !strings.HasPrefix(top, "xn--") {
			return false
		}
	}
	for label := range strings.SplitSeq(host, ".") {
		if label == "" || strings.ContainsAny(label, "()[]{}=,;%$&*#?!|+~") {
			return false
		}
	}
	return path != "" || !extensions[top] || strings.HasPrefix(strings.ToLower(host), "www.")
}

// link hashes a link: its host without case, its scheme only if it is neither http nor https.
func (x *Index) link(l string) uint64 {
	scheme, rest, ok := strings.Cut(l, "://")
	if !ok {
		scheme, rest = "", l
	}
	switch scheme = strings.ToLower(scheme); scheme {
	case "http", "https":
		scheme = ""
	}
	rest, _, _ = strings.Cut(rest, "#")
	host, path := rest, ""
	if i := strings.IndexAny(rest, "/?"); i >= 0 {
		host, path = rest[:i], rest[i:]
	}
	if path == "/" {
		path = ""
	}
	if len(path) > 1 && !strings.ContainsAny(path, "?") {
		path = strings.TrimSuffix(path, "/")
	}
	return join(x.hash(scheme+"://"+host), maphash.String(x.seed, path)) ^ linkKind
}

// IsLink reports whether a text is one URL, or a host name with or without a path.
func IsLink(s string) bool {
	s = fold(s)
	return linkIn(s) == s && s != ""
}
