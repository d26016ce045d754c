//go:build linux && (amd64 || arm64)

package linux

import (
	"fmt"
	"slices"
	"sync"

	"github.com/remitrun/remit/internal/authority/permit"
	"github.com/remitrun/remit/internal/base/tool"
)

// lateRefusals are refusals to processes that have outlived their commands, by the session's ID. The next command of the
// session records them.
type lateRefusals struct {
	mu sync.Mutex
	of map[string]*late
}

// late are the late refusals of one session. The different ones are bounded by maxLate; more counts the others.
type late struct {
	list []tool.Refused
	more int
}

const (
	maxLate         = 32
	maxLateSessions = 256
)

// add keeps a refusal to a process that a call has left.
func (l *lateRefusals) add(session string, by permit.Intent, r tool.Refused) {
	r.Reason += fmt.Sprintf("; by a process that call %d of run %s left", by.Call, by.Run)
	r.Count = 1
	l.mu.Lock()
	defer l.mu.Unlock()
	of := l.of[session]
	switch {
	case of == nil && len(l.of) >= maxLateSessions:
		return
	case of == nil && l.of == nil:
		l.of = map[string]*late{}
		fallthrough
	case of == nil:
		of = &late{}
		l.of[session] = of
	}
	i := slices.IndexFunc(of.list, func(x tool.Refused) bool { return x.Action == r.Action && x.Rule == r.Rule && x.Reason == r.Reason })
	switch {
	case i >= 0:
		of.list[i].Count++
	case len(of.list) < maxLate:
		of.list = append(of.list, r)
	default:
		of.more++
	}
}

// record notes the refusals of a session in the call of a later command.
func (l *lateRefusals) record(session string, p permit.Permit) {
	l.mu.Lock()
	of := l.of[session]
	delete(l.of, session)
	l.mu.Unlock()
	if of == nil {
		return
	}
	for _, r := range of.list {
		p.Refuse(r)
	}
	p.RefuseMore(of.more)
}
