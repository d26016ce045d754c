package httptool

import (
	"bytes"
	"encoding/base64"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/remitrun/remit/internal/base/fault"
	"github.com/remitrun/remit/internal/confine/network"
)

// output reads at most max bytes of an answer's body and describes the answer.
func output(resp *network.Response, most int64) (map[string]any, error) {
	content, truncated, err := read(resp.Body, most)
	if err != nil {
		return nil, err
	}
	redirects := resp.Redirects
	if redirects == nil {
		redirects = []string{}
	}
	out := map[string]any{
		"status":      resp.StatusCode,
		"status_text": http.StatusText(resp.StatusCode),
		"url":         resp.URL,
		"headers":     lowerCase(resp.Header),
		"redirects":   redirects,
		"truncated":   truncated,
	}
	if truncated {
		content = wholeRunes(content)
		out["next_offset"] = len(content)
		if resp.ContentLength >= 0 && !resp.Uncompressed {
			out["bytes_total"] = resp.ContentLength
		}
	} else {
		out["bytes_total"] = len(content)
	}
	out["bytes_returned"] = len(content)
	if isText(content, resp.Header.Get("Content-Type")) {
		out["content"], out["encoding"] = string(content), "utf-8"
	} else {
		out["content_base64"], out["encoding"] = base64.StdEncoding.EncodeToString(content), "base64"
	}
	return out, nil
}

// read reads up to max bytes and says whether there were more.
func read(body io.Reader, most int64) (content []byte, truncated bool, err error) {
	content, err = io.ReadAll(io.LimitReader(body, most))
	if err != nil || int64(len(content)) < most {
		return content, false, err
	}
	_, err = io.ReadFull(body, make([]byte, 1))
	switch {
	case err == nil, errors.Is(err, fault.LimitReached):
		return content, true, nil
	case errors.Is(err, io.EOF):
		return content, false, nil
	}
	return nil, false, err
}

// wholeRunes drops the bytes of a character that was cut in two.
func wholeRunes(b []byte) []byte {
	for i := 1; i < utf8.UTFMax && i <= len(b); i++ {
		if c := b[len(b)-i]; utf8.RuneStart(c) {
			if c >= utf8.RuneSelf && !utf8.FullRune(b[len(b)-i:]) && utf8.Valid(b[:len(b)-i]) {
				return b[:len(b)-i]
			}
			break
		}
	}
	return b
}

// isText reports whether a body can be given as a text without loss and is not
// declared to be something else.
func isText(b []byte, contentType string) bool {
	if !utf8.Valid(b) || bytes.IndexByte(b, 0) >= 0 {
		return false
	}
	kind, _, err := mime.ParseMediaType(contentType)
	if err != nil || kind == "image/svg+xml" {
		return true
	}
	switch family, _, _ := strings.Cut(kind, "/"); family {
	case "image", "audio", "video", "font":
		return false
	}
	return true
}

func lowerCase(h http.Header) map[string][]string {
	out := make(map[string][]string, len(h))
	for name, values := range h {
		name = strings.ToLower(name)
		for _, v := range values {
			out[name] = append(out[name], strings.ToValidUTF8(v, "\uFFFD"))
		}
	}
	return out
}
