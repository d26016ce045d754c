package openapi

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Bounds of kept answers.
const (
	maxAnswers     = 128
	maxAnswer      = 512 << 10 // bytes of one
	maxAnswersSize = 8 << 20   // bytes of all
	maxFresh       = 24 * time.Hour
)

// answer is a server's answer, read to its end.
type answer struct {
	status    int
	header    http.Header
	body      []byte
	truncated bool
	redirects int

	until time.Time // fresh until then
	used  int       // when it was used last, by count
}

// answers keeps answers by the rules of HTTP (RFC 9111), for this process alone:
// the private cache of a client that always sends the same credentials.
type answers struct {
	kept map[string]*answer
	size int
	uses int
}

// cacheable reports whether the answer to a request may be a kept one: the caller
// did not ask for a part of it, or for what changed.
func cacheable(r request) bool {
	for _, name := range []string{"If-Match", "If-None-Match", "If-Modified-Since", "If-Unmodified-Since", "If-Range", "Range", "Cache-Control"} {
		if len(r.header.Values(name)) > 0 {
			return false
		}
	}
	return r.method == http.MethodGet && r.body == nil
}

// cacheKey names a request: all of its parts that the caller decides about, and its credentials.
func cacheKey(r request, with held) string {
	var b strings.Builder
	b.WriteString(r.method + " " + r.url)
	for _, name := range slices.Sorted(maps.Keys(with)) {
		b.WriteString("\x00" + with[name])
	}
	if err := r.header.Write(&b); err != nil {
		return "" // a builder takes everything
	}
	return b.String()
}

// find returns a kept answer, and whether it may be used without asking.
func (c *answers) find(key string, now time.Time) (a *answer, fresh bool) {
	if a = c.kept[key]; a == nil {
		return nil, false
	}
	c.uses++
	a.used = c.uses
	return a, now.Before(a.until)
}

// put keeps an answer if it may be kept.
func (c *answers) put(key string, a *answer, now time.Time) {
	c.drop(key)
	fresh, keep := freshness(a, now)
	if !keep || a.truncated || len(a.body) > maxAnswer || a.status != http.StatusOK {
		return
	}
	if c.kept == nil {
		c.kept = map[string]*answer{}
	}
	for len(c.kept) >= maxAnswers || c.size+len(a.body) > maxAnswersSize {
		c.drop(c.oldest())
	}
	c.uses++
	a.until, a.used = now.Add(fresh), c.uses
	c.kept[key] = a
	c.size += len(a.body)
}

func (c *answers) oldest() string {
	out, used := "", 0
	for k, a := range c.kept {
		if out == "" || a.used < used {
			out, used = k, a.used
		}
	}
	return out
}

func (c *answers) drop(key string) {
	if a := c.kept[key]; a != nil {
		c.size -= len(a.body)
		delete(c.kept, key)
	}
}

// clear forgets everything: something was changed, but it is unknown which part.
func (c *answers) clear() { c.kept, c.size = nil, 0 }

// freshness says how long an answer may be used without asking, and whether it is
// to be kept at all: it is fresh for some time, or can be asked about.
func freshness(a *answer, now time.Time) (time.Duration, bool) {
	d := directives(a.header)
	if _, no := d["no-store"]; no || a.header.Get("Vary") == "*" {
		return 0, false
	}
	asked := a.header.Get("ETag") != "" || a.header.Get("Last-Modified") != ""
	if _, no := d["no-cache"]; no {
		return 0, asked
	}
	fresh := time.Duration(0)
	if text, ok := d["max-age"]; ok {
		secs, err := strconv.ParseInt(strings.Trim(text, `"`), 10, 32)
		if err != nil || secs < 0 {
			return 0, asked
		}
		fresh = time.Duration(secs) * time.Second
	} else if at, err := http.ParseTime(a.header.Get("Expires")); err == nil {
		fresh = at.Sub(now)
	}
	if age, err := strconv.ParseInt(a.header.Get("Age"), 10, 32); err == nil && age > 0 {
		fresh -= time.Duration(age) * time.Second
	}
	fresh = min(max(fresh, 0), maxFresh)
	return fresh, fresh > 0 || asked
}

func directives(h http.Header) map[string]string {
	out := map[string]string{}
	for _, line := range h.Values("Cache-Control") {
		for part := range strings.SplitSeq(line, ",") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			out[strings.ToLower(name)] = value
		}
	}
	return out
}

// conditional asks whether a kept answer still holds.
func (a *answer) conditional(h http.Header) {
	if tag := a.header.Get("ETag"); tag != "" {
		h.Set("If-None-Match", tag)
	}
	if at := a.header.Get("Last-Modified"); at != "" {
		h.Set("If-Modified-Since", at)
	}
}

// renewed is a kept answer with the new headers of a 304.
func (a *answer) renewed(h http.Header) *answer {
	out := &answer{status: a.status, header: a.header.Clone(), body: a.body}
	for _, name := range []string{"Cache-Control", "Date", "Etag", "Expires", "Last-Modified", "Vary", "Age"} {
		if v := h.Values(name); len(v) > 0 {
			out.header[name] = v
		}
	}
	return out
}
