package target

import (
	"slices"
	"strings"
)

// Includes reports whether r, of allow or ask, certainly matches every target
// and every address that q does. It compares the rules and never samples: yes
// is proof, and no may only mean that it cannot be shown.
func (r *Rule) Includes(q *Rule) bool {
	if r.deny || q.deny || r.scheme != q.scheme || r.port != q.port || !r.includesHost(q) || !r.includesMethods(q) {
		return false
	}
	if r.kind == hostAgent {
		return r.path == "" || r.path == q.path
	}
	if q.ask && !r.ask && r.path != "/**" && r.path != "" {
		return false // q matches either reading of an encoded slash
	}
	return r.path == "" || q.path != "" && includesPath(r.path, q.path)
}

func (r *Rule) includesMethods(q *Rule) bool {
	if r.methods == nil {
		return true
	}
	for _, m := range q.methods {
		if !slices.Contains(r.methods, m) {
			return false
		}
	}
	return q.methods != nil
}

func (r *Rule) includesHost(q *Rule) bool {
	switch q.kind {
	case hostName:
		return r.matchHost(q.host)
	case hostLiteral:
		return r.matchHost(q.addr.String()) && r.AllowsAddr(q.addr)
	case hostSocket, hostAgent:
		return r.kind == q.kind
	case hostBelow, hostAny:
		return r.kind == q.kind && r.host == q.host
	}
	return false
}

// deepest is how many segments stand for any number of them: more than a
// pattern of [MaxURL] bytes that has no ** can ever be long is not needed, as
// one that has fewer segments cannot match so many.
const deepest = 70

// includesPath writes q out with a text that p does not hold for each *, and
// with none to many segments for a ** at its end. What matches the text with a *
// matches any other there.
func includesPath(p, q string) bool {
	rare := "龘"
	for strings.Contains(p+q, rare) {
		rare += "龘"
	}
	if strings.Count(p, "/") >= deepest {
		return p == q
	}
	head, open := q, false
	if q == "/**" || strings.HasSuffix(q, "/**") {
		head, open = q[:len(q)-3], true
	}
	if strings.Contains(head, "**") {
		return p == q
	}
	for seg := range strings.SplitSeq(head, "/") {
		if strings.Contains(seg, "*") && seg != "*" {
			return p == q
		}
	}
	head = strings.ReplaceAll(head, "*", rare)
	if !open {
		return matchPath(p, head, false)
	}
	// ** in the last place also stands for no segment at all: /a/** matches /a.
	for range deepest + 1 {
		at := head
		if at == "" {
			at = "/"
		}
		if !matchPath(p, at, false) || at != "/" && !matchPath(p, at+"/", false) { // ** is also for a slash at the end
			return false
		}
		head += "/" + rare
	}
	return true
}

// Apart reports whether no target can match both rules, of allow or ask.
func (r *Rule) Apart(q *Rule) bool {
	if r.scheme != q.scheme || r.port != q.port {
		return true
	}
	if r.methods != nil && q.methods != nil && !slices.ContainsFunc(r.methods, func(m string) bool { return slices.Contains(q.methods, m) }) {
		// A connection whose requests nobody sees is matched by neither.
		return true
	}
	if r.kind == hostAgent || q.kind == hostAgent {
		return r.kind != q.kind || r.path != "" && q.path != "" && r.path != q.path
	}
	exact := func(r *Rule) bool { return r.kind == hostName || r.kind == hostLiteral }
	switch {
	case exact(r) && exact(q):
		if r.kind != q.kind || r.host != q.host || r.addr != q.addr {
			return true
		}
	case exact(r):
		if !q.includesHost(r) {
			return true
		}
	case exact(q):
		if !r.includesHost(q) {
			return true
		}
	}
	return r.path != "" && q.path != "" && !(r.ask && q.ask) && leadsApart(r.path, q.path) // two of ask can match one path in two readings
}

// leadsApart reports whether two path patterns differ in a segment that is
// literal in both, before either has a **.
func leadsApart(p, q string) bool {
	ps, qs := strings.Split(p, "/"), strings.Split(q, "/")
	for i := 0; i < len(ps) && i < len(qs); i++ {
		if ps[i] == "**" || qs[i] == "**" {
			return false
		}
		if ps[i] != qs[i] && !strings.Contains(ps[i]+qs[i], "*") {
			return true
		}
	}
	return !strings.Contains(p+q, "**") && len(ps) != len(qs)
}
