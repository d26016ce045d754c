package webfetch

import (
	"bytes"
	"context"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/net/html/charset"

	"github.com/remitrun/remit/internal/base/inspect"
	"github.com/remitrun/remit/internal/confine/network"
)

// about has the fields of an answer's header.
func about(asked string, resp *network.Response) map[string]any {
	out := map[string]any{"url": asked, "status_code": resp.StatusCode, "content_type": line(resp.Header.Get("Content-Type")),
		"size": max(resp.ContentLength, 0), "format": "raw", "truncated": false}
	if len(resp.Redirects) > 0 {
		out["final_url"] = resp.URL
	}
	if v := line(resp.Header.Get("Last-Modified")); v != "" {
		out["last_modified"] = v
	}
	if name := filename(resp.Header, resp.URL); name != "" {
		out["filename"] = name
	}
	return out
}

// line makes a header's value printable.
func line(s string) string {
	const most = 200
	s = strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.In(r, unicode.Cf) {
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "")
	}
	return s
}

// filename is the name of a page as a file: from its header, or else the last part of its
// URL.
func filename(h http.Header, from string) string {
	if _, params, err := mime.ParseMediaType(h.Get("Content-Disposition")); err == nil {
		if name := lastPart(params["filename"]); name != "" {
			return name
		}
	}
	u, err := url.Parse(from)
	if err != nil {
		return ""
	}
	if name := lastPart(u.Path); strings.Contains(strings.Trim(name, "."), ".") {
		return name
	}
	return ""
}

// lastPart is the last part of a path of any operating system.
func lastPart(s string) string {
	s = path.Base(strings.ReplaceAll(line(s), `\`, "/"))
	if s == "." || s == ".." || s == "/" {
		return ""
	}
	return s
}

// refuse says that an answer's content cannot be given.
func refuse(out map[string]any) map[string]any {
	out["error"] = "Binary content is not supported: only text (HTML, plain text, JSON and the like) can be fetched. What is known about it is given."
	return out
}

// kind is the kind of content that a content type declares.
type kind uint8

const (
	unknown kind = iota
	textual
	binary
)

// textTypes has the types below application/ that are text.
const textTypes = " json xml javascript ecmascript x-javascript yaml x-yaml toml sql graphql x-sh x-ndjson ndjson x-www-form-urlencoded rtf "

// classify reads the content type. The content decides for an unknown type that names a
// character set.
func classify(h http.Header) kind {
	media, params, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err != nil || media == "application/octet-stream" || media == "binary/octet-stream" {
		return unknown
	}
	family, sub, _ := strings.Cut(media, "/")
	switch {
	case family == "text", strings.HasSuffix(sub, "+json"), strings.HasSuffix(sub, "+xml"), strings.HasSuffix(sub, "+yaml"):
		return textual
	case family == "application" && containsName(textTypes, sub):
		return textual
	case family == "image", family == "audio", family == "video", family == "font", family == "model", family == "application" && params["charset"] == "":
		return binary
	}
	return unknown
}

// isBinary looks at the content itself, since servers often describe it wrongly.
func isBinary(h http.Header, b []byte) bool {
	if len(b) == 0 {
		return false
	}
	seen := http.DetectContentType(b)
	_, params, err := mime.ParseMediaType(seen)
	if err == nil && params["charset"] != "" && params["charset"] != "utf-8" { // a byte order mark
		return false
	}
	if classify(h) != textual {
		return !strings.HasPrefix(seen, "text/") || bytes.IndexByte(b, 0) >= 0
	}
	_, params, err = mime.ParseMediaType(h.Get("Content-Type"))
	wide := err == nil && strings.HasPrefix(strings.ToLower(params["charset"]), "utf-")
	return bytes.IndexByte(b, 0) >= 0 && !wide
}

// isHTML reports whether a content is a page that can be converted.
func isHTML(h http.Header, b []byte) bool {
	media, _, err := mime.ParseMediaType(h.Get("Content-Type"))
	if err == nil && media != "application/octet-stream" && media != "binary/octet-stream" {
		return media == "text/html" || media == "application/xhtml+xml"
	}
	return strings.HasPrefix(http.DetectContentType(b), "text/html")
}

// present converts a content to the requested format. Invisible parts of a page are left
// out, since they can hide instructions.
func present(ctx context.Context, body []byte, cut bool, resp *network.Response, a arguments) (content, format, note string) {
	text := decode(body, resp.Header.Get("Content-Type"), cut)
	if !isHTML(resp.Header, body) || !a.AsMarkdown && !a.AsText {
		return text, "raw", ""
	}
	if a.AsMarkdown {
		md, err := markdown(ctx, text, resp.URL)
		if err == nil {
			return inspect.Clean(md), "markdown", ""
		}
		note = "The page could not be converted to Markdown (" + err.Error() + "): this is its plain text."
	}
	return inspect.Clean(pageText(text)), "text", note
}

// decode returns a content as UTF-8. Servers often name the wrong character set, so a content
// that is valid UTF-8 beyond ASCII counts as UTF-8. Invalid bytes become U+FFFD.
func decode(b []byte, contentType string, cut bool) string {
	b = bytes.TrimPrefix(b, []byte("\xef\xbb\xbf"))
	if cut { // perhaps in the middle of a character
		for i := 1; i < utf8.UTFMax && i < len(b); i++ {
			if at := len(b) - i; utf8.RuneStart(b[at]) {
				if !utf8.FullRune(b[at:]) {
					b = b[:at]
				}
				break
			}
		}
	}
	if utf8.Valid(b) && bytes.IndexByte(b, 0) < 0 {
		return string(b)
	}
	enc, name, _ := charset.DetermineEncoding(b[:min(len(b), 1024)], contentType)
	if name == "utf-8" {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	out, err := enc.NewDecoder().Bytes(b)
	if err != nil {
		return strings.ToValidUTF8(string(b), "\uFFFD")
	}
	return strings.ToValidUTF8(string(out), "\uFFFD")
}
